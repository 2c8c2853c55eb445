"""The model in tests/golden/sums.cerp: vectors of four items, summed over what someone has.

After a change of the format on purpose: ``python tests/golden_sums.py`` writes it anew.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cerp import artifact
from cerp.artifact import ComposedEmbedding, Encoding, Index, ShippedModel, Table
from cerp.data.ids import Ids
from cerp.graph.history_sums import HistorySums

SUMS = Path(__file__).parent / "golden" / "sums.cerp"


def sums_model() -> ShippedModel:
    """Item 500 was taken 3 times, 10 and 11 once each, 12 never."""
    first = np.array([[1, 0], [0, 2]], dtype=np.float32)
    second = np.array([[0, 0], [0.5, 0.5]], dtype=np.float32)
    return ShippedModel(
        facts={"budget": "8", "method": "svd"},
        users=Ids.range(0),
        items=Ids(np.array([10, 11, 12, 500])),
        head="dot",
        embedding=ComposedEmbedding(
            (
                Table(Index("coded", 2, codes=np.array([0, 1, 0, 1], dtype=np.int32)), first),
                Table(Index("coded", 2, codes=np.array([0, 0, 0, 1], dtype=np.int32)), second),
            )
        ),
        sums=HistorySums(0.5, np.array([8, 8, 0, 16], dtype=np.uint8)),
        titles=["Café", "Pier 9", "Zoo", "Attic"],
    )


if __name__ == "__main__":
    artifact.write(SUMS, sums_model(), Encoding("fp16"))
