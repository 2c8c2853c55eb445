"""The figures of a model, put together from the products of its run; nothing is counted again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cerp.models.recommender import Recommender
from cerp.runs.facts import ModelFacts
from cerp.runs.products import Judged, Shipped, Trained
from cerp.training.search_result import Found


def counts_of(recommender: Recommender) -> dict[str, Any]:
    """What a model stores, by the names of `ModelFacts`.

    What belongs to single users and items is counted wherever it is: in the embedding, and in a
    backbone of one's own.
    """
    embedding, own = recommender.embedding, recommender.backbone.entity_values()
    cost = embedding.cost()
    return {
        "nnz": embedding.nnz,
        "paper_count": cost.paper_count + own,
        "stored_count": cost.stored_count + own,
        "buckets": None,
        "empty_entities": None,
        "empty_rows": None,
        **embedding.facts(),
    }


def facts_of(
    budget: str,
    trained: Trained,
    judged: Judged,
    found: Found,
    selection_metric: str,
    *,
    teacher: dict[str, Any] | None = None,
    beside: int = 0,
) -> ModelFacts:
    """All figures of a trained model but those of its file.

    ``teacher``: its name and what it had. ``beside``: values of users and items that are not in
    the embedding; the limit is of both.
    """
    search = dict(found.facts)
    seconds = search.pop("seconds") + trained.seconds + judged.seconds
    if trained.mixture is not None:
        search["mixture"] = trained.mixture
    if teacher is not None:
        search["teacher"] = teacher
    return ModelFacts(
        budget=budget,
        limit=trained.candidate.limit + beside,
        **trained.counts,
        best_epoch=trained.best_epoch,
        best_valid=trained.best_valid,
        selection_metric=selection_metric,
        seconds=round(seconds, 2),
        search=search or None,
        values=trained.candidate.encoding.values,
        metrics=judged.metrics,
    )


def facts_without_vectors(
    budget: str,
    limit: int,
    stored: int,
    judged: Judged,
    found: Found,
    selection_metric: str,
) -> ModelFacts:
    """All figures but those of the file of a model that its search made; ``stored`` values."""
    search = dict(found.facts)
    seconds = search.pop("seconds") + judged.seconds
    return ModelFacts(
        budget=budget,
        limit=limit,
        nnz=stored,
        paper_count=stored,
        stored_count=stored,
        avg_dim=0.0,
        overlap=None,
        buckets=None,
        empty_entities=0,
        empty_rows=0,
        best_epoch=0,
        best_valid=search[f"valid_{selection_metric}"],
        selection_metric=selection_metric,
        seconds=round(seconds, 2),
        search={**search, "trials": len(search["trials"])},
        values=None,
        metrics=judged.metrics,
    )


def with_file(facts: ModelFacts, shipped: Shipped) -> ModelFacts:
    """The figures of a model with those of its file."""
    return replace(
        facts,
        code_bytes=shipped.code_bytes,
        embedding_bytes=shipped.embedding_bytes,
        file_bytes=shipped.file_bytes,
        why_no_file=shipped.why_no_file,
    )
