"""The models in tests/golden: sums.cerp, vectors of four items that are summed over what someone
has, and sums-mixture.cerp, the same beside a sharpened graph filter.

After a change of the format on purpose: ``python tests/golden_sums.py`` writes them anew.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from cerp import artifact
from cerp.artifact import ComposedEmbedding, Encoding, Index, Mixing, ShippedModel, Table
from cerp.data.ids import Ids
from cerp.graph.history_sums import HistorySums
from golden_filter import sharp_filter_model

FOLDER = Path(__file__).parent / "golden"
SUMS, SUMS_MIXTURE = FOLDER / "sums.cerp", FOLDER / "sums-mixture.cerp"


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


def sums_mixture_model() -> ShippedModel:
    """Beside the golden graph, whose items were taken once, twice, twice and never."""
    graph = sharp_filter_model()
    assert graph.filter is not None
    term = replace(graph.filter, mixing=Mixing(beta=2.5, epsilon=0.01))
    levels = np.array([8, 12, 12, 0], dtype=np.uint8)
    return replace(
        sums_model(),
        users=graph.users,
        seen=graph.seen,
        filter=term,
        sums=HistorySums(0.5, levels),
    )


if __name__ == "__main__":
    artifact.write(SUMS_MIXTURE, sums_mixture_model(), Encoding("fp16"))
    artifact.write(SUMS, sums_model(), Encoding("fp16"))
