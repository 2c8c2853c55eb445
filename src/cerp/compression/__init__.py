"""A table of vectors that is there already, in a file of a limited size."""
