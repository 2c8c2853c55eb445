"""The opening of the page: what somebody who is new to all of this should know, and one figure."""

from __future__ import annotations

from statistics import mean
from typing import Any

from results_page.frontier import FIGURE, ROWS, Measured, read_points
from results_page.results_index import MISSING, ResultsIndex

FULL, LEARNED, SMALL = "full lightgcn", "cerp-learned lightgcn", "svd"


def opening(results: ResultsIndex) -> list[str]:
    """A paragraph and the frontier of Gowalla."""
    data = results.read("gowalla", "table1.json")
    path = results.folder / "gowalla" / ROWS
    points = read_points(path) if path.exists() else []
    chosen = {name: _smallest(points, name) for name in (FULL, LEARNED, SMALL)}
    floor = results.scores(method="popularity", dataset="gowalla")
    if data is None or not floor or None in chosen.values():
        return [f"The figures of the opening are {MISSING}."]
    return [
        _paragraph(data[0], mean(floor), *(one for one in chosen.values() if one is not None)),
        f"![NDCG@10 by bytes of the file, Gowalla]({FIGURE})",
        "Each line is a kind of model; further up is better, further left is smaller. The hull "
        "joins those that no smaller file is as good as. [The frontier](#the-frontier) has the "
        "numbers, and the same for four more data sets.",
    ]


def _smallest(points: list[Measured], method: str) -> Measured | None:
    return next((one for one in points if one.method == method), None)


def _paragraph(
    data: dict[str, Any], floor: float, full: Measured, learned: Measured, small: Measured
) -> str:
    return (
        f"Gowalla has {data['users']:,} people and {data['items']:,} places. A recommender that "
        f"stores a vector of 128 numbers for each of them takes {_megabytes(full)} and reaches an "
        f"NDCG@10 of {full.ndcg10:.4f}: 1 would be a list of ten with all that fits at its head, "
        f"and the ten most popular places for everybody have {floor:.4f}. CERP lets "
        "people and places share the rows of a few small tables and prunes these: with 1% of the "
        f"numbers it has {learned.ndcg10:.4f}, {learned.ndcg10 / full.ndcg10:.0%} of the full "
        f"size, in a file of {_megabytes(learned)}. A scaled SVD in the same kind "
        f"of rows, with nothing trained at all, has {small.ndcg10:.4f} in {_megabytes(small)}."
    )


def _megabytes(point: Measured) -> str:
    return f"{point.file_bytes / 1e6:.1f} MB"
