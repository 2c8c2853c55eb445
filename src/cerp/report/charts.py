"""Charts as inline SVG. Series differ by colour and by the shape of their markers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from cerp.report.axes import Axis, linear_axis
from cerp.report.html import element, tick_labels
from cerp.report.svg import drawing, rule, words

AxisOf = Callable[[Iterable[float], float, float], Axis]
"""Of values, from a place to a place; see `cerp.report.axes`."""

COLOURS = 8
MARKERS = (
    "M-5,0a5,5 0 1,0 10,0a5,5 0 1,0 -10,0z",
    "M-4.500,-4.500h9v9h-9z",
    "M0,-6.200L6.200,0L0,6.200L-6.200,0z",
    "M0,-6L5.600,4.200h-11.200z",
    "M0,6L5.600,-4.200h-11.200z",
    "M-1.700,-5.500h3.400v3.800h3.800v3.400h-3.800v3.800h-3.400v-3.800h-3.800v-3.400h3.800z",
    "M-4.800,-5.500L0,-2.600L4.800,-5.500L2.600,0L4.800,5.500L0,2.600L-4.800,5.500L-2.600,0z",
)
"""Circle, square, diamond, triangles, plus and cross, around the origin: seven, so that with
eight colours 56 series differ in one of the two."""
REFERENCE_PLACE = 0.85
"""Where the label of a reference line ends, as a share of the width."""
MOST_MARKERS = 15
"""On a line; one of more points has them at some only."""
LABEL_GAP = 15.0
"""Smallest distance between the labels of two reference lines."""


@dataclass(frozen=True)
class Point:
    """A point of a series; ``text`` is shown when it is pointed at."""

    x: float
    y: float
    text: str


@dataclass(frozen=True)
class Series:
    """Points that belong together, joined by a line in the order given."""

    label: str
    style: int
    """Number of the colour and of the marker; equal in all charts of a page."""
    points: list[Point]


@dataclass(frozen=True)
class Reference:
    """A horizontal line through the whole chart."""

    label: str
    y: float
    kind: str
    """``full`` is dashed, ``floor`` dotted."""


@dataclass(frozen=True)
class Frame:
    """Size of a chart in the units of its viewBox, and of what is around the plot."""

    width: float = 520
    height: float = 336
    left: float = 54
    right: float = 14
    top: float = 16
    bottom: float = 52
    marker_size: float = 1


LARGE = Frame()
SMALL = Frame(width=340, height=210, left=56, right=12, top=12, bottom=40, marker_size=0.75)


def line_chart(
    title: str,
    x_label: str,
    y_label: str,
    series: Sequence[Series],
    *,
    references: Sequence[Reference] = (),
    x_axis: AxisOf = linear_axis,
    y_axis: AxisOf = linear_axis,
    frame: Frame = LARGE,
) -> Element:
    """Lines with markers over two axes."""
    xs = [point.x for line in series for point in line.points]
    ys = [point.y for line in series for point in line.points]
    ys += [reference.y for reference in references]
    across = x_axis(xs, frame.left, frame.width - frame.right)
    up = y_axis(ys, frame.height - frame.bottom, frame.top)
    described = "; ".join(f"{line.label}: {_told(line)}" for line in series)
    return drawing(
        frame.width,
        frame.height,
        title,
        f"{y_label} over {x_label}. {described}",
        *_grid(across, up),
        words(x_label, (across.start + across.end) / 2, frame.height - 6, "middle", "axis-label"),
        *(part for line in series for part in _line(line, across, up, frame.marker_size)),
        *_references(references, across, up),
        class_="chart",
    )


def legend(series: Sequence[Series]) -> Element:
    """Which marker and colour belongs to which series."""
    entries = [
        element(
            "li",
            element(
                "svg",
                _marker(line.style, 10, 10),
                viewBox="0 0 20 20",
                class_="key",
                aria_hidden="true",
            ),
            line.label,
        )
        for line in series
    ]
    return element("ul", *entries, class_="legend")


def _told(line: Series) -> str:
    """A series for those who cannot see it: all of a short one, the ends of a long one."""
    points = line.points if len(line.points) <= 4 else [line.points[0], line.points[-1]]
    return " to ".join(point.text for point in points)


def _grid(x_axis: Axis, y_axis: Axis) -> list[Element]:
    parts = []
    for tick, label in zip(y_axis.ticks, tick_labels(y_axis.ticks), strict=True):
        y = y_axis.place(tick)
        parts.append(rule(x_axis.start, y, x_axis.end, y, "grid"))
        parts.append(words(label, x_axis.start - 7, y + 4, "end", "tick"))
    for tick, label in zip(x_axis.ticks, tick_labels(x_axis.ticks), strict=True):
        x = x_axis.place(tick)
        parts.append(rule(x, y_axis.start, x, y_axis.start + 5, "axis"))
        parts.append(words(label, x, y_axis.start + 20, "middle", "tick"))
    parts.append(rule(x_axis.start, y_axis.start, x_axis.end, y_axis.start, "axis"))
    return parts


def _references(references: Sequence[Reference], x_axis: Axis, y_axis: Axis) -> list[Element]:
    parts, lowest = [], y_axis.start
    # Small models are to the left, and the full-size model at the right end.
    right = x_axis.start + REFERENCE_PLACE * (x_axis.end - x_axis.start)
    for reference in sorted(references, key=lambda one: one.y):
        y = y_axis.place(reference.y)
        parts.append(rule(x_axis.start, y, x_axis.end, y, f"reference {reference.kind}"))
        # From the lowest line upwards, so that the label of each has room above the one before.
        lowest = min(y - 5, lowest - LABEL_GAP)
        parts.append(words(reference.label, right, lowest, "end", "reference-label"))
    return parts


def _line(series: Series, x_axis: Axis, y_axis: Axis, size: float) -> list[Element]:
    places = [(x_axis.place(point.x), y_axis.place(point.y)) for point in series.points]
    path = element(
        "polyline",
        points=" ".join(f"{x:.1f},{y:.1f}" for x, y in places),
        class_=f"line stroke-{series.style % COLOURS}",
    )
    every = -(-len(places) // MOST_MARKERS)
    # Counted from the end, so that the last point has one.
    marked = list(zip(places, series.points, strict=True))[::-1][::every]
    markers = [
        _marker(series.style, x, y, size, f"{series.label}: {point.text}")
        for (x, y), point in marked
    ]
    return [path, *markers]


def _marker(style: int, x: float, y: float, size: float = 1, text: str | None = None) -> Element:
    return element(
        "path",
        None if text is None else element("title", text),
        d=MARKERS[style % len(MARKERS)],
        transform=f"translate({x:.1f},{y:.1f}) scale({size:g})",
        class_=f"marker part-{style % COLOURS}",
    )
