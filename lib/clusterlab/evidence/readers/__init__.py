"""Readers: the output of programs that people run, found by its content, one module each.

They stand beside the tables of :mod:`clusterlab.evidence`, whose columns they fill, and know no law.
"""
