"""From a trained model to plain arrays, and back.

`ship` turns a trained recommender into what a model file holds, and `as_shipped`
gives back the recommender as a file has it, values rounded and all, so that what
is judged is what is shipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from cerp._version import __version__
from cerp.artifact import (
    ComposedEmbedding,
    Index,
    PropagatedTables,
    Seen,
    ShippedModel,
    StoredVectors,
    Table,
)
from cerp.artifact.edges import encode_seen
from cerp.artifact.model import FloatArray
from cerp.artifact.permutation import encode_permutation
from cerp.artifact.scoring_words import scoring_word
from cerp.choices import Assignment
from cerp.config import Config
from cerp.data.ids import Id, Ids, Int32Array
from cerp.data.interactions import Interactions
from cerp.data.splits import Splits
from cerp.errors import ConfigError
from cerp.evaluation.cold_start import items_without_rows, users_without_rows
from cerp.graph.item_models import ItemModel
from cerp.graph.neighbours import Neighbours
from cerp.graph.term import FilterTerm
from cerp.models.backbones import Backbone, TorchScorer
from cerp.models.backbones.base import DotScorer
from cerp.models.embeddings.base import Embedding
from cerp.models.recommender import Recommender

Graph = Literal["edges", "tables"]
USERS_AT_ONCE = 1 << 16
"""Whose vectors are made together: where a graph is gone through for them, what is looked at takes
more than they do."""
CONVENTIONS_IN_BRIEF = (
    "full ranking; training items masked (at test time validation items too); items unseen in "
    "training kept; ties by item order; NDCG's ideal cut at min(k, |truth|)"
)
"""How the figures in a file came about; `cerp.evaluation.metrics.CONVENTIONS` says it all."""
COLD_START_IN_BRIEF = (
    "full ranking; training items masked (at test time validation items too); items unseen in "
    "training kept in the truth and not recommended; users without training rows get popularity; "
    "ties by item order; NDCG's ideal cut at min(k, |truth|)"
)
"""The same where some users or items were not in training."""


@torch.no_grad()
def composed(embedding: Embedding) -> ComposedEmbedding:
    """An embedding as plain arrays; an error where its vectors are not rows of tables."""
    stored = embedding.stored()
    return ComposedEmbedding(
        tuple(
            Table(
                entry.index,
                _array(entry.weight if entry.mask is None else entry.weight * entry.mask),
                None if entry.mask is None else entry.mask.cpu().numpy(),
            )
            for entry in stored.tables
        ),
        stored.combine,
    )


@torch.no_grad()
def load_composed(embedding: Embedding, arrays: ComposedEmbedding) -> None:
    """Give an embedding what `composed` took from it, with values rounded or left out."""
    for entry, table in zip(embedding.stored().tables, arrays.tables, strict=True):
        entry.weight.copy_(torch.from_numpy(np.array(table.weight)))
        if entry.mask is not None and table.mask is not None:
            entry.mask.copy_(torch.from_numpy(np.array(table.mask)))


def _array(weight: Tensor) -> FloatArray:
    return weight.detach().cpu().float().numpy().copy()


def code_seen_ahead(recommender: Recommender, splits: Splits) -> None:
    """Code what users have seen while tables are not there: beside large ones there is no room.

    It is kept until the file asks for it (`cerp.artifact.once`).
    """
    positions = _positions(recommender.embedding)
    if positions is not None:
        encode_permutation(positions)
    encode_seen(_edges(splits), len(splits.items), positions)


def _positions(embedding: Embedding) -> Int32Array | None:
    positions = getattr(embedding, "positions", None)
    return None if positions is None else positions.cpu().numpy()


def ship(
    recommender: Recommender,
    splits: Splits,
    backbone: str,
    *,
    graph: Graph = "edges",
    facts: Mapping[str, Any] | None = None,
    titles: Mapping[Id, str] | None = None,
) -> ShippedModel:
    """A trained recommender as plain arrays.

    What is propagated goes with the training graph (``edges``), to propagate at load, or
    with its vectors after propagation (``tables``): larger, and ready at once.
    Of titles, if there are any, an item without one is called by its id.
    """
    if graph == "tables" and not recommender.backbone.layers:
        raise ConfigError(f"the backbone {backbone!r} has no graph, so no propagated tables either")
    embedding = recommender.embedding
    return assembled(
        splits,
        backbone,
        recommender.backbone,
        final_vectors(recommender) if graph == "tables" else composed(embedding),
        _positions(embedding),
        dict(facts or {}),
        _titles(splits, titles),
    )


def ship_filter(
    term: FilterTerm,
    splits: Splits,
    facts: Mapping[str, Any],
    titles: Mapping[Id, str] | None = None,
) -> ShippedModel:
    """A filter without vectors as plain arrays: the training graph, and its exponents."""
    return ShippedModel(
        facts=dict(facts),
        users=splits.users,
        items=splits.items,
        head=None,
        embedding=None,
        seen=_edges(splits),
        filter=term,
        titles=_titles(splits, titles),
    )


def ship_items(
    model: ItemModel,
    splits: Splits,
    facts: Mapping[str, Any],
    titles: Mapping[Id, str] | None = None,
    term: FilterTerm | None = None,
) -> ShippedModel:
    """A model of items as plain arrays: no users, and nothing of what they took.

    With a graph filter beside it there are both.
    """
    if term is None:
        shipped = ShippedModel(
            facts=dict(facts),
            users=Ids.range(0),
            items=splits.items,
            head=None,
            embedding=None,
            titles=_titles(splits, titles),
        )
    else:
        shipped = ship_filter(term, splits, facts, titles)
    if isinstance(model, Neighbours):
        return replace(shipped, neighbours=model)
    if model.codes is None:
        tables = [Table(Index("identity"), model.books[0])]
    else:
        tables = [
            Table(Index("coded", len(book), codes=np.ascontiguousarray(codes)), book)
            for book, codes in zip(model.books, model.codes.T, strict=True)
        ]
    return replace(shipped, head="dot", embedding=ComposedEmbedding(tuple(tables)), sums=model.sums)


def _edges(splits: Splits) -> Seen:
    return Seen(splits.train.user_offsets.astype(np.int64), splits.train.item)


def _titles(splits: Splits, titles: Mapping[Id, str] | None) -> list[str] | None:
    """Of all items; one without a title is called by its id."""
    if not titles:
        return None
    return [titles.get(item, str(item)) for item in splits.items.values.tolist()]


def assembled(
    splits: Splits,
    name: str,
    backbone: Backbone,
    embedding: ComposedEmbedding | PropagatedTables,
    positions: Int32Array | None,
    facts: dict[str, Any],
    titles: list[str] | None = None,
) -> ShippedModel:
    """Everything that serving needs, from its parts."""
    if backbone.head is None:
        raise ConfigError(
            f"a model file cannot hold the backbone {name!r}: its scores are neither a dot product "
            "nor a tower of two vectors"
        )
    if name != scoring_word(backbone.head, backbone.layers):
        facts = {**facts, "backbone": name}
    return ShippedModel(
        facts=facts,
        users=splits.users,
        items=splits.items,
        head=backbone.head,
        embedding=embedding,
        positions=positions,
        layers=backbone.layers,
        weights={
            key: tensor.detach().cpu().float().numpy()
            for key, tensor in backbone.shipped_weights().items()
        },
        seen=_edges(splits),
        titles=titles,
    )


def as_shipped(recommender: Recommender, model: ShippedModel | StoredVectors) -> Recommender:
    """A copy of the recommender with the values that a model file has."""
    twin = deepcopy(recommender)
    if isinstance(model.embedding, ComposedEmbedding):
        load_composed(twin.embedding, model.embedding)
    weights = {name: torch.from_numpy(np.array(value)) for name, value in model.weights.items()}
    twin.backbone.load_state_dict(weights)
    return twin


def scorer_of(recommender: Recommender, model: ShippedModel | StoredVectors) -> TorchScorer:
    """A scorer of the model as its file has it, on the recommender's device."""
    if isinstance(model.embedding, ComposedEmbedding):
        return as_shipped(recommender, model).scorer()
    assert model.embedding is not None, "files of vectors have them"
    users, items = (
        torch.from_numpy(np.require(side, requirements="W")).to(recommender.device)
        for side in (model.embedding.users, model.embedding.items)
    )
    return DotScorer(users.__getitem__, items)


def file_facts(
    config: Config,
    splits: Splits,
    budget: str,
    limit: int,
    metrics: Mapping[str, Mapping[str, Any]],
    assignment: Assignment | None = None,
    *,
    has_vectors: bool = True,
) -> dict[str, Any]:
    """What a file says of its model: settings and figures.

    Learned codes need no hash and no order of ids, so these are not told of them, nor of a
    model without vectors.
    """
    rows: dict[str, Any] = {}
    if has_vectors:
        rows = {"hash": config.hashing, "ordering": config.ordering}
    return {
        "method": config.method,
        "budget": budget,
        "limit": limit,
        **({"assignment": assignment} if assignment == "learned" else rows),
        "seed": config.seed,
        "fingerprint": splits.fingerprint,
        "library": __version__,
        "conventions": _conventions(splits.train),
        "metrics": {
            part: {name: found[name] for name in ("ndcg@10", "recall@10")}
            for part, found in metrics.items()
        },
    }


def _conventions(train: Interactions) -> str:
    has_cold = len(users_without_rows(train)) or len(items_without_rows(train))
    return COLD_START_IN_BRIEF if has_cold else CONVENTIONS_IN_BRIEF


@torch.no_grad()
def final_vectors(recommender: Recommender) -> PropagatedTables:
    """The vectors that a backbone scores by, whatever it did to have them."""
    scorer = recommender.scorer()
    if not isinstance(scorer, DotScorer):
        raise ConfigError(
            f"the scores of {type(recommender.backbone).__name__} are no dot products, so that it "
            "has no final vectors; choose a backbone such as lightgcn or mf"
        )
    everyone = torch.arange(recommender.backbone.num_users)
    items = scorer.item_vectors.cpu()
    users = items.new_empty(len(everyone), items.shape[1])
    for some in torch.split(everyone, USERS_AT_ONCE):
        users[some] = scorer.user_vectors(some.to(recommender.device)).cpu()
    return PropagatedTables(users.numpy(), items.numpy())
