"""The heat map of sampled vectors, as the paper shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np
import numpy.typing as npt

from cerp.artifact import ComposedEmbedding, ShippedModel
from cerp.artifact.model import FloatArray
from cerp.data.ids import Id, Int64Array
from cerp.report.findings import Findings
from cerp.report.html import Section, element, percent, remark
from cerp.report.svg import drawing, words

LEVELS = 6
"""Shades on either side of zero."""
LABEL_WIDTH, PLOT_WIDTH = 88, 432
CELL_HEIGHT = 19
WIDEST_CELL = 27
SAMPLED = 5
"""Of the users, and of the items."""
SAMPLE_SEED = 0
LONGEST_ID = 9


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
    names = [f"user {_cut(id_)}" for id_ in users] + [f"item {_cut(id_)}" for id_ in items]
    return names, model.embedding.vectors(positions, num_entities)


def _cut(id_: Id) -> str:
    """An id, or so much of it as there is room for."""
    text = str(id_)
    return text if len(text) <= LONGEST_ID else text[: LONGEST_ID - 1] + "…"


def heat_map(
    title: str, rows: Sequence[str], values: npt.NDArray[np.floating[Any]], largest: float
) -> Element:
    """A row of cells for each vector: blank where zero, darker the larger the absolute value.

    The shade of v is ``ceil(LEVELS · |v| / largest)``, in a colour for each sign.
    """
    columns = values.shape[1]
    cell_width = min(WIDEST_CELL, PLOT_WIDTH / columns)
    shades = np.sign(values) * np.ceil(np.minimum(np.abs(values) / (largest or 1.0), 1) * LEVELS)
    cells = [
        element("path", d=_cells(shades == shade, cell_width), class_=_shade_class(int(shade)))
        for shade in np.unique(shades)
        if shade != 0
    ]
    labels = [
        words(name, LABEL_WIDTH - 8, CELL_HEIGHT * (row + 0.7), "end", "row-label")
        for row, name in enumerate(rows)
    ]
    height = CELL_HEIGHT * len(rows)
    ground = element(
        "rect",
        x=LABEL_WIDTH,
        width=f"{cell_width * columns:g}",
        height=height,
        class_="ground",
    )
    blank = float((values == 0).mean())
    described = f"{len(rows)} vectors of {columns} values, of which {blank:.1%} are zero"
    width = LABEL_WIDTH + PLOT_WIDTH
    return drawing(width, height, title, described, ground, *cells, *labels, class_="heat")


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


def _cells(where: npt.NDArray[np.bool_], width: float) -> str:
    """One path for all cells of a shade: a rectangle an entry would take thrice the bytes."""
    shape = f"h{0.85 * width:.4g}v{CELL_HEIGHT - 2}h-{0.85 * width:.4g}z"
    return "".join(
        f"M{LABEL_WIDTH + width * column:.1f},{CELL_HEIGHT * row + 1}{shape}"
        for row, column in np.argwhere(where).tolist()
    )
