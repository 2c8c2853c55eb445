"""Modules for use in any PyTorch model, where an ``nn.Embedding`` stood."""

from __future__ import annotations

from cerp.embeddings.cerp import CompositionalEmbedding
from cerp.embeddings.diagnostics import Diagnostics
from cerp.thresholds import ScheduledClock

__all__ = ["CompositionalEmbedding", "Diagnostics", "ScheduledClock"]
