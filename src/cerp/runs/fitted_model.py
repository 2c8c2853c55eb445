"""`FittedModel`: what a run gives back for a budget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from cerp.artifact import Encoding, decode
from cerp.config import Config
from cerp.data.ids import Id, Int32Array
from cerp.data.splits import Splits
from cerp.errors import ConfigError
from cerp.evaluation.metrics import Metrics
from cerp.export.size_limit import SizeLimit, within
from cerp.export.to_arrays import Graph, composed, file_facts, ship
from cerp.files import write_bytes
from cerp.models.backbones import TorchScorer
from cerp.models.recommender import Recommender
from cerp.runs.facts import ModelFacts
from cerp.runtime import Recommendation, Runtime


@dataclass(frozen=True, eq=False, repr=False)
class FittedModel:
    """One trained model: it recommends, can be judged, and is saved to a file.

    It answers `recommend`, `recommend_many`, `recommend_for` and `similar_items` as
    the saved file will (see `cerp.Runtime`), and `cerp.evaluate` takes either.
    """

    recommender: Recommender
    splits: Splits
    """What it was trained on; after a refit, more than what selected it."""
    config: Config
    facts: ModelFacts
    """Counts, bytes, epochs, seconds and figures."""
    encoding: Encoding = field(default_factory=Encoding)
    """How the model is written to a file, unless `save` is told otherwise."""
    size: SizeLimit = field(default_factory=SizeLimit)
    """How many bytes it may take, in its own encoding."""
    judged: dict[str, Metrics] = field(default_factory=dict)
    """The metrics with per-user values; empty for a model that was read from a run."""

    @property
    def budget(self) -> str:
        """As the caller wrote it."""
        return self.facts.budget

    @property
    def limit(self) -> int:
        """The largest number of values that the budget allows."""
        return self.facts.limit

    @property
    def metrics(self) -> dict[str, dict[str, Any]]:
        """``metrics["test"]["ndcg@10"]``: valid and test, where they may be looked at."""
        return self.facts.metrics

    @property
    def trained_on(self) -> str:
        """The fingerprint of its training data, so that it is not judged on what it learned."""
        return self.splits.fingerprint

    def recommend(self, user: Id, k: int = 10, **options: Any) -> list[Recommendation]:
        """The k best items for a user; see `cerp.Runtime.recommend`."""
        return self._runtime.recommend(user, k, **options)

    def recommend_many(
        self, users: Iterable[Id], k: int = 10, **options: Any
    ) -> list[list[Recommendation]]:
        """A list for each of several users; see `cerp.Runtime.recommend_many`."""
        return self._runtime.recommend_many(users, k, **options)

    def recommend_for(
        self, liked: Iterable[Id], k: int = 10, **options: Any
    ) -> list[Recommendation]:
        """The k best items for someone new; see `cerp.Runtime.recommend_for`."""
        return self._runtime.recommend_for(liked, k, **options)

    def similar_items(self, item: Id, k: int = 10, **options: Any) -> list[Recommendation]:
        """The k items most like one; see `cerp.Runtime.similar_items`."""
        return self._runtime.similar_items(item, k, **options)

    def score_all(self, users: Int32Array) -> Tensor:
        """Scores of every item for users by code, for `cerp.evaluate`."""
        return self._scorer.score_all(users)

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
            facts=file_facts(
                self.config,
                self.splits,
                self.budget,
                self.limit,
                self.metrics,
                self.facts.assignment,
            ),
            titles=titles,
        )
        return within(shipped, encoding or self.encoding, limit)

    def save(self, path: str | Path, encoding: Encoding | None = None, **options: Any) -> int:
        """Write the model file.

        Parameters
        ----------
        path
            Where to; a file that is there is replaced once the new one is whole.
        encoding
            How; None: as the run decided.
        **options
            Those of `file`. Without ``graph``, a LightGCN whose embedding cannot be written
            (DHE's network, say) is saved as propagated tables.

        Returns
        -------
        int
            The bytes that it takes.

        """
        data = self.file(encoding, **{"graph": self._graph, **options})
        write_bytes(Path(path), data)
        return len(data)

    def __repr__(self) -> str:
        facts, config = self.facts, self.config
        size = "no file" if facts.file_bytes is None else f"{facts.file_bytes:,} bytes of file"
        name = facts.selection_metric
        figures = ", ".join(
            f"{part} {name.upper()} {metrics[name]:.4f}" for part, metrics in facts.metrics.items()
        )
        return (
            f"FittedModel({config.method} at {facts.budget}, {config.backbone}, dim {config.dim}, "
            f"seed {config.seed})\n"
            f"  {self.splits.num_users:,} users x {self.splits.num_items:,} items; "
            f"{facts.nnz:,} values as {facts.values}, {size}\n"
            f"  {figures or 'not judged'}"
        )

    @cached_property
    def _runtime(self) -> Runtime:
        return Runtime(decode(self.file(graph=self._graph)))

    @cached_property
    def _scorer(self) -> TorchScorer:
        return self.recommender.scorer()

    @property
    def _graph(self) -> Graph:
        try:
            composed(self.recommender.embedding)
        except ConfigError:
            return "tables" if self.recommender.backbone.needs_graph else "edges"
        return "edges"
