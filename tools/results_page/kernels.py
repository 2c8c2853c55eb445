"""Which kernels a GPU's step is made of: two bars to one scale, by kinds of work."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from cerp.pages.charts import FONT_SIZE
from cerp.pages.html import element
from cerp.pages.svg import drawing, words

PROFILE, DRAWN = "propagation_kernels.json", "kernels.svg"
HEADING = "A LightGCN pruning step, by kernels"
TITLES = {"before": "with propagation", "after": "with a dense matrix"}
KINDS: Mapping[str, tuple[str, ...]] = {
    "sparse products": ("cusparse",),
    "dense products": ("_rows_times", "_rows_transposed_times", "gemv"),
    "scores, loss and penalty": ("_scores", "_gradient", "_penalty", "tanh"),
    "copies and fills": ("memcpy", "memset", "FillFunctor", "direct_copy", "CatArray"),
    "gathers and sorts": ("gather", "index_", "radix_sort", "DeviceScan"),
    "Adam and pruning": ("_step", "_prune"),
    "negatives": ("_draw", "distribution"),
}
"""What names of kernels contain, the first that fits."""
OTHERS, SHORT = "element by element, and sums", "kernels beyond the thirty longest"
WIDTH, LEFT, BAR, GAP, TOP = 720, 8, 34, 34, 24
LINE = FONT_SIZE * 1.5
TABLE_COLUMNS = (400, 560)
"""Where the microseconds of the two bars end in the key below them."""


def by_kind(profile: Mapping[str, Any]) -> dict[str, float]:
    """Microseconds of a step by kind of work; what the list of kernels leaves out is the last."""
    found = dict.fromkeys([*KINDS, OTHERS, SHORT], 0.0)
    for kernel in profile["kernels"]:
        found[kind_of(kernel["name"])] += kernel["microseconds_per_step"]
    found[SHORT] = max(0.0, profile["microseconds_per_step"] - sum(found.values()))
    return found


def kind_of(kernel: str) -> str:
    """The kind of work that a kernel does, told by its name."""
    fitting = (kind for kind, parts in KINDS.items() if any(part in kernel for part in parts))
    return next(fitting, OTHERS)


def kernel_chart(path: Path) -> Element:
    """The steps of a file of `benchmarks/propagation.py --kernels`, with a table as the key."""
    profiles = json.loads(path.read_text(encoding="utf-8"))
    steps = {title: by_kind(profiles[name]) for name, title in TITLES.items()}
    scale = (WIDTH - 2 * LEFT) / max(sum(step.values()) for step in steps.values())
    parts: list[Element] = []
    for number, (title, step) in enumerate(steps.items()):
        top = TOP + number * (BAR + GAP)
        whole = f"{title}: {sum(step.values()):,.0f} µs"
        parts.append(words(whole, LEFT, top - 7, "start", "tick"))
        parts += _bar(step, top, scale)
    key = TOP + len(steps) * (BAR + GAP) + FONT_SIZE
    for end, title in zip(TABLE_COLUMNS, TITLES.values(), strict=True):
        parts.append(words(title, end, key, "end", "tick"))
    parts.append(words("µs of a step", LEFT, key, "start", "tick"))
    for number, kind in enumerate([*KINDS, OTHERS, SHORT]):
        line = key + LINE * (number + 1)
        parts.append(_rectangle(LEFT, line - 10, 12, 12, number))
        parts.append(words(kind, LEFT + 20, line, "start", "tick"))
        for end, step in zip(TABLE_COLUMNS, steps.values(), strict=True):
            parts.append(words(f"{step[kind]:,.0f}", end, line, "end", "tick"))
    told = "; ".join(
        f"{title}: " + ", ".join(f"{kind} {taken:,.0f} µs" for kind, taken in step.items())
        for title, step in steps.items()
    )
    height = key + LINE * (len(KINDS) + 3)
    return drawing(WIDTH, height, HEADING, told, *parts, class_="chart")


def _bar(step: Mapping[str, float], top: float, scale: float) -> list[Element]:
    """Kinds of work side by side, as wide as they are long."""
    parts, begin = [], float(LEFT)
    for number, (kind, taken) in enumerate(step.items()):
        title = element("title", f"{kind}: {taken:,.0f} µs")
        parts.append(_rectangle(begin, top, taken * scale, BAR, number, title))
        begin += taken * scale
    return parts


def _rectangle(
    x: float, y: float, width: float, height: float, colour: int, title: Element | None = None
) -> Element:
    place = {"x": x, "y": y, "width": width, "height": height}
    numbers = {name: f"{value:.1f}" for name, value in place.items()}
    return element("rect", title, class_=f"part-{colour}", **numbers)
