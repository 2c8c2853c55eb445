"""`cerp.fit_to_size`: several kinds of model for one limit in bytes, and validation chooses."""
