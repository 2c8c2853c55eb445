"""The models in tests/golden, of which docs/format.md shows bytes.

After a change of the format on purpose: ``python tests/golden_model.py`` writes the files anew.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cerp import artifact
from cerp.artifact import ComposedEmbedding, Encoding, Index, Seen, ShippedModel, Table
from cerp.data.ids import Ids

GOLDEN = Path(__file__).parent / "golden" / "tiny.cerp"
GOLDEN_CODED = GOLDEN.with_name("coded.cerp")
ENCODING = Encoding(values="int4")


def golden_model() -> ShippedModel:
    """Two users and three items; every kind of section has something to say."""
    p = np.array([[7, 0, -3, 1], [0, 0, 0, 0], [0, 3.5, 0, 0]], dtype=np.float32)
    q = np.array([[-7, 1, 2, 4], [14, -14, 2, 0], [0.5, 1, 1.5, 3.5]], dtype=np.float32)
    return ShippedModel(
        facts={"budget": "16 values", "method": "cerp", "seed": 0},
        users=Ids(np.array(["ann", "bo"], dtype=object)),
        items=Ids(np.array([10, 11, 500])),
        head="dot",
        embedding=ComposedEmbedding(
            (Table(Index("modulo", 3), p, p != 0), Table(Index("scaled", 3), q))
        ),
        positions=np.array([3, 0, 4, 1, 2], dtype=np.int32),
        layers=2,
        seen=Seen(np.array([0, 2, 3]), np.array([0, 2, 1], dtype=np.int32)),
        titles=["Café", "Pier 9", "Zoo"],
    )


def golden_coded_model() -> ShippedModel:
    """Two users and 150 items; codes as bit planes, and runs of codes that are worth deflating."""
    p = np.array([[7, 0, -3, 1], [0, 0, 0, 0], [0, 3.5, 0, 0]], dtype=np.float32)
    q = np.array([[-7, 1, 2, 4], [14, -14, 2, 0]], dtype=np.float32)
    mixed = np.array([pow(3, k, 257) % 3 for k in range(152)], dtype=np.int32)
    runs = np.repeat(np.array([0, 1], dtype=np.int32), 76)
    return ShippedModel(
        facts={"budget": "12 values", "method": "cerp", "seed": 0},
        users=Ids(np.array(["ann", "bo"], dtype=object)),
        items=Ids.range(150),
        head="dot",
        embedding=ComposedEmbedding(
            (
                Table(Index("coded", 3, codes=mixed), p, p != 0),
                Table(Index("coded", 2, codes=runs), q),
            )
        ),
    )


if __name__ == "__main__":
    artifact.write(GOLDEN, golden_model(), ENCODING)
    artifact.write(GOLDEN_CODED, golden_coded_model(), ENCODING)
