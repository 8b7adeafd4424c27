"""The problem sets: a module for each chapter, and the capstone."""
