"""Seeded attacks on everything that reads what others wrote: `python -m campaigns`."""
