"""Implicit ALS: vectors by least squares in turns, through the package `implicit`."""
