"""The heat map of sampled vectors, as the paper shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np
import numpy.typing as npt

from cerp.artifact import ComposedEmbedding, ShippedModel
from cerp.artifact.model import FloatArray
from cerp.data.ids import Int64Array
from cerp.report.findings import Findings
from cerp.report.html import Section, element, percent, remark
from cerp.report.svg import drawing

LEVELS = 6
"""Shades on either side of zero."""
CELL_WIDTH, CELL_HEIGHT = 0.85, 0.9
"""Of the place of a cell; the rest is the gap to the next."""
LEAST_WIDTH, MOST_WIDTH, ROW_HEIGHT = 0.2, 1.7, 1.2
"""Of the place of a cell on the page, in rem; rows are as high as the labels in style.css."""
SAMPLED = 5
"""Of the users, and of the items."""
SAMPLE_SEED = 0


def vectors(found: Findings) -> Section:
    """Ten sampled vectors of each compact run at its tightest budget."""
    drawn = []
    for run in found.runs:
        model = run.tightest
        sampled = None if run.is_full or model.file is None else sampled_vectors(model.file.model)
        if sampled is None:
            continue
        names, values = sampled
        largest = float(np.abs(values).max(initial=0))
        title = f"{model.label}: {percent(float((values == 0).mean()))} of these values are zero"
        drawn.append(
            element(
                "figure",
                element("figcaption", title),
                heat_map(f"Vectors of {model.label}", names, values, largest),
            )
        )
    if not drawn:
        return [remark("No compact model has a file with its embedding in it.")]
    return [
        element(
            "p",
            "The same five users and five items in every model, drawn at random, one column for "
            "each of the dimensions; vectors as composed, before any propagation.",
        ),
        element("div", *drawn, class_="pair"),
        element(
            "p",
            "most negative ",
            shade_key(),
            " most positive of the model; blank: zero",
            class_="muted shade-key",
        ),
    ]


def sample(num_users: int, num_items: int) -> Int64Array:
    """Codes of some users and then of some items, the same whenever they are as many."""
    rng = np.random.default_rng(SAMPLE_SEED)
    users = rng.choice(num_users, min(SAMPLED, num_users), replace=False)
    items = rng.choice(num_items, min(SAMPLED, num_items), replace=False)
    return np.concatenate([np.sort(users), num_users + np.sort(items)])


def sampled_vectors(model: ShippedModel) -> tuple[list[str], FloatArray] | None:
    """Names and vectors of sampled entities, before any propagation; None if not in the file."""
    if not isinstance(model.embedding, ComposedEmbedding):
        return None
    num_users, num_entities = len(model.users), len(model.users) + len(model.items)
    codes = sample(num_users, len(model.items))
    positions = codes if model.positions is None else model.positions[codes]
    users = model.users.decode(codes[codes < num_users])
    items = model.items.decode(codes[codes >= num_users] - num_users)
    names = [f"user {id_}" for id_ in users] + [f"item {id_}" for id_ in items]
    return names, model.embedding.vectors(positions, num_entities)


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


def _shade_class(shade: int) -> str:
    return f"{'plus' if shade > 0 else 'minus'} level-{abs(shade)}"


def _cells(where: npt.NDArray[np.bool_]) -> str:
    """One path for all cells of a shade: a rectangle an entry would take thrice the bytes."""
    shape = f"h{CELL_WIDTH}v{CELL_HEIGHT}h-{CELL_WIDTH}z"
    gap = (1 - CELL_HEIGHT) / 2
    return "".join(
        f"M{column},{row + gap:.4g}{shape}" for row, column in np.argwhere(where).tolist()
    )
