"""The model in tests/golden/cold.cerp: vectors of ALS, and users and items without training rows.

After a change of the format on purpose: ``python tests/golden_cold_start.py`` writes it anew.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cerp import artifact
from cerp.artifact import ComposedEmbedding, Encoding, Index, Seen, ShippedModel, Table
from cerp.artifact.model import LeastSquares
from cerp.data.ids import Ids

COLD = Path(__file__).parent / "golden" / "cold.cerp"
ENCODING = Encoding("int8", seen=False)


def cold_start_model() -> ShippedModel:
    """Three users and four items; cy and item 500 are in no interaction."""
    vectors = [[1, 0], [0, 1], [0, 0], [2, 0], [0, 2], [1, 1], [0, 0]]
    return ShippedModel(
        facts={"budget": "full", "method": "als"},
        users=Ids(np.array(["ann", "bo", "cy"], dtype=object)),
        items=Ids(np.array([10, 11, 12, 500])),
        head="dot",
        embedding=ComposedEmbedding((Table(Index("identity"), np.float32(vectors)),)),
        seen=Seen(np.array([0, 2, 4, 4]), np.array([0, 2, 1, 2], dtype=np.int32)),
        folding=LeastSquares(alpha=2.0, regularization=1.0),
    )


if __name__ == "__main__":
    artifact.write(COLD, cold_start_model(), ENCODING)
