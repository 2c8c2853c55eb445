"""Vectors as rows of cells: on a page in shades, or in a file of its own filled or blank."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np
import numpy.typing as npt

from cerp.pages.html import element
from cerp.pages.svg import drawing, text_width, words

LEVELS = 6
"""Shades on either side of zero."""
CELL_WIDTH, CELL_HEIGHT = 0.85, 0.9
"""Of the place of a cell; the rest is the gap to the next."""
LEAST_WIDTH, MOST_WIDTH, ROW_HEIGHT = 0.2, 1.7, 1.2
"""Of the place of a cell on a page, in rem; rows are as high as the labels in page.css."""
PATTERN_WIDTH, PATTERN_HEIGHT, NAMES_GAP = 6, 18, 8
"""Of the place of a cell in a pattern, and what is between its names and its cells."""
FONT_SIZE = 13
"""As in chart.css."""
LONGEST_NAME = 20
"""Characters of a name in a pattern; of a longer one the start is shown."""


def heat_map(
    title: str, rows: Sequence[str], values: npt.NDArray[np.floating[Any]], largest: float
) -> Element:
    """A row of cells for each vector: blank where zero, darker the larger the absolute value.

    The shade of v is ``ceil(LEVELS · |v| / largest)``, in a colour for each sign. Labels are
    text of the page, beside the drawing: their size does not follow its width, and they stay
    where they are when it scrolls.
    """
    columns = values.shape[1]
    shades = np.sign(values) * np.ceil(np.minimum(np.abs(values) / (largest or 1.0), 1) * LEVELS)
    cells = [
        element("path", d=_cells(shades == shade), class_=_shade_class(int(shade)))
        for shade in np.unique(shades)
        if shade != 0
    ]
    blank = float((values == 0).mean())
    drawn = drawing(
        columns,
        len(rows),
        title,
        f"{len(rows)} vectors of {columns} values, of which {blank:.1%} are zero",
        element("rect", width=columns, height=len(rows), class_="ground"),
        *cells,
        class_="cells",
        preserveAspectRatio="none",
        style=f"height: {ROW_HEIGHT * len(rows):g}rem; "
        f"min-width: {LEAST_WIDTH * columns:g}rem; max-width: {MOST_WIDTH * columns:g}rem",
    )
    return element(
        "div",
        element("ul", *(element("li", name, title=name) for name in rows), class_="row-labels"),
        element("div", drawn, class_="scroll", tabindex=0, role="region", aria_label=title),
        class_="heat",
    )


def shade_key() -> Element:
    """The shades of a heat map from the most negative to the most positive."""
    boxes = [
        element(
            "rect",
            x=16 * place,
            y=0,
            width=16,
            height=14,
            class_="ground" if shade == 0 else _shade_class(shade),
        )
        for place, shade in enumerate(range(-LEVELS, LEVELS + 1))
    ]
    width = 16 * len(boxes)
    return element(
        "svg", *boxes, viewBox=f"0 0 {width} 14", class_="shades", width=width, aria_hidden="true"
    )


def pattern_map(title: str, names: Sequence[str], is_stored: npt.NDArray[np.bool_]) -> Element:
    """A row of cells for each vector, filled where it is not zero; names are in the drawing.

    The names' column is as wide as the longest of them, and the drawing as its cells need.
    """
    shown = [_shortened(name) for name in names]
    left = math.ceil(max(text_width(name, FONT_SIZE) for name in shown)) + NAMES_GAP
    rows, columns = is_stored.shape
    scale = f"translate({left},0) scale({PATTERN_WIDTH},{PATTERN_HEIGHT})"
    cells = element(
        "g",
        element("rect", width=columns, height=rows, class_="ground"),
        element("path", d=_cells(is_stored), class_="plus"),
        transform=scale,
    )
    labels = [
        words(
            short,
            left - NAMES_GAP,
            PATTERN_HEIGHT * (row + 0.75),
            "end",
            "tick",
            whole=None if short == name else name,
        )
        for row, (short, name) in enumerate(zip(shown, names, strict=True))
    ]
    told = f"{is_stored.sum()} of the {is_stored.size} entries of {rows} vectors are not zero"
    width, height = left + PATTERN_WIDTH * columns, PATTERN_HEIGHT * rows
    return drawing(width, height, title, told, cells, *labels, class_="chart")


def _shortened(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def _shade_class(shade: int) -> str:
    return f"{'plus' if shade > 0 else 'minus'} level-{abs(shade)}"


def _cells(where: npt.NDArray[np.bool_]) -> str:
    """One path for all cells of a shade: a rectangle an entry would take thrice the bytes."""
    shape = f"h{CELL_WIDTH}v{CELL_HEIGHT}h-{CELL_WIDTH}z"
    gap = (1 - CELL_HEIGHT) / 2
    return "".join(
        f"M{column},{row + gap:.4g}{shape}" for row, column in np.argwhere(where).tolist()
    )
