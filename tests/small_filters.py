"""Small models with a graph filter: alone, and beside vectors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cerp.artifact import (
    ComposedEmbedding,
    FilterTerm,
    Index,
    Mixing,
    Seen,
    ShippedModel,
    Table,
)
from cerp.artifact.model import popularity_of
from cerp.graph.filter import Exponents
from cerp.graph.history_sums import HistorySums
from cerp.graph.sharpening import Sharpening
from small_models import small_model

EXPONENTS = Exponents(q=0.6875, p=0.59375, r=0.3125)
SHARPENING = Sharpening(m=0.75, strength=0.37, times=2)


def small_filter(seed: int = 0) -> ShippedModel:
    """The graph of the small models, the last user without items."""
    model = small_model(seed=seed)
    seen = model.seen
    offsets = seen.offsets.copy()
    offsets[-1] = offsets[-2]
    return replace(
        model,
        head=None,
        embedding=None,
        positions=None,
        seen=Seen(offsets, seen.items[: offsets[-1]]),
        filter=FilterTerm(EXPONENTS),
    )


def sharpened(model: ShippedModel) -> ShippedModel:
    """The same with its filter sharpened."""
    assert model.filter is not None
    return replace(model, filter=replace(model.filter, sharpening=SHARPENING))


def small_sums_mixture(seed: int = 0) -> ShippedModel:
    """Vectors of items, summed over what someone has, beside the filter."""
    paths, rng = small_filter(seed), np.random.default_rng(seed)
    count = len(paths.items)
    books = tuple(
        Table(
            Index("coded", 8, codes=rng.integers(0, 8, count, np.int32)),
            rng.standard_normal((8, 6), dtype=np.float32),
        )
        for _ in range(2)
    )
    return replace(
        paths,
        head="dot",
        embedding=ComposedEmbedding(books),
        sums=HistorySums(0.40625, popularity_of(paths.seen, count)),
        filter=FilterTerm(EXPONENTS, Mixing(3.0, 0.01)),
    )


def small_mixture(backbone: str, beta: float = 3.0) -> ShippedModel:
    model, term = small_model(backbone), FilterTerm(EXPONENTS, Mixing(beta, 0.01))
    return replace(model, filter=term, seen=small_filter().seen)
