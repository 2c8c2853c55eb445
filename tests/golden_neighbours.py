"""The model in tests/golden/neighbours.cerp: weights between four items, and no users.

After a change of the format on purpose: ``python tests/golden_neighbours.py`` writes it anew.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cerp import artifact
from cerp.artifact import Encoding, ShippedModel
from cerp.data.ids import Ids
from cerp.graph.neighbours import Neighbours

NEIGHBOURS = Path(__file__).parent / "golden" / "neighbours.cerp"


def neighbours_model() -> ShippedModel:
    """Item 10 speaks for 11 and 500, 12 for 10 and, against it, for 11; 500 is the most popular."""
    return ShippedModel(
        facts={"budget": "5", "method": "neighbours"},
        users=Ids.range(0),
        items=Ids(np.array([10, 11, 12, 500])),
        head=None,
        embedding=None,
        neighbours=Neighbours(
            offsets=np.array([0, 2, 2, 4, 5]),
            targets=np.array([1, 3, 0, 1, 0], dtype=np.int32),
            integers=np.array([7, 3, 2, -1, 127], dtype=np.int8),
            scales=np.array([0.5, 0, 0.25, 2**-9], dtype=np.float16),
            popularity=np.array([8, 8, 0, 20], dtype=np.uint8),
        ),
        titles=["Café", "Pier 9", "Zoo", "Attic"],
    )


if __name__ == "__main__":
    artifact.write(NEIGHBOURS, neighbours_model(), Encoding())
