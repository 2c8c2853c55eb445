"""The models in tests/golden: filter.cerp and sharp-filter.cerp alone, mixture.cerp with vectors.

After a change of the format on purpose: ``python tests/golden_filter.py`` writes the files anew.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from cerp import artifact
from cerp.artifact import Encoding, FilterTerm, Mixing, Seen, ShippedModel
from cerp.data.ids import Ids
from cerp.graph.filter import Exponents
from cerp.graph.sharpening import Sharpening
from golden_model import ENCODING, golden_model

FOLDER = Path(__file__).parent / "golden"
FILTER, MIXTURE = FOLDER / "filter.cerp", FOLDER / "mixture.cerp"
SHARP_FILTER = FOLDER / "sharp-filter.cerp"


def filter_model() -> ShippedModel:
    """Three users and four items: two and two with items in common, and an item that nobody took.

    The last user took nothing.
    """
    return ShippedModel(
        facts={"budget": "none", "method": "filter"},
        users=Ids(np.array(["ann", "bo", "cy", "di"], dtype=object)),
        items=Ids(np.array([10, 11, 12, 500])),
        head=None,
        embedding=None,
        seen=Seen(np.array([0, 2, 4, 5, 5]), np.array([0, 1, 1, 2, 2], dtype=np.int32)),
        filter=FilterTerm(Exponents(q=1, p=0.5, r=0.25)),
    )


def sharp_filter_model() -> ShippedModel:
    """The same, sharpened."""
    sharpening = Sharpening(m=0.5, strength=0.3, times=2)
    return replace(filter_model(), filter=FilterTerm(Exponents(1, 0.5, 0.25), None, sharpening))


def mixture_model() -> ShippedModel:
    """The golden model of vectors, and the filter beside them."""
    term = FilterTerm(Exponents(q=0.6875, p=0.59375, r=0.3125), Mixing(beta=2.5, epsilon=0.01))
    return replace(golden_model(), filter=term)


if __name__ == "__main__":
    artifact.write(FILTER, filter_model(), Encoding())
    artifact.write(SHARP_FILTER, sharp_filter_model(), Encoding())
    artifact.write(MIXTURE, mixture_model(), ENCODING)
