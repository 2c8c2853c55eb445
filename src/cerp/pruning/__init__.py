"""Which values are kept: soft thresholds, their clocks, exact projection."""
