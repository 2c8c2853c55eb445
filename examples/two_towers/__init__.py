"""Two towers with in-batch softmax."""
