"""Valid model files of every kind to begin with: small, so that a change is likely to matter.

A new section of the format is covered once a model here has it (see docs/format.md).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cerp.artifact import Encoding, encode
from cerp.artifact.model import ComposedEmbedding, ShippedModel
from cerp.artifact.quantize import VALUES_CODECS
from cerp.assignment.index import Index
from cerp.data.ids import Ids
from golden_filter import FILTER, MIXTURE
from golden_model import GOLDEN, GOLDEN_CODED
from small_filters import small_filter, small_mixture
from small_models import BACKBONES, ENTITIES, coded_model, pruned, small_model


def model_files() -> list[bytes]:
    """Files of every backbone, codec of values and positions, kind of index, ids and titles."""
    golden = [path.read_bytes() for path in (GOLDEN, GOLDEN_CODED, FILTER, MIXTURE)]
    models = [
        *(small_model(backbone) for backbone in BACKBONES),
        *(coded_model(backbone) for backbone in ("mf", "lightgcn")),
        small_filter(),
        *(small_mixture(backbone) for backbone in ("mf", "lightgcn", "propagated")),
    ]
    files = [encode(model, Encoding(values=values)) for model in models for values in VALUES_CODECS]
    files += [encode(model, Encoding()) for model in _other_tables()]
    files += [encode(small_model(), Encoding(seen=False, ids=False, titles=False))]
    return golden + files


def _other_tables() -> list[ShippedModel]:
    """Every index, every way to join tables, few and many pruned values, ids that are strings."""
    rng = np.random.default_rng(0)
    indices = (
        (Index("identity"), ENTITIES),
        (Index("modulo", 7), 7),
        (Index("quotient", 8), 9),
        (Index("scaled", 9), 9),
        (Index("hashed", 11, factor=12_345, offset=678), 11),
    )
    named = replace(
        small_model(),
        users=Ids(np.array([f"user {n}" for n in range(25)], dtype=object)),
        items=Ids(np.array([f"Größe-{n}" for n in range(40)], dtype=object)),
    )
    joined = [
        ComposedEmbedding(tuple(pruned(rng, index, rows, 4, kept) for index, rows in indices), how)
        for how in ("sum", "product", "concat")
        for kept in (0.05, 0.5, 1.0)
    ]
    return [replace(named, embedding=embedding) for embedding in joined]
