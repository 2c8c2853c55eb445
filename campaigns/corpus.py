"""Valid model files of every kind to begin with: small, so that a change is likely to matter.

A new section of the format is covered once a model here has it (see docs/format.md).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from cerp.artifact import Encoding, encode
from cerp.artifact.model import ComposedEmbedding, ShippedModel
from cerp.artifact.quantize import VALUES_CODECS
from cerp.assignment.index import Index
from cerp.data.ids import Ids
from cerp.export.item_only import items_only
from golden_cold_start import COLD, cold_start_model
from golden_fields import GOLDEN_FIELDS, golden_fields
from golden_filter import FILTER, MIXTURE, SHARP_FILTER
from golden_lookup import GOLDEN_LOOKUP, golden_lookup
from golden_model import GOLDEN, GOLDEN_CODED
from golden_neighbours import NEIGHBOURS
from golden_sums import SUMS, SUMS_MIXTURE, sums_mixture_model, sums_model
from small_cold_start import cold_model
from small_filters import sharpened, small_filter, small_mixture, small_sums_mixture
from small_models import BACKBONES, ENTITIES, coded_model, pruned, small_model
from small_neighbours import small_neighbours

GOLDEN_FILES = (
    GOLDEN,
    GOLDEN_CODED,
    FILTER,
    SHARP_FILTER,
    MIXTURE,
    NEIGHBOURS,
    SUMS,
    SUMS_MIXTURE,
    COLD,
    GOLDEN_LOOKUP,
    GOLDEN_FIELDS,
)


@cache
def model_files() -> tuple[bytes, ...]:
    """Files of every backbone, codec of values and positions, kind of index, ids and titles."""
    golden = [path.read_bytes() for path in GOLDEN_FILES]
    models = [
        *(small_model(backbone) for backbone in BACKBONES),
        *(coded_model(backbone) for backbone in ("mf", "lightgcn")),
        small_filter(),
        sharpened(small_filter()),
        *(small_mixture(backbone) for backbone in ("mf", "lightgcn", "propagated")),
        items_only(coded_model()),
        golden_lookup(),
        golden_fields(),
        sums_model(),
        small_sums_mixture(),
        sums_mixture_model(),
    ]
    files = [encode(model, Encoding(values=values)) for model in models for values in VALUES_CODECS]
    files += [encode(model, Encoding()) for model in (*_other_tables(), *_other_parts())]
    files += [encode(small_model(), Encoding(seen=False, ids=False, titles=False))]
    files += [encode(model, Encoding("int8", seen=False)) for model in (cold_model(), _als())]
    files += [encode(cold_model(), Encoding(seen=False, popularity=True))]
    return tuple(golden + files)


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


def _other_parts() -> list[ShippedModel]:
    """Weights between items, vectors of items alone, vectors for lookups without a projection."""
    lookup = golden_lookup()
    first = lookup.embedding
    assert isinstance(first, ComposedEmbedding)
    plain = replace(first, tables=(replace(first.tables[0], index=Index("modulo", 2)),))
    return [
        small_neighbours(),
        items_only(cold_model()),
        _als(),
        items_only(_als()),
        replace(lookup, projection=None),
        replace(lookup, embedding=plain, items=Ids.range(5)),
        *(_fields_in_books(*sizes) for sizes in ((4, 4, 4), (4, 3))),
    ]


def _fields_in_books(*sizes: int) -> ShippedModel:
    """Fields that share pruned books: described once where they are of one size."""
    rng = np.random.default_rng(0)
    books = [
        pruned(rng, Index("coded", size, codes=rng.integers(0, size, 5, np.int32)), size, 2)
        for size in sizes
    ]
    return replace(golden_fields(), embedding=ComposedEmbedding(tuple(books)))


def _als() -> ShippedModel:
    """Vectors that say how someone new is folded in, and users and items that are new."""
    return replace(cold_model(), folding=cold_start_model().folding)
