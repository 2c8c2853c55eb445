"""The file of several fields in tests/golden: one stored whole, two that share two books.

After a change of the format on purpose: ``python tests/golden_fields.py`` writes it anew.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cerp import artifact
from cerp.artifact import ComposedEmbedding, Encoding, Index, LookupField, ShippedModel, Table
from cerp.data.ids import Ids

GOLDEN_FIELDS = Path(__file__).parent / "golden" / "fields.cerp"
ENCODING = Encoding(values="int8")
VECTORS = {
    "user": np.array([[127, 0], [127, 254]], dtype=np.float32),
    "country": np.array([[127, -1], [0, 254]], dtype=np.float32),
    "item": np.array([[0, 0], [0, 254], [127, 0]], dtype=np.float32),
}


def golden_fields() -> ShippedModel:
    """Users 10 and 500, countries with vectors of their own, items 0 to 2."""
    first = np.array([[127, 0], [0, 0]], dtype=np.float32)
    second = np.array([[0, 0], [0, 254]], dtype=np.float32)
    tables = (
        Table(Index("coded", 2, codes=np.array([0, 0, 1, 1, 0], dtype=np.int32)), first),
        Table(Index("coded", 2, codes=np.array([0, 1, 0, 1, 0], dtype=np.int32)), second),
    )
    return ShippedModel(
        facts={"method": "EmbeddingCollection"},
        users=Ids.range(0),
        items=Ids.range(5),
        head=None,
        embedding=ComposedEmbedding(tables),
        fields=(
            LookupField("user", Ids(np.array([10, 500]))),
            LookupField(
                "country", Ids(np.array(["at", "ch"], dtype=object)), VECTORS["country"], "int8"
            ),
            LookupField("item", Ids.range(3)),
        ),
    )


if __name__ == "__main__":
    artifact.write(GOLDEN_FIELDS, golden_fields(), ENCODING)
