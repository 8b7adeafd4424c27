"""The book's drawings, made of the library's own records and laws: a room for each chapter."""
