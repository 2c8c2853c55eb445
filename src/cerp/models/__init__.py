"""A recommender is one embedding joined to one backbone."""
