"""What a model file takes beside its embedding, found out before anything is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cerp.artifact import ComposedEmbedding, Encoding, embedding_bytes, encode, section_bytes
from cerp.artifact.model import LeastSquares
from cerp.choices import Assignment
from cerp.config import Config
from cerp.data.splits import Splits
from cerp.export.item_only import items_only
from cerp.export.to_arrays import assembled, composed, file_facts
from cerp.graph.filter import Exponents
from cerp.graph.sharpening import Sharpening
from cerp.graph.term import FilterTerm, Mixing
from cerp.methods.base import Context, Method
from cerp.training.search_result import Found

HEADER_SLACK = 128
"""The header's offsets have more digits in one file than in another."""
LONGEST_NUMBER = 1.2345678901234567e-05
"""No figure between 0 and 1 takes more characters."""
LONGEST_TERM = FilterTerm(
    Exponents(1.5, 1.5, 1.5),
    Mixing(LONGEST_NUMBER, LONGEST_NUMBER),
    Sharpening(1.5, LONGEST_NUMBER, 1),
)
"""No filter beside vectors takes more."""


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
    longest = max(config.budgets, key=len)
    facts = longest_facts(config, splits, longest, splits.num_entities * config.dim)
    tables = tables_of(method, context, limit)
    if tables.dim < config.dim:  # a network on longer vectors is larger: the longest count
        full = splits.num_entities * config.dim
        tables = tables_of(method, context, full)
    backbone = context.backbone(tables.dim)
    model = assembled(splits, config.backbone, backbone, tables, context.positions, facts)
    if config.item_only:
        model = items_only(model)
    elif (told := method.folding(Found({}, {}))) is not None:
        model = replace(model, folding=LeastSquares(**told))
    files = [encode(model, encoding, is_random=True) for encoding in encodings]
    return [len(data) - embedding_bytes(section_bytes(data)) + HEADER_SLACK for data in files]


def longest_facts(
    config: Config,
    splits: Splits,
    budget: str,
    limit: int,
    assignment: Assignment | None = None,
    *,
    has_vectors: bool = True,
) -> dict[str, Any]:
    """What a file says of its model, with the longest figures that there can be."""
    figures = dict.fromkeys(("ndcg@10", "recall@10"), LONGEST_NUMBER)
    metrics = dict.fromkeys(("valid", "test"), figures)
    return file_facts(config, splits, budget, limit, metrics, assignment, has_vectors=has_vectors)


def tables_of(method: Method, context: Context, limit: int) -> ComposedEmbedding:
    """Of an untrained embedding of a limit."""
    return composed(method.placeholder(context.with_limits(limit), limit))
