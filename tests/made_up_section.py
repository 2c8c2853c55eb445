"""A section that no version has: a field of the model, its codec and its declaration."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pytest

from cerp.artifact import ShippedModel, file, sections, sizes
from cerp.artifact.fields import Fields
from cerp.artifact.sections import OptionalPart, Section, Surroundings
from cerp.artifact.tensors import TensorReader, Tensors


@dataclass(frozen=True, eq=False)
class PricedModel(ShippedModel):
    """With a price for every item, in cents up to 255."""

    prices: np.ndarray | None = None


def priced(model: ShippedModel, prices: np.ndarray | None) -> PricedModel:
    own = {entry.name: getattr(model, entry.name) for entry in fields(ShippedModel)}
    return PricedModel(**own, prices=prices)


def encode_prices(model: ShippedModel) -> tuple[dict[str, Any], Tensors]:
    assert isinstance(model, PricedModel)
    assert model.prices is not None
    return {"currency": "cent"}, {"prices.cents": model.prices}


def decode_prices(fields: Fields, tensors: TensorReader, around: Surroundings) -> np.ndarray:
    fields.choice("currency", ("cent",))
    return tensors.under("prices").array("cents", np.uint8, around.num_items)


def declare_prices(patch: pytest.MonkeyPatch) -> None:
    """What someone who adds the section writes into sections.py."""
    part = OptionalPart("prices", encode_prices, decode_prices, may_be_skipped=True)
    patch.setattr(sections, "OPTIONAL_PARTS", (*sections.OPTIONAL_PARTS, part))
    declared = (*sections.SECTIONS, Section("prices", ("prices.*",)))
    patch.setattr(sections, "SECTIONS", declared)
    patch.setattr(sizes, "SECTIONS", declared)
    patch.setattr(file, "ShippedModel", PricedModel)
