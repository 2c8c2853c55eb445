"""The version, in one place; a test ties it to the changelog."""

__version__ = "0.1.0"
