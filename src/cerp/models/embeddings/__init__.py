"""Vectors of entities, from full tables or from codebooks."""
