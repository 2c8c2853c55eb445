"""The heat map of sampled vectors, as the paper shows it."""

from __future__ import annotations

import numpy as np

from cerp.artifact import ComposedEmbedding, ShippedModel
from cerp.artifact.model import FloatArray
from cerp.data.ids import Int64Array
from cerp.pages.heat_map import heat_map, shade_key
from cerp.pages.html import Parts, element, remark
from cerp.pages.numbers import percent
from cerp.reports.findings import Findings

SAMPLED = 5
"""Of the users, and of the items."""
SAMPLE_SEED = 0


def vectors(found: Findings) -> Parts:
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
