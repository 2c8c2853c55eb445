"""One judge for every model, and what it takes to believe it."""
