"""From a trained recommender to plain arrays, and to a file of a limited size."""
