"""The paper's figures as SVG that stands alone or in a page, in light and dark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from xml.etree.ElementTree import Element, tostring

from cerp.report.axes import Axis, linear_axis
from cerp.report.html import element
from cerp.report.svg import drawing, rule, words

STYLE = """
.paper { max-width: 44rem; color: #1e2328; }
.paper text { font: 13px system-ui, sans-serif; fill: currentColor; }
.paper line, .paper polyline { stroke: currentColor; fill: none; }
.paper .grid { opacity: .15; }
.paper .printed { stroke-dasharray: 6 4; opacity: .6; }
.paper .mean { stroke: #1f6f68; stroke-width: 2; }
.paper .seed, .paper .kept { fill: #1f6f68; }
.paper .ground { fill: #8883; }
@media (prefers-color-scheme: dark) {
  .paper { color: #e9e7e2; }
  .paper .mean { stroke: #6cc7ba; }
  .paper .seed, .paper .kept { fill: #6cc7ba; }
}
"""
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 520, 280, 60, 20, 16, 34
CELL_WIDTH, CELL_HEIGHT, NAMES_WIDTH = 6, 16, 96


def sensitivity(
    title: str, points: Sequence[tuple[str, Sequence[float]]], printed: Mapping[str, float]
) -> str:
    """Values of some settings, a dot for each seed and a line through their means.

    Settings stand at equal distances, as the paper has them. ``printed`` are
    figures of the paper: horizontal lines with names.
    """
    values = [value for _, seeds in points for value in seeds]
    # From zero, so that a small difference looks small.
    y_axis = linear_axis([0.0, *values, *printed.values()], HEIGHT - BOTTOM, TOP)
    step = (WIDTH - LEFT - RIGHT) / len(points)
    places = [LEFT + step * (number + 0.5) for number in range(len(points))]
    means = [y_axis.place(mean(seeds)) for _, seeds in points]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(places, means, strict=True))
    parts = [*_grid(y_axis), *_printed(y_axis, printed)]
    parts.append(element("polyline", points=line, class_="mean"))
    for x, (name, seeds) in zip(places, points, strict=True):
        parts.append(words(name, x, HEIGHT - BOTTOM + 20, "middle", "tick"))
        parts += [_dot(x, y_axis.place(value), f"{name}: {value:.4f}") for value in seeds]
    told = "; ".join(f"{name}: {mean(seeds):.4f}" for name, seeds in points)
    return _svg(drawing(WIDTH, HEIGHT, title, told, _style(), *parts, class_="paper"))


def heatmap(title: str, names: Sequence[str], rows: Sequence[str]) -> str:
    """A row of cells for each vector, given as a text of 0 and 1: filled where it is not zero."""
    width = NAMES_WIDTH + CELL_WIDTH * len(rows[0])
    height = CELL_HEIGHT * len(rows)
    ground = element(
        "rect", x=NAMES_WIDTH, y=0, width=width - NAMES_WIDTH, height=height, class_="ground"
    )
    shape = f"h{CELL_WIDTH - 1}v{CELL_HEIGHT - 2}h-{CELL_WIDTH - 1}z"
    kept = "".join(
        f"M{NAMES_WIDTH + CELL_WIDTH * column},{CELL_HEIGHT * row + 1}{shape}"
        for row, bits in enumerate(rows)
        for column, bit in enumerate(bits)
        if bit == "1"
    )
    labels = [
        words(name, NAMES_WIDTH - 8, CELL_HEIGHT * (row + 0.75), "end", "tick")
        for row, name in enumerate(names)
    ]
    count = sum(bits.count("1") for bits in rows)
    told = f"{count} of the {len(rows) * len(rows[0])} entries of {len(rows)} vectors are not zero"
    parts = [ground, element("path", d=kept, class_="kept"), *labels]
    return _svg(drawing(width, height, title, told, _style(), *parts, class_="paper"))


def _grid(y_axis: Axis) -> list[Element]:
    parts = []
    for tick in y_axis.ticks:
        y = y_axis.place(tick)
        parts.append(rule(LEFT, y, WIDTH - RIGHT, y, "grid"))
        parts.append(words(f"{tick:g}", LEFT - 8, y + 4, "end", "tick"))
    return parts


def _printed(y_axis: Axis, printed: Mapping[str, float]) -> list[Element]:
    parts = []
    for name, value in printed.items():
        y = y_axis.place(value)
        parts.append(rule(LEFT, y, WIDTH - RIGHT, y, "printed"))
        parts.append(words(f"{name}: {value:.4f}", WIDTH - RIGHT, y - 5, "end", "tick"))
    return parts


def _dot(x: float, y: float, text: str) -> Element:
    place = {"cx": f"{x:.1f}", "cy": f"{y:.1f}", "r": 4}
    return element("circle", element("title", text), class_="seed", **place)


def _style() -> Element:
    return element("style", STYLE)


def _svg(root: Element) -> str:
    root.set("xmlns", "http://www.w3.org/2000/svg")
    return tostring(root, encoding="unicode")
