"""Charts as inline SVG. Series differ by colour and by the shape of their markers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple
from xml.etree.ElementTree import Element

from cerp.pages.axes import Axis, AxisOf, linear_axis
from cerp.pages.html import element
from cerp.pages.numbers import tick_labels
from cerp.pages.svg import drawing, rule, text_width, words

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
MOST_MARKERS = 15
"""On a line; one of more points has them at some only."""
FONT_SIZE = 13
"""As in chart.css."""
LINE_STEPS = 20
"""Places of a line between two points that labels keep away from."""


@dataclass(frozen=True)
class Point:
    """A point of a series; ``text`` is shown when it is pointed at."""

    x: float
    y: float
    text: str


@dataclass(frozen=True)
class Series:
    """Points that belong together."""

    label: str
    style: int
    """Number of the colour and of the marker; equal in all charts of a page."""
    points: list[Point]
    has_line: bool = True
    """Whether the points are joined, in the order given."""
    has_markers: bool = True


@dataclass(frozen=True)
class Reference:
    """A horizontal line through the whole chart."""

    label: str
    y: float
    kind: str
    """``full`` is dashed, ``floor`` dotted."""


@dataclass(frozen=True)
class Mark:
    """A vertical line through the whole chart, at what happened there."""

    label: str
    x: float


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
    has_y_label: bool = False
    """Whether the chart itself says what is drawn upwards; on a page the caption does."""
    has_key: bool = False
    """Whether it says to the right of the plot which series is which; on a page a legend does."""


LARGE = Frame()
SMALL = Frame(width=340, height=210, left=56, right=12, top=12, bottom=40, marker_size=0.75)


class _Box(NamedTuple):
    """Where a label is, or may be."""

    left: float
    top: float
    right: float
    bottom: float

    def distance(self, x: float, y: float) -> float:
        """From a place; 0 inside."""
        across = max(self.left - x, 0, x - self.right)
        return math.hypot(across, max(self.top - y, 0, y - self.bottom))

    def covers(self, other: _Box) -> bool:
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


def line_chart(
    title: str,
    x_label: str,
    y_label: str,
    series: Sequence[Series],
    *,
    references: Sequence[Reference] = (),
    marks: Sequence[Mark] = (),
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
    told = [f"{line.label}: {_told(line)}" for line in series]
    told += [f"{mark.label}: {x_label} {mark.x:.3g}" for mark in marks]
    return drawing(
        frame.width,
        frame.height,
        title,
        f"{y_label} over {x_label}. {'; '.join(told)}",
        words(y_label, 2, FONT_SIZE, "start", "axis-label") if frame.has_y_label else None,
        *_grid(across, up),
        words(x_label, (across.start + across.end) / 2, frame.height - 6, "middle", "axis-label"),
        *(part for line in series for part in _line(line, across, up, frame.marker_size)),
        *_references(references, series, across, up),
        *(part for mark in marks for part in _mark(mark, series, across, up)),
        *(_key(series, across.end + 18, frame) if frame.has_key else ()),
        class_="chart",
    )


def _mark(mark: Mark, series: Sequence[Series], x_axis: Axis, y_axis: Axis) -> list[Element]:
    """The line, and its label beside it: high or low, where it is farther from all curves."""
    x, width = x_axis.place(mark.x), text_width(mark.label, FONT_SIZE)
    has_room = x + 4 + width < x_axis.end
    left, anchor = (x + 4, "start") if has_room else (x - 4 - width, "end")
    drawn = [place for line in series for place in _along(line, x_axis, y_axis)]

    def clearance(baseline: float) -> float:
        box = _Box(left, baseline - FONT_SIZE, left + width, baseline + 2)
        return min((box.distance(*place) for place in drawn), default=0.0)

    heights = [y_axis.end + share * (y_axis.start - y_axis.end) for share in (0.1, 0.5, 0.95)]
    return [
        rule(x, y_axis.start, x, y_axis.end, "reference full"),
        words(
            mark.label,
            left if has_room else x - 4,
            max(heights, key=clearance),
            anchor,
            "reference-label",
        ),
    ]


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


def _key(series: Sequence[Series], x: float, frame: Frame) -> list[Element]:
    """A line for each series, below each other."""
    parts = []
    for number, line in enumerate(series):
        y = frame.top + FONT_SIZE * 1.5 * number + FONT_SIZE / 2
        if line.has_markers:
            parts.append(_marker(line.style, x, y, frame.marker_size))
        else:
            parts.append(rule(x - 8, y, x + 8, y, f"line stroke-{line.style % COLOURS}"))
        parts.append(words(line.label, x + 14, y + FONT_SIZE / 3, "start", "tick"))
    return parts


def _told(line: Series) -> str:
    """A series for those who cannot see it: all of a short one, the ends of a long one."""
    points = line.points if len(line.points) <= 4 else [line.points[0], line.points[-1]]
    return " to ".join(point.text for point in points)


def _grid(x_axis: Axis, y_axis: Axis) -> list[Element]:
    parts = []
    for tick, label in zip(y_axis.ticks, _labels(y_axis), strict=True):
        y = y_axis.place(tick)
        parts.append(rule(x_axis.start, y, x_axis.end, y, "grid"))
        parts.append(words(label, x_axis.start - 7, y + 4, "end", "tick"))
    names = _labels(x_axis)
    # Names that have no room beside each other take turns on two lines.
    room = (x_axis.end - x_axis.start) / len(names)
    lines = 2 if x_axis.labels and any(text_width(name, FONT_SIZE) > room for name in names) else 1
    for number, (tick, label) in enumerate(zip(x_axis.ticks, names, strict=True)):
        x = x_axis.place(tick)
        parts.append(rule(x, y_axis.start, x, y_axis.start + 5, "axis"))
        y = y_axis.start + 20 + FONT_SIZE * (number % lines)
        parts.append(words(label, x, y, "middle", "tick"))
    parts.append(rule(x_axis.start, y_axis.start, x_axis.end, y_axis.start, "axis"))
    return parts


def _labels(axis: Axis) -> Sequence[str]:
    return axis.labels or tick_labels(axis.ticks)


def _references(
    references: Sequence[Reference], series: Sequence[Series], x_axis: Axis, y_axis: Axis
) -> list[Element]:
    """Lines, each with its label above or below it, where it is farthest from all curves."""
    parts, taken = [], list[_Box]()
    drawn = [place for line in series for place in _along(line, x_axis, y_axis)]
    for reference in sorted(references, key=lambda one: one.y):
        y = y_axis.place(reference.y)
        parts.append(rule(x_axis.start, y, x_axis.end, y, f"reference {reference.kind}"))
        width = text_width(reference.label, FONT_SIZE)
        starts = {
            "end": x_axis.end - width,
            "start": x_axis.start + 4,
            "middle": (x_axis.start + x_axis.end - width) / 2,
        }
        boxes = {
            (anchor, baseline): _Box(left, baseline - FONT_SIZE, left + width, baseline + 2)
            for baseline in (y - 5, y + FONT_SIZE + 3)
            for anchor, left in starts.items()
        }

        def clearance(place: tuple[str, float], boxes: dict[tuple[str, float], _Box]) -> float:
            box = boxes[place]
            is_outside = box.bottom > y_axis.start or box.top < 0
            if is_outside or any(box.covers(other) for other in taken):
                return -1.0
            return min((box.distance(*point) for point in drawn), default=0.0)

        best = max(boxes, key=lambda place: clearance(place, boxes))
        taken.append(boxes[best])
        anchor, baseline = best
        x = {"start": boxes[best].left, "end": boxes[best].right}.get(
            anchor, (boxes[best].left + boxes[best].right) / 2
        )
        parts.append(words(reference.label, x, baseline, anchor, "reference-label"))
    return parts


def _along(series: Series, x_axis: Axis, y_axis: Axis) -> list[tuple[float, float]]:
    """Places of a series: its points, and those on its lines, close to each other."""
    places = _places(series, x_axis, y_axis)
    if not series.has_line:
        return places
    shares = [step / LINE_STEPS for step in range(1, LINE_STEPS)]
    between = [
        (start[0] + share * (end[0] - start[0]), start[1] + share * (end[1] - start[1]))
        for start, end in pairwise(places)
        for share in shares
    ]
    return places + between


def _places(series: Series, x_axis: Axis, y_axis: Axis) -> list[tuple[float, float]]:
    return [(x_axis.place(point.x), y_axis.place(point.y)) for point in series.points]


def _line(series: Series, x_axis: Axis, y_axis: Axis, size: float) -> list[Element]:
    places = _places(series, x_axis, y_axis)
    parts = []
    if series.has_line:
        path = element(
            "polyline",
            points=" ".join(f"{x:.1f},{y:.1f}" for x, y in places),
            class_=f"line stroke-{series.style % COLOURS}",
        )
        parts.append(path)
    if series.has_markers:
        every = -(-len(places) // MOST_MARKERS) if series.has_line else 1
        # Counted from the end, so that the last point has one.
        marked = list(zip(places, series.points, strict=True))[::-1][::every]
        parts += [
            _marker(series.style, x, y, size, f"{series.label}: {point.text}")
            for (x, y), point in marked
        ]
    return parts


def _marker(style: int, x: float, y: float, size: float = 1, text: str | None = None) -> Element:
    return element(
        "path",
        None if text is None else element("title", text),
        d=MARKERS[style % len(MARKERS)],
        transform=f"translate({x:.1f},{y:.1f}) scale({size:g})",
        class_=f"marker part-{style % COLOURS}",
    )
