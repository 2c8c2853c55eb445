"""Modules for use in any PyTorch model, where an ``nn.Embedding`` stood."""

from __future__ import annotations

from cerp.models.embeddings.compositional import CompositionalEmbedding
from cerp.models.embeddings.diagnostics import Diagnostics
from cerp.pruning.clocks import ScheduledClock

__all__ = ["CompositionalEmbedding", "Diagnostics", "ScheduledClock"]
