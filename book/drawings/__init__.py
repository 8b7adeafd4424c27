"""Drawings of the book: scenes made of the library's own records and laws, a module for each subject."""
