"""ESAPN."""
