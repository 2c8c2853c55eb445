"""Embedding methods: interchangeable siblings, one file each."""
