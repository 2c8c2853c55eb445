"""The paper's figures as SVG that stands alone or in a page, in light and dark."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import mean
from xml.etree.ElementTree import Element, tostring

from cerp.report.axes import Axis, linear_axis
from cerp.report.html import element, tick_labels
from cerp.report.svg import drawing, rule, text_width, words

FONT_SIZE = 14
STYLE = f"""
.paper {{ color: #1e2328; }}
.paper text {{ font: {FONT_SIZE}px system-ui, sans-serif; fill: currentColor; }}
.paper line {{ stroke: currentColor; }}
.paper .grid {{ opacity: .15; }}
.paper .unmeasured {{ opacity: .7; }}
.paper .printed {{ stroke-dasharray: 6 4; opacity: .6; }}
.paper .mean {{ stroke: #1f6f68; stroke-width: 2; }}
.paper .seed, .paper .kept {{ fill: #1f6f68; }}
.paper .ground {{ fill: #8883; }}
@media (prefers-color-scheme: dark) {{
  .paper {{ color: #e9e7e2; }}
  .paper .mean {{ stroke: #6cc7ba; }}
  .paper .seed, .paper .kept {{ fill: #6cc7ba; }}
}}
"""
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 460, 300, 56, 24, 34, 58
CELL_WIDTH, CELL_HEIGHT, NAMES_GAP = 6, 18, 8
LONGEST_NAME = 20
"""Characters of the name of a vector; of a longer one the start is shown."""
METRIC = "NDCG@10"

Place = tuple[float, float]


def sensitivity(
    title: str,
    setting: str,
    points: Sequence[tuple[str, Sequence[float]]],
    printed: Mapping[str, float],
) -> str:
    """NDCG@10 by the values of a setting: a dot for each seed, a line from mean to mean.

    Values stand at equal distances, as the paper has them; one without seeds
    is on the axis, and no line goes past it. ``printed`` are figures of the
    paper: horizontal lines with names.
    """
    measured = [value for _, seeds in points for value in seeds]
    # From zero, so that a small difference looks small.
    y_axis = linear_axis([0.0, *measured, *printed.values()], HEIGHT - BOTTOM, TOP)
    step = (WIDTH - LEFT - RIGHT) / len(points)
    # Names that have no room beside each other take turns on two lines.
    lines = 2 if any(text_width(name, FONT_SIZE) > step for name, _ in points) else 1
    ticks, dots, means = [], [], []
    for number, (name, seeds) in enumerate(points):
        x = LEFT + step * (number + 0.5)
        kind = "tick" if seeds else "tick unmeasured"
        y = HEIGHT - BOTTOM + 18 + (number % lines) * FONT_SIZE
        ticks.append(words(name, x, y, "middle", kind))
        dots += [_dot(x, y_axis.place(value), f"{name}: {value:.4f}") for value in seeds]
        means.append((x, y_axis.place(mean(seeds))) if seeds else None)
    curve = [(start, end) for start, end in pairwise(means) if start and end]
    places = [place for place in means if place] + _along(curve)
    told = "; ".join(
        f"{name}: {mean(seeds):.4f}" if seeds else f"{name}: not measured" for name, seeds in points
    )
    parts = [
        words(METRIC, 2, FONT_SIZE, "start", "axis-label"),
        words(setting, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, "middle", "axis-label"),
        *_grid(y_axis),
        *ticks,
        *(rule(*start, *end, "mean") for start, end in curve),
        *dots,
        *_printed(y_axis, printed, places),
    ]
    shown = f"{METRIC} by {setting}, {title}"
    return _svg(drawing(WIDTH, HEIGHT, shown, told, _style(), *parts, class_="paper curve"))


def heatmap(title: str, names: Sequence[str], rows: Sequence[str]) -> str:
    """A row of cells for each vector, given as a text of 0 and 1: filled where it is not zero.

    The names' column is as wide as the longest of them, and the drawing as its cells need.
    """
    shown = [_shortened(name) for name in names]
    left = math.ceil(max(text_width(name, FONT_SIZE) for name in shown)) + NAMES_GAP
    width, height = left + CELL_WIDTH * len(rows[0]), CELL_HEIGHT * len(rows)
    ground = element("rect", x=left, y=0, width=width - left, height=height, class_="ground")
    shape = f"h{CELL_WIDTH - 1}v{CELL_HEIGHT - 2}h-{CELL_WIDTH - 1}z"
    kept = "".join(
        f"M{left + CELL_WIDTH * column},{CELL_HEIGHT * row + 1}{shape}"
        for row, bits in enumerate(rows)
        for column, bit in enumerate(bits)
        if bit == "1"
    )
    labels = [
        words(
            short,
            left - NAMES_GAP,
            CELL_HEIGHT * (row + 0.75),
            "end",
            "tick",
            whole=None if short == name else name,
        )
        for row, (short, name) in enumerate(zip(shown, names, strict=True))
    ]
    count = sum(bits.count("1") for bits in rows)
    told = f"{count} of the {len(rows) * len(rows[0])} entries of {len(rows)} vectors are not zero"
    parts = [ground, element("path", d=kept, class_="kept"), *labels]
    return _svg(drawing(width, height, title, told, _style(), *parts, class_="paper"))


def _shortened(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def _grid(y_axis: Axis) -> list[Element]:
    parts = []
    for tick, label in zip(y_axis.ticks, tick_labels(y_axis.ticks), strict=True):
        y = y_axis.place(tick)
        parts.append(rule(LEFT, y, WIDTH - RIGHT, y, "grid"))
        parts.append(words(label, LEFT - 8, y + 5, "end", "tick"))
    return parts


def _printed(y_axis: Axis, printed: Mapping[str, float], curve: Sequence[Place]) -> list[Element]:
    parts = []
    for name, value in printed.items():
        y = y_axis.place(value)
        parts.append(rule(LEFT, y, WIDTH - RIGHT, y, "printed"))
        parts.append(_apart_from(curve, f"{name}: {value:.4f}", y))
    return parts


def _apart_from(curve: Sequence[Place], label: str, y: float) -> Element:
    """A label at an end of a line, above or below it: where it is farthest from the curve."""
    width = text_width(label, FONT_SIZE)
    ends = {"end": WIDTH - RIGHT - width, "start": LEFT + 4}
    baselines = [y - 6, y + FONT_SIZE + 3]

    def distance(anchor: str, baseline: float) -> float:
        left, top = ends[anchor], baseline - FONT_SIZE
        if baseline > HEIGHT - BOTTOM:
            return -1.0
        return min(
            math.hypot(
                max(left - x, 0, x - left - width),
                max(top - at, 0, at - baseline),
            )
            for x, at in curve
        )

    places = [(anchor, baseline) for baseline in baselines for anchor in ends]
    anchor, baseline = max(places, key=lambda place: distance(*place))
    x = ends[anchor] if anchor == "start" else WIDTH - RIGHT
    return words(label, x, baseline, anchor, "printed-label")


def _along(curve: Sequence[tuple[Place, Place]]) -> list[Place]:
    """Places on the lines of a curve, close to each other."""
    shares = [part / 50 for part in range(51)]
    return [
        (start[0] + share * (end[0] - start[0]), start[1] + share * (end[1] - start[1]))
        for start, end in curve
        for share in shares
    ]


def _dot(x: float, y: float, text: str) -> Element:
    place = {"cx": f"{x:.1f}", "cy": f"{y:.1f}", "r": 4}
    return element("circle", element("title", text), class_="seed", **place)


def _style() -> Element:
    return element("style", STYLE)


def _svg(root: Element) -> str:
    """With a size of its own, which the drawing has wherever nothing else is asked for."""
    root.set("xmlns", "http://www.w3.org/2000/svg")
    _, _, width, height = root.get("viewBox", "").split()
    root.attrib |= {"width": width, "height": height}
    return tostring(root, encoding="unicode")
