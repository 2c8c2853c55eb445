"""Small models with a graph filter: alone, and beside vectors."""

from __future__ import annotations

from dataclasses import replace

from cerp.artifact import FilterTerm, Mixing, Seen, ShippedModel
from cerp.graph.filter import Exponents
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


def small_mixture(backbone: str, beta: float = 3.0) -> ShippedModel:
    model, term = small_model(backbone), FilterTerm(EXPONENTS, Mixing(beta, 0.01))
    return replace(model, filter=term, seen=small_filter().seen)
