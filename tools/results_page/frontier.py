"""The frontier: the best NDCG@10 that a file of so many bytes has, of all that can be shipped."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from xml.etree.ElementTree import Element

from cerp.pages.axes import log_axis, zero_axis
from cerp.pages.charts import Frame, Point, Series, line_chart
from cerp.pages.tables import markdown_table

ROWS, FIGURE = "frontier.json", "frontier.svg"
HULL = "the hull"
FRAME = Frame(
    width=720, height=400, left=56, right=190, top=34, bottom=58, has_y_label=True, has_key=True
)


@dataclass(frozen=True)
class Measured:
    """One method at one size, the mean over its seeds."""

    method: str
    file_bytes: float
    ndcg10: float
    valid_ndcg10: float
    seeds: int


def read_points(path: Path) -> list[Measured]:
    """Means over seeds, by method and size, the smallest files first."""
    groups = defaultdict(list)
    for row in json.loads(path.read_text(encoding="utf-8")):
        groups[row["method"], row.get("budget"), row.get("max_file_size")].append(row)
    points = [
        Measured(
            method,
            mean(row["file_bytes"] for row in rows),
            mean(row["ndcg10"] for row in rows),
            mean(row["valid_ndcg10"] for row in rows),
            len({row["seed"] for row in rows}),
        )
        for (method, *_), rows in groups.items()
    ]
    return sorted(points, key=lambda one: (one.file_bytes, -one.ndcg10))


def hull(points: Sequence[Measured]) -> list[Measured]:
    """Those that no file of as few bytes, or fewer, is as good as; points by rising bytes."""
    found: list[Measured] = []
    for point in points:
        if not found or point.ndcg10 > found[-1].ndcg10:
            found.append(point)
    return found


def figure(dataset: str, points: Sequence[Measured]) -> Element:
    """A line for each method, and the hull through the best; the MLP's rows are left out."""
    shown = [point for point in points if not point.method.endswith(" mlp")]
    methods = sorted({point.method for point in shown})
    series = [
        Series(method, style, [_drawn(point) for point in shown if point.method == method])
        for style, method in enumerate(methods)
    ]
    best = Series(HULL, len(methods), [_drawn(point) for point in hull(shown)], has_markers=False)
    return line_chart(
        f"NDCG@10 by bytes of the file, {dataset}",
        "bytes of the file",
        "NDCG@10",
        [best, *series],
        x_axis=log_axis,
        y_axis=zero_axis,
        frame=FRAME,
    )


def _drawn(point: Measured) -> Point:
    return Point(point.file_bytes, point.ndcg10, f"{point.ndcg10:.4f} in {point.file_bytes:,.0f}")


def frontier_parts(folder: Path, datasets: Sequence[str]) -> list[str]:
    """The section of the page: for each data set the figure, and what is on its hull."""
    found = sorted(path.parent.name for path in folder.glob(f"*/{ROWS}"))
    there = sorted(found, key=lambda name: name not in datasets)  # known ones first
    if not there:
        return []
    parts = [
        "## The frontier",
        "Test NDCG@10 by the bytes of the whole *file*, of all that can be shipped: graph, ids and "
        "seen items count, where a model has them. `benchmarks/frontier.py` measures, "
        "`results/<dataset>/frontier.json` has every row; means over seeds. The hull joins those "
        "that no smaller file is as good as. `pq` and `rq` are product and residual quantisation "
        "of a full-size LightGCN's vectors; other names are those of `cerp train "
        "--max-file-size`, and with a backbone those of `cerp compare`.",
    ]
    for name in there:
        best = hull(read_points(folder / name / ROWS))
        rows = [
            (
                one.method,
                f"{one.file_bytes:,.0f}",
                f"{one.valid_ndcg10:.4f}",
                f"{one.ndcg10:.4f}",
                str(one.seeds),
            )
            for one in best
        ]
        header = ("on the hull", "file bytes", "validation", "test", "seeds")
        parts += [
            f"### {name}",
            f"![NDCG@10 by bytes of the file, {name}](../results/{name}/{FIGURE})",
            markdown_table(header, rows),
        ]
    return parts
