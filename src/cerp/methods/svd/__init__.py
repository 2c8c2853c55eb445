"""Vectors of items by a scaled SVD: nothing is trained, and no user is in the file."""
