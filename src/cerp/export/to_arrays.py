"""From a trained model to a file of a limited size.

`ship` turns a trained recommender into plain arrays, `within` encodes them in
at most so many bytes, and `as_shipped` gives back the recommender as the file
will have it, values rounded and all, so that what is judged is what is shipped.
`cerp.sizing.size_search` says beforehand how many values a number of bytes has room for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Literal, cast, get_args

import numpy as np
import numpy.typing as npt
import torch

from cerp._version import __version__
from cerp.artifact import (
    ComposedEmbedding,
    Encoding,
    PropagatedTables,
    Seen,
    ShippedModel,
    Table,
    ValuesCodec,
    embedding_bytes,
    encode,
    section_bytes,
)
from cerp.artifact.model import BackboneName
from cerp.config import Config
from cerp.data.ids import Id, Int32Array
from cerp.data.splits import Splits
from cerp.errors import ConfigError
from cerp.methods import Context, Method
from cerp.models.backbones import Backbone, LightGCN, TorchScorer
from cerp.models.backbones.base import DotScorer
from cerp.models.recommender import Recommender

Graph = Literal["edges", "tables"]
BITS: dict[ValuesCodec, int] = {"fp32": 32, "fp16": 16, "int8": 8, "int4": 4}
HEADER_SLACK = 128
"""The header's offsets have more digits in one file than in another."""
LONGEST_NUMBER = 1.2345678901234567e-05
"""No figure between 0 and 1 takes more characters."""
CONVENTIONS_IN_BRIEF = (
    "full ranking; training items masked (at test time validation items too); items unseen in "
    "training kept; ties by item order; NDCG's ideal cut at min(k, |truth|)"
)
"""How the figures in a file came about; `cerp.evaluation.metrics.CONVENTIONS` says it all."""


@dataclass(frozen=True)
class SizeLimit:
    """How many bytes a model may take; None: any number."""

    embedding: int | None = None
    """Values, positions, scales and order of ids."""
    file: int | None = None
    """Everything."""

    def excess(self, data: bytes) -> int:
        """How many bytes a file is too large by; 0 or less: it fits."""
        excesses = [0]
        if self.embedding is not None:
            excesses.append(embedding_bytes(section_bytes(data)) - self.embedding)
        if self.file is not None:
            excesses.append(len(data) - self.file)
        return max(excesses)


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

    LightGCN goes with the training graph (``edges``), to propagate at load, or
    with its vectors after propagation (``tables``): larger, and ready at once.
    Of titles, if there are any, an item without one is called by its id.
    """
    if graph == "tables" and backbone != "lightgcn":
        raise ConfigError(f"the backbone {backbone!r} has no graph, so no propagated tables either")
    embedding = recommender.embedding
    positions = getattr(embedding, "positions", None)
    return _assembled(
        splits,
        backbone,
        recommender.backbone,
        _propagated(recommender) if graph == "tables" else embedding.composed(),
        None if positions is None else positions.cpu().numpy(),
        dict(facts or {}),
        [titles.get(item, str(item)) for item in splits.items.values.tolist()] if titles else None,
    )


def _assembled(
    splits: Splits,
    name: str,
    backbone: Backbone,
    embedding: ComposedEmbedding | PropagatedTables,
    positions: Int32Array | None,
    facts: dict[str, Any],
    titles: list[str] | None = None,
) -> ShippedModel:
    if name not in get_args(BackboneName):
        raise ConfigError(
            f"a model file cannot hold the backbone {name!r}; it can hold "
            f"{', '.join(get_args(BackboneName))}"
        )
    return ShippedModel(
        facts=facts,
        users=splits.users,
        items=splits.items,
        backbone=cast(BackboneName, name),
        embedding=embedding,
        positions=positions,
        layers=backbone.layers if isinstance(backbone, LightGCN) else 0,
        weights={
            key: tensor.detach().cpu().float().numpy()
            for key, tensor in backbone.state_dict().items()
        },
        seen=Seen(splits.train.user_offsets.astype(np.int64), splits.train.item),
        titles=titles,
    )


def as_shipped(recommender: Recommender, model: ShippedModel) -> Recommender:
    """A copy of the recommender with the values that a model file has."""
    twin = deepcopy(recommender)
    if isinstance(model.embedding, ComposedEmbedding):
        twin.embedding.load_composed(model.embedding)
    weights = {name: torch.from_numpy(np.array(value)) for name, value in model.weights.items()}
    twin.backbone.load_state_dict(weights)
    return twin


def scorer_of(recommender: Recommender, model: ShippedModel) -> TorchScorer:
    """A scorer of the model as its file has it, on the recommender's device."""
    if isinstance(model.embedding, ComposedEmbedding):
        return as_shipped(recommender, model).scorer()
    users, items = (
        torch.from_numpy(np.array(side)).to(recommender.device)
        for side in (model.embedding.users, model.embedding.items)
    )
    return DotScorer(users.__getitem__, items)


def within(model: ShippedModel, encoding: Encoding, limit: SizeLimit) -> bytes:
    """The model's file in at most so many bytes.

    Where it would take more, the smallest of the stored values are left out:
    a limit is never exceeded.
    """
    data = encode(model, encoding)
    while (excess := limit.excess(data)) > 0:
        model = _without_smallest(model, -(-8 * excess // BITS[encoding.values]))
        data = encode(model, encoding)
    return data


def bytes_beside_embedding(
    method: Method, context: Context, limit: int, encodings: Sequence[Encoding]
) -> list[int]:
    """What a model file takes at most for all but its embedding: graph, backbone, ids and header.

    For each encoding, with an untrained embedding of ``limit`` values in it, and
    with the interactions that the model is trained on in the end.
    """
    config = context.config
    splits = context.splits.refit(config.refit) if config.refit else context.splits
    context = replace(context, splits=splits)
    figures = dict.fromkeys(("ndcg@10", "recall@10"), LONGEST_NUMBER)
    facts = file_facts(
        config,
        splits,
        max(config.budgets, key=len),
        splits.num_entities * config.dim,
        dict.fromkeys(("valid", "test"), figures),
    )
    sketch = method.sketch(context.with_limits(limit), limit)
    if sketch.dim < config.dim:  # a network on longer vectors is larger: the longest count
        full = splits.num_entities * config.dim
        sketch = method.sketch(context.with_limits(full), full)
    backbone = context.backbone(sketch.dim)
    model = _assembled(splits, config.backbone, backbone, sketch, context.positions, facts)
    files = [encode(model, encoding, is_random=True) for encoding in encodings]
    return [len(data) - embedding_bytes(section_bytes(data)) + HEADER_SLACK for data in files]


def file_facts(
    config: Config,
    splits: Splits,
    budget: str,
    limit: int,
    metrics: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """What a file says of its model: settings and figures."""
    return {
        "method": config.method,
        "budget": budget,
        "limit": limit,
        "hash": config.hashing,
        "ordering": config.ordering,
        "seed": config.seed,
        "fingerprint": splits.fingerprint,
        "library": __version__,
        "conventions": CONVENTIONS_IN_BRIEF,
        "metrics": {
            part: {name: found[name] for name in ("ndcg@10", "recall@10")}
            for part, found in metrics.items()
        },
    }


def stored_mask(table: Table) -> npt.NDArray[np.bool_]:
    """Which values of a table are stored."""
    return np.ones(table.weight.shape, dtype=bool) if table.mask is None else table.mask


@torch.no_grad()
def _propagated(recommender: Recommender) -> PropagatedTables:
    backbone = recommender.backbone
    assert isinstance(backbone, LightGCN)
    table = backbone.graph.propagate(recommender.embedding.table(), backbone.layers).cpu().numpy()
    return PropagatedTables(table[: backbone.num_users], table[backbone.num_users :])


def _without_smallest(model: ShippedModel, count: int) -> ShippedModel:
    """The model without ``count`` of its stored values, the smallest ones."""
    embedding = model.embedding
    if isinstance(embedding, PropagatedTables) or all(t.mask is None for t in embedding.tables):
        raise ConfigError(
            "the model does not fit into the limit, and nothing of it can be left out: its tables "
            "are dense; choose a coarser --values, or a tighter budget"
        )
    sizes = np.concatenate([np.abs(table.weight[stored_mask(table)]) for table in embedding.tables])
    if count >= len(sizes):
        raise ConfigError(
            "the model does not fit into the limit, not even without its embedding values; "
            "allow more bytes, or leave out titles, ids or seen items"
        )
    cut = np.partition(sizes, count - 1)[count - 1]
    tables = []
    for table in embedding.tables:
        mask = stored_mask(table) & (np.abs(table.weight) > cut)
        tables.append(replace(table, weight=np.where(mask, table.weight, 0), mask=mask))
    return replace(model, embedding=replace(embedding, tables=tuple(tables)))
