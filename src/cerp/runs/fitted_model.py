"""`FittedModel`: what a run gives back for a budget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from cerp.artifact import Encoding, ShippedModel, StoredVectors, decode, encode
from cerp.artifact.model import LeastSquares
from cerp.config import Config
from cerp.data.ids import Id, Int32Array
from cerp.data.interactions import Interactions
from cerp.data.splits import Splits
from cerp.errors import ConfigError
from cerp.evaluation.cold_start import with_popularity
from cerp.evaluation.evaluate import Scorer
from cerp.evaluation.metrics import Metrics
from cerp.export.item_only import items_only
from cerp.export.size_limit import SizeLimit, fitted_into, within
from cerp.export.to_arrays import (
    Graph,
    code_seen_ahead,
    composed,
    file_facts,
    scorer_of,
    ship,
    ship_filter,
    ship_items,
)
from cerp.files import write_bytes
from cerp.graph.item_models import ItemModel
from cerp.graph.neighbours import NeighbourScorer
from cerp.graph.scorers import scorer_with
from cerp.graph.term import FilterTerm
from cerp.models.recommender import Recommender
from cerp.runs.facts import ModelFacts
from cerp.runtime import Recommendation, Runtime
from cerp.sizing.file_overhead import longest_facts

if TYPE_CHECKING:
    from cerp.evaluation.ranking import Scores


@dataclass(frozen=True, eq=False, repr=False)
class FittedModel:
    """One trained model: it recommends, can be judged, and is saved to a file.

    It answers `recommend`, `recommend_many`, `recommend_for` and `similar_items` as
    the saved file will (see `cerp.Runtime`), and `cerp.evaluate` takes either.
    """

    recommender: Recommender | None
    """Embedding and backbone; None: the filter alone ranks, or a model of items."""
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
    filter: FilterTerm | None = None
    """What the graph filter adds to a score; None: nothing."""
    item_model: ItemModel | None = None
    """What is known of items alone: it ranks from the items of whoever asks."""
    folding: LeastSquares | None = None
    """How someone new gets a vector, where not as in any model."""

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

    def score_all(self, users: Int32Array) -> Scores:
        """Scores of every item for users by code, for `cerp.evaluate`."""
        return self._scorer.score_all(users)

    @property
    def device(self) -> torch.device:
        """Where scores are computed."""
        return torch.device("cpu") if self.recommender is None else self.recommender.device

    @property
    def tabled_values(self) -> int:
        """How many numbers propagated vectors have, which a file can hold in place of a graph."""
        if self.recommender is None or not self.recommender.backbone.needs_graph:
            return 0
        return self.splits.num_entities * self.recommender.embedding.embedding_dim

    @property
    def is_judged_whole(self) -> bool:
        """Whether scores of a file take all of it; elsewhere its vectors are enough."""
        return self.item_model is not None or self.config.item_only

    def scorer(self, file: ShippedModel | StoredVectors | None = None) -> Scorer:
        """Scores as the model has them in memory, or as a file of it has them."""
        if self.is_judged_whole:
            # As it is used: everybody brings their items.
            whole = file if isinstance(file, ShippedModel) else decode(self.file())
            return item_scorer(whole, self.splits.train)
        vectors = None
        if self.recommender is not None:
            vectors = (
                self.recommender.scorer() if file is None else scorer_of(self.recommender, file)
            )
        train = self.splits.train
        if self.filter is not None:
            return with_popularity(scorer_with(self.filter, train, vectors), train)
        assert vectors is not None, "a model has vectors, a filter, or both"
        return with_popularity(vectors, train)

    def file(
        self,
        encoding: Encoding | None = None,
        *,
        graph: Graph = "edges",
        limit: SizeLimit | None = None,
        titles: Mapping[Id, str] | None = None,
    ) -> bytes:
        """The model file: as the run wrote it, in its limit; or in another encoding or limit.

        Titles are those of the data, where they fit beside all values.
        """
        own = self.size if encoding is None else SizeLimit()
        limit, encoding = limit or own, encoding or self.encoding
        if graph == "tables" and encoding.seen and self.recommender is not None:
            code_seen_ahead(self.recommender, self.splits)
        if titles is None and limit.file is None:
            titles = self.splits.titles
        elif titles is None and self.splits.titles:
            titled = encode(self._shipped(graph, self.splits.titles), encoding)
            if limit.excess(titled) <= 0:
                return titled
        shipped = self._shipped(graph, titles)
        if self.config.item_only and self.recommender is not None:
            # What fits is what was judged, however many digits the figures turned out to have.
            longest = longest_facts(
                self.config, self.splits, self.budget, self.limit, self.facts.assignment
            )
            fitted = fitted_into(replace(shipped, facts=longest), encoding, limit)
            shipped = replace(fitted, facts=shipped.facts)
        return within(shipped, encoding, limit)

    def _shipped(self, graph: Graph, titles: Mapping[Id, str] | None) -> ShippedModel:
        facts = file_facts(
            self.config,
            self.splits,
            self.budget,
            self.limit,
            self.metrics,
            self.facts.assignment,
            has_vectors=self.recommender is not None,
        )
        if self.recommender is None:
            if graph == "tables":
                raise ConfigError(
                    f"a model of {self.config.method!r} has no vectors, so no propagated tables "
                    "either"
                )
            if self.item_model is not None:
                return ship_items(self.item_model, self.splits, facts, titles, self.filter)
            assert self.filter is not None, "a model has vectors, a filter, or items alone"
            return ship_filter(self.filter, self.splits, facts, titles)
        shipped = ship(
            self.recommender,
            self.splits,
            self.config.backbone,
            graph=graph,
            facts=facts,
            titles=titles,
        )
        if self.config.item_only:
            return items_only(shipped)
        return replace(shipped, filter=self.filter, folding=self.folding)

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
        made = f"{config.method} at {facts.budget}, {config.backbone}, dim {config.dim}"
        stored = f"{facts.nnz:,} values as {facts.values}"
        if self.recommender is None:
            made, stored = config.method, "no values"
        if self.item_model is not None:
            made, stored = f"{config.method} at {facts.budget}", f"{facts.nnz:,} values"
        return (
            f"FittedModel({made}, seed {config.seed})\n"
            f"  {self.splits.num_users:,} users x {self.splits.num_items:,} items; "
            f"{stored}, {size}\n"
            f"  {figures or 'not judged'}"
        )

    @cached_property
    def _runtime(self) -> Runtime:
        return Runtime(decode(self.file(graph=self._graph)))

    @cached_property
    def _scorer(self) -> Scorer:
        return self.scorer()

    @property
    def _graph(self) -> Graph:
        if self.recommender is None:
            return "edges"
        try:
            composed(self.recommender.embedding)
        except ConfigError:
            return "tables" if self.recommender.backbone.needs_graph else "edges"
        return "edges"


def item_scorer(file: ShippedModel, train: Interactions) -> Scorer:
    """A file without users judged on those of training, whose histories are the training rows."""
    if file.neighbours is not None:
        return NeighbourScorer(file.neighbours, train)
    return Runtime(file).with_histories(train)
