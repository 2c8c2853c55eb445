"""AutoEmb."""
