"""LEGCF: a few vectors that entities are weighted sums of, in one graph with them."""
