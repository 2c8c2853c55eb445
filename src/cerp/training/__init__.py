"""The loop, and what goes into a step of it."""
