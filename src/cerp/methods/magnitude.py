"""Magnitude pruning: what learned thresholds have to beat."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

from cerp.assignment.codes import Codes
from cerp.config import PruneConfig
from cerp.errors import ConfigError
from cerp.methods.base import Context
from cerp.methods.cerp import Cerp
from cerp.methods.pep import Pep
from cerp.methods.pruned import Pruned
from cerp.models.embeddings.prunable import PrunableEmbedding

PrunedWeights = Literal["table", "codebooks"]


class Magnitude(Pruned):
    """The largest entries after plain training, which goes on from there.

    ``of`` says of what: a full ``table``, or CERP's ``codebooks``, which shows
    what its thresholds and its penalty are worth.
    """

    def __init__(self, of: PrunedWeights = "table") -> None:
        if of not in get_args(PrunedWeights):
            raise ConfigError(f"magnitude pruning of {of!r}: choose table or codebooks")
        self._dense: Pruned = Pep() if of == "table" else Cerp()
        self.is_ordered, self.learns_rows = self._dense.is_ordered, self._dense.learns_rows

    def codes(self, context: Context) -> Codes | None:
        """Those of the codebooks, if it prunes codebooks."""
        return self._dense.codes(context)

    def fresh(self, context: Context) -> PrunableEmbedding:
        """The full table, or the codebooks."""
        return self._dense.fresh(context)

    def pruning(self, context: Context) -> PruneConfig:
        """No thresholds and no penalty."""
        return replace(context.config.prune, mode="magnitude")
