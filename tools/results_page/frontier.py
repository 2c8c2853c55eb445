"""The picture of the README: accuracy over stored values, of every method that was measured."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean
from typing import Any

from cerp.pages.axes import log_axis, zero_axis
from cerp.pages.charts import Frame, Point, Reference, Series, drawn_legend, line_chart
from cerp.pages.svg import standalone

SHOWN = {
    "cerp-learned": "CERP, learned rows",
    "cerp": "CERP, hashed rows",
    "pep": "PEP",
    "magnitude": "magnitude pruning",
    "qr": "QR",
    "ud": "UD (narrow table)",
}
FRAME = Frame(width=760, height=400, left=60, right=190, top=40, bottom=52, has_y_label=True)


def frontier(results: Path) -> str:
    """Gowalla and LightGCN, the mean over seeds, as an SVG file."""
    rows = json.loads((results / "gowalla" / "table2.json").read_text(encoding="utf-8"))
    series = [
        Series(label, style, _points(rows, method))
        for style, (method, label) in enumerate(SHOWN.items())
    ]
    full = mean(_found(rows, "full", "lightgcn").values())
    floor = mean(_found(rows, "popularity", None).values())
    drawn = line_chart(
        "Test NDCG@10 on Gowalla, LightGCN with d = 128",
        "values stored",
        "NDCG@10",
        series,
        references=[
            Reference("full size: 9,067,392 values", full, "full"),
            Reference("popularity", floor, "floor"),
        ],
        x_axis=log_axis,
        y_axis=zero_axis,
        frame=FRAME,
    )
    drawn.extend(drawn_legend(series, FRAME.width - FRAME.right + 24, FRAME.top + 60))
    return standalone(drawn)


def _points(rows: list[dict[str, Any]], method: str) -> list[Point]:
    found = sorted(_found(rows, method, "lightgcn").items())
    return [Point(nnz, ndcg, f"{nnz:,} values: {ndcg:.4f}") for nnz, ndcg in found]


def _found(rows: list[dict[str, Any]], method: str, backbone: str | None) -> dict[int, float]:
    """NDCG@10 by the number of values, where a method was measured with its own settings."""
    figures: dict[float, list[tuple[int, float]]] = {}
    for row in rows:
        is_own = (row["method"], row["backbone"], row["preset"]) == (method, backbone, "default")
        if is_own and row["ordering"] in (None, "spectral"):
            figures.setdefault(row["sparsity"], []).append((row["nnz"], row["ndcg10"]))
    budgets: dict[int, list[tuple[int, float]]] = {}
    for sparsity, seeds in figures.items():
        budgets.setdefault(round(sparsity), []).extend(seeds)
    return {
        round(mean(nnz for nnz, _ in seeds)): mean(ndcg for _, ndcg in seeds)
        for seeds in budgets.values()
    }
