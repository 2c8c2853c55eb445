"""The file for lookups in tests/golden: three words, two books, and a projection.

After a change of the format on purpose: ``python tests/golden_lookup.py`` writes it anew.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cerp import artifact
from cerp.artifact import ComposedEmbedding, Encoding, Index, Projection, ShippedModel, Table
from cerp.data.ids import Ids

GOLDEN_LOOKUP = Path(__file__).parent / "golden" / "lookup.cerp"
ENCODING = Encoding(values="int8")
VECTORS = np.array([[127, 0, 10], [0, 0, 137], [254, 0, 10]], dtype=np.float32)
"""Composed: (127, 0), (0, -127 + 63.5), (254, 0); times the matrix, times 2, and the mean."""


def golden_lookup() -> ShippedModel:
    """Vectors of two numbers that become three: ``v = 2 · z·M + (0, 0, 10)``."""
    first = np.array([[127, 0], [0, -127]], dtype=np.float32)
    second = np.array([[0, 63.5], [127, 0], [0, 0]], dtype=np.float32)
    return ShippedModel(
        facts={"method": "codes"},
        users=Ids.range(0),
        items=Ids(np.array(["one", "two", "three"], dtype=object)),
        head=None,
        embedding=ComposedEmbedding(
            (
                Table(Index("coded", 2, codes=np.array([0, 1, 0], dtype=np.int32)), first),
                Table(
                    Index("coded", 3, codes=np.array([2, 0, 1], dtype=np.int32)),
                    second,
                    second != 0,
                ),
            )
        ),
        projection=Projection(
            np.array([[0.5, 0, 0], [0, 0, -1]], dtype=np.float32),
            np.array([0, 0, 10], dtype=np.float32),
            2.0,
        ),
    )


if __name__ == "__main__":
    artifact.write(GOLDEN_LOOKUP, golden_lookup(), ENCODING)
