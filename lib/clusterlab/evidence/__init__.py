"""Evidence: published measurements, held against the laws. Nothing outside this package imports it."""
