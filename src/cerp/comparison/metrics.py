"""The metrics that results keep, and the one that decides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cerp.pages.numbers import metric_name

MAIN_METRIC = "ndcg@10"
"""What methods are sorted, marked and compared by."""
METRICS = (MAIN_METRIC, "recall@10")
"""What is kept for each user."""
FIGURES = {
    "ndcg10": metric_name("ndcg@10"),
    "recall10": metric_name("recall@10"),
    "ndcg20": metric_name("ndcg@20"),
    "recall20": metric_name("recall@20"),
    "tail_ndcg10": f"tail {metric_name('ndcg@10')}",
    "coverage10": metric_name("coverage@10"),
}
"""What flat results have of the test part, and what tables call it. The tail: only truth among
items that are not popular counts. Coverage: the share of items in anybody's list."""


def field_of(metric: str) -> str:
    """The name of a metric in flat results: ``ndcg10`` of ``ndcg@10``."""
    return metric.replace("@", "")


def figures_in(judged: Mapping[str, Any]) -> dict[str, float | None]:
    """`FIGURES` of what `cerp.evaluation.metrics.Metrics.summary` says."""
    tail = {f"tail_{name}": value for name, value in judged.get("tail", {}).items()}
    by_field = {field_of(name): value for name, value in {**judged, **tail}.items()}
    return {name: by_field.get(name) for name in FIGURES}
