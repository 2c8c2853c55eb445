"""The metrics that results keep, and the one that decides."""

from __future__ import annotations

MAIN_METRIC = "ndcg@10"
"""What methods are sorted, marked and compared by."""
METRICS = (MAIN_METRIC, "recall@10")
"""What is kept for each user and shown in tables."""


def field_of(metric: str) -> str:
    """The name of a metric in flat results: ``ndcg10`` of ``ndcg@10``."""
    return metric.replace("@", "")
