"""The words that a setting can be: one list for configuration, code and command line."""

from __future__ import annotations

from typing import Literal

Optimizer = Literal["adam", "adamw"]
Schedule = Literal["constant", "cosine"]
PruneMode = Literal["scheduled", "free", "magnitude", "gradual"]
ThresholdStart = Literal["ones", "uniform", "normal", "long-tail", "xavier-uniform"]
StallAction = Literal["project", "stop", "report"]
Rewind = Literal["initial", "pruned"]
Refit = Literal["train+valid", "all"]
ValuePrecision = Literal["fp32", "fp16", "int8", "int4"]
"""Of the values in a model file."""
ComputePrecision = Literal["float32", "bfloat16"]
"""Of the products in training."""
Assignment = Literal["hash", "learned"]
"""Of codebook rows to entities."""
Hashing = Literal["balanced", "paper", "quotient-remainder"]
Mix = Literal["together", "sharp"]
"""When the graph filter joins vectors, other than after training."""
Head = Literal["dot", "tower"]
"""How two vectors become a score."""
