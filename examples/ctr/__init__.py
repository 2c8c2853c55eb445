"""Click models: many fields under one budget."""
