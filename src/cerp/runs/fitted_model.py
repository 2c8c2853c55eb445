"""`FittedModel`: what a run gives back for a budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from cerp.artifact import Encoding, decode
from cerp.config import Config
from cerp.data.ids import Id
from cerp.data.splits import Splits
from cerp.errors import ConfigError
from cerp.evaluation.metrics import Metrics
from cerp.export.to_arrays import Graph, SizeLimit, file_facts, ship, within
from cerp.files import write_bytes
from cerp.models.recommender import Recommender
from cerp.runtime import Recommendation, Runtime


@dataclass(eq=False)
class FittedModel:
    """One trained model, with what is known of it."""

    budget: str
    limit: int
    """The largest number of values that the budget allows."""
    recommender: Recommender
    splits: Splits
    """What it was trained on; after a refit, more than what selected it."""
    config: Config
    facts: dict[str, Any]
    """nnz, average dimension, overlap, bytes, epochs, seconds: ready for JSON."""
    metrics: dict[str, dict[str, Any]]
    """``metrics["test"]["ndcg@10"]``: valid and test, where they may be looked at."""
    encoding: Encoding = field(default_factory=Encoding)
    """How the model is written to a file, unless `save` is told otherwise."""
    size: SizeLimit = field(default_factory=SizeLimit)
    """How many bytes it may take, in its own encoding."""
    judged: dict[str, Metrics] = field(default_factory=dict, repr=False)
    """The metrics with per-user values; empty for a model that was read from a run."""

    def recommend(self, user: Id, k: int = 10, **options: Any) -> list[Recommendation]:
        """The k best items for a user, as `cerp.load` of the saved model would give them."""
        return self._runtime.recommend(user, k, **options)

    def file(
        self,
        encoding: Encoding | None = None,
        *,
        graph: Graph = "edges",
        limit: SizeLimit | None = None,
        titles: Mapping[Id, str] | None = None,
    ) -> bytes:
        """The model file: as the run wrote it, in its limit; or in another encoding or limit.

        Titles are those of the data, unless the file may take only so many bytes.
        """
        own = self.size if encoding is None else SizeLimit()
        limit = limit or own
        if titles is None and limit.file is None:
            titles = self.splits.titles
        shipped = ship(
            self.recommender,
            self.splits,
            self.config.backbone,
            graph=graph,
            facts=file_facts(self.config, self.splits, self.budget, self.limit, self.metrics),
            titles=titles,
        )
        return within(shipped, encoding or self.encoding, limit)

    def save(self, path: str | Path, encoding: Encoding | None = None, **options: Any) -> int:
        """Write the model file; the bytes it takes. Options are those of `file`.

        Without ``graph``, a LightGCN whose embedding cannot be written (DHE's network, say) is
        saved as propagated tables.
        """
        data = self.file(encoding, **{"graph": self._graph, **options})
        write_bytes(Path(path), data)
        return len(data)

    def summary(self) -> dict[str, Any]:
        """Budget, limit, facts and metrics."""
        return {"budget": self.budget, "limit": self.limit, **self.facts, **self.metrics}

    @cached_property
    def _runtime(self) -> Runtime:
        return Runtime(decode(self.file(graph=self._graph)))

    @property
    def _graph(self) -> Graph:
        try:
            self.recommender.embedding.composed()
        except ConfigError:
            return "tables" if self.config.backbone == "lightgcn" else "edges"
        return "edges"
