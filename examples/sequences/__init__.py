"""Sequence models: one item table under a budget."""
