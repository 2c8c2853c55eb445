"""Which rows of which tables make the vector of an entity."""
