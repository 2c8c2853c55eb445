"""What must hold of a model as a whole, before it is written and after it is read."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from cerp.artifact.model import (
    ComposedEmbedding,
    FloatArray,
    LookupField,
    PropagatedTables,
    Seen,
    ShippedModel,
    Table,
    popularity_of,
)
from cerp.assignment.index import HASH_PRIME
from cerp.data.ids import Int32Array

LARGEST_FACTOR = 2**21 - 1
LARGEST_WIDTH = 2**16 - 1
MOST_LAYERS = 64
"""Of propagation. LightGCN has a handful; serving takes a pass over the graph for each."""


def problem(model: ShippedModel) -> str | None:
    """The first thing that makes a model unusable, in words; None if there is none."""
    num_entities = len(model.users) + len(model.items)
    if model.is_lookup:
        return _lookup_problem(model) or _embedding_problem(model, num_entities)
    if model.fields is not None:
        return "a recommender has fields, which only files for lookups may have"
    if model.projection is not None:
        return "vectors that are scored have a projection, which only those for lookups may have"
    of_items = model.neighbours, model.tastes, model.sums if model.filter is None else None
    knows_items_alone = any(part is not None for part in of_items)
    if not len(model.items) or (not knows_items_alone and not len(model.users)):
        return f"there are {len(model.users):,} users and {len(model.items):,} items"
    if model.positions is not None and not _is_permutation(model.positions, num_entities):
        return f"the positions are not those of {num_entities:,} entities"
    if model.titles is not None and len(model.titles) != len(model.items):
        return f"there are {len(model.titles):,} titles for {len(model.items):,} items"
    return (
        _embedding_problem(model, model.num_composed)
        or _scoring_problem(model)
        or _neighbours_problem(model)
        or _sums_problem(model)
        or _cold_problem(model)
        or _tastes_problem(model)
        or _folding_problem(model)
        or (_seen_problem(model.seen, len(model.users), len(model.items)) if model.seen else None)
        or _popularity_problem(model)
    )


def _lookup_problem(model: ShippedModel) -> str | None:
    """What a file for lookups has beside its tables: ids, and perhaps a projection."""
    if len(model.users) or not len(model.items):
        return f"a file for lookups has {len(model.users):,} users and {len(model.items):,} ids"
    if not isinstance(model.embedding, ComposedEmbedding):
        return "a file for lookups has propagated tables, and no graph to propagate over"
    beside = (
        *(model.positions, model.seen, model.titles),
        *(model.neighbours, model.sums, model.tastes, model.cold, model.folding),
    )
    if model.weights or model.layers or any(part is not None for part in beside):
        return "a file for lookups has parts that only recommending needs"
    if model.fields is not None and (found := _fields_problem(model, model.fields)) is not None:
        return found
    if model.projection is None:
        return None
    matrix, mean = model.projection.matrix, model.projection.mean
    if matrix.shape != (model.embedding.dim, len(mean)) or not 1 <= len(mean) <= LARGEST_WIDTH:
        return (
            f"the projection of {model.embedding.dim:,} numbers has the shape {matrix.shape} and a "
            f"mean of {len(mean):,}"
        )
    return None


def _fields_problem(model: ShippedModel, fields: tuple[LookupField, ...]) -> str | None:
    """What does not fit in the fields of a file for lookups."""
    if model.projection is not None:
        return "the vectors of fields have a projection"
    if not model.items.is_range:
        return "each field has ids of its own, and so have their shared tables"
    if len({field.name for field in fields}) < len(fields):
        return "two fields have one name"
    shared = sum(len(field.ids) for field in fields if field.table is None)
    if shared != len(model.items):
        return f"the fields have {shared:,} ids in shared tables, which are of {len(model.items):,}"
    for field in fields:
        if field.table is not None and field.table.shape != (len(field.ids), model.dim):
            return (
                f"the table of field {field.name!r} has the shape {field.table.shape}, not "
                f"{(len(field.ids), model.dim)}"
            )
        if field.table is not None and not np.isfinite(field.table).all():
            return f"the table of field {field.name!r} holds NaN or infinity"
    return None


def _is_permutation(positions: Int32Array, count: int) -> bool:
    return positions.shape == (count,) and np.array_equal(np.sort(positions), np.arange(count))


def _embedding_problem(model: ShippedModel, num_entities: int) -> str | None:
    embedding = model.embedding
    if embedding is None:
        return None
    if isinstance(embedding, PropagatedTables):
        if model.head != "dot":
            return f"propagated tables are scored by a dot product, not by a {model.head}"
        shapes = embedding.users.shape, embedding.items.shape
        dim = embedding.dim
        if shapes != ((len(model.users), dim), (len(model.items), dim)):
            return f"the propagated tables have the shapes {shapes[0]} and {shapes[1]}"
        return None
    if not embedding.tables:
        return "the embedding has no table"
    widths = {table.weight.shape[1] for table in embedding.tables}
    if embedding.combine != "concat" and len(widths) > 1:
        return f"tables of different widths {sorted(widths)} cannot make a {embedding.combine}"
    problems = (_table_problem(table, num_entities) for table in embedding.tables)
    return next((found for found in problems if found), None)


def _table_problem(table: Table, num_entities: int) -> str | None:
    rows, columns = table.weight.shape
    index = table.index
    if not 1 <= columns <= LARGEST_WIDTH:
        return f"a table has {columns:,} columns; 1 to {LARGEST_WIDTH:,} are possible"
    if index.kind != "identity" and not 1 <= index.size <= HASH_PRIME:
        return f"the index {index.kind} of a table needs a size from 1 on, got {index.size}"
    if not (0 <= index.factor <= LARGEST_FACTOR and 0 <= index.offset < HASH_PRIME):
        return f"the index of a table has the factor {index.factor} and the offset {index.offset}"
    if (index.kind == "coded") != (index.codes is not None):
        return f"the index {index.kind} of a table has codes, or lacks them"
    if index.codes is not None and (
        index.codes.shape != (num_entities,)
        or not 0 <= index.codes.min(initial=0) <= index.codes.max(initial=0) < index.size
    ):
        return (
            f"the codes of a table do not give {num_entities:,} entities one of {index.size:,} rows"
        )
    if index.rows_needed(num_entities) > rows:
        return (
            f"the index {index.kind} of {num_entities:,} entities leads to row "
            f"{index.rows_needed(num_entities) - 1:,} of a table with {rows:,}"
        )
    if table.mask is not None and table.mask.shape != table.weight.shape:
        return f"a table of shape {table.weight.shape} has a mask of {table.mask.shape}"
    if table.mask is not None and ((table.weight != 0) > table.mask).any():
        return "a table has values where its mask says that none are stored"
    return None


def _scoring_problem(model: ShippedModel) -> str | None:
    if (model.embedding is None) != (model.head is None):
        return "a head needs vectors, and vectors a head: one of them is missing"
    if (found := _filter_problem(model)) is not None:
        return found
    if not 0 <= model.layers <= MOST_LAYERS:
        return f"the model has {model.layers} layers; 1 to {MOST_LAYERS} are possible"
    if model.layers and isinstance(model.embedding, ComposedEmbedding) and model.seen is None:
        return (
            "propagation needs its graph, the seen interactions, unless the tables are propagated "
            "already"
        )
    if model.head == "tower":
        return _tower_problem(model.weights, 2 * model.dim)
    return "a model that scores by dot products has weights of a tower" if model.weights else None


def _folding_problem(model: ShippedModel) -> str | None:
    if model.folding is None or (model.head == "dot" and not model.layers):
        return None
    return "least squares fold someone new into vectors that are scored by dot products alone"


def _filter_problem(model: ShippedModel) -> str | None:
    if model.filter is None:
        ranks = model.embedding is not None or model.neighbours is not None
        return None if ranks else "there are neither vectors nor a filter"
    if model.seen is None:
        return "the filter needs its graph, the seen interactions"
    if (model.filter.mixing is None) != (model.embedding is None):
        return "the filter of a model with vectors has beta and epsilon, that of others has none"
    return None


def _sums_problem(model: ShippedModel) -> str | None:
    found = model.sums
    if found is None:
        return None
    if model.neighbours is not None or model.tastes is not None or model.folding is not None:
        return "sums over histories are all that someone new needs, and there is more beside them"
    if model.head != "dot" or model.layers or isinstance(model.embedding, PropagatedTables):
        return "sums over histories are scored by a dot product, of vectors as they are stored"
    if model.filter is None and (len(model.users) or model.seen is not None):
        return "sums over histories need no users and no interactions, but for a filter beside them"
    if model.positions is not None:
        return "sums over histories need no order of users and items"
    if model.cold is not None:
        return "sums over histories say themselves what training never saw"
    if len(found.popularity) != len(model.items):
        return f"the sums have a popularity of other than {len(model.items):,} items"
    return None


def _popularity_problem(model: ShippedModel) -> str | None:
    """Beside a graph no popularity is stored: it must be the one that the graph says."""
    if model.sums is None or model.seen is None:
        return None
    told = popularity_of(model.seen, len(model.items))
    if np.array_equal(model.sums.popularity, told):
        return None
    return "the sums have another popularity than the interactions"


def _neighbours_problem(model: ShippedModel) -> str | None:
    found = model.neighbours
    if found is None:
        return None
    if model.embedding is not None or model.filter is not None:
        return "neighbours rank alone, and there are vectors or a filter beside them"
    if len(model.users) or model.seen is not None or model.positions is not None:
        return "neighbours need no users, no interactions and no order of them"
    count = len(model.items)
    if (len(found.scales), len(found.popularity)) != (count, count):
        return f"the neighbours have scales or a popularity of other than {count:,} items"
    if len(found.integers) != len(found.targets):
        return "the neighbours have other than one weight for each target"
    if not np.isfinite(found.scales).all() or (found.scales < 0).any():
        return "the scales of neighbours are finite and not negative"
    if (problem := _seen_problem(Seen(found.offsets, found.targets), count, count)) is not None:
        return f"the targets of neighbours are not in order ({problem})"
    return None


def _tastes_problem(model: ShippedModel) -> str | None:
    found = model.tastes
    if found is None:
        return None
    if len(model.users) or model.seen is not None or model.positions is not None:
        return "tastes are for a file without users, interactions and an order of them"
    if model.head != "dot" or model.layers:
        return "tastes go with vectors that are scored by a dot product as they are stored"
    if found.mean.shape != (model.dim,) or found.variance.shape != (model.dim,):
        return f"the tastes are not those of vectors of {model.dim} numbers"
    if not np.isfinite([found.mean, found.variance]).all() or (found.variance < 0).any():
        return "the tastes are finite, and their variances not negative"
    return None


def _tower_problem(weights: dict[str, FloatArray], inputs: int) -> str | None:
    layers = ["first", *(f"rest.{number}" for number in range(len(weights) // 2 - 1))]
    if set(weights) != {f"{layer}.{part}" for layer in layers for part in ("weight", "bias")}:
        return f"the weights of the tower are {', '.join(sorted(weights)) or 'missing'}"
    outputs = [weights[f"{layer}.bias"].size for layer in layers]
    for layer, (taken, given) in zip(layers, pairwise([inputs, *outputs]), strict=True):
        found = weights[f"{layer}.weight"].shape, weights[f"{layer}.bias"].shape
        if found != ((given, taken), (given,)):
            return f"the tower's layer {layer} has the shapes {found[0]} and {found[1]}"
    if not all(np.isfinite(weight).all() for weight in weights.values()):
        return "the weights of the tower hold NaN or infinity"
    return None if outputs[-1] == 1 else f"the tower ends in {outputs[-1]} numbers instead of 1"


def _cold_problem(model: ShippedModel) -> str | None:
    cold = model.cold
    if cold is None:
        return None
    if model.seen is not None:
        return "the interactions say what training never saw, and so does another part"
    if len(cold.users) and cold.degrees is None:
        return "there are users without training rows, and nothing says which items are popular"
    return None


def _seen_problem(seen: Seen, num_users: int, num_items: int) -> str | None:
    offsets, items = seen.offsets, seen.items
    if offsets.shape != (num_users + 1,) or offsets[0] != 0 or offsets[-1] != len(items):
        return f"the seen interactions are not those of {num_users:,} users"
    if (np.diff(offsets) < 0).any():
        return "the offsets of the seen interactions descend"
    if len(items) and not 0 <= items.min() <= items.max() < num_items:
        return f"the seen interactions name items beyond the {num_items:,} there are"
    ascending = np.diff(items) > 0
    ascending[offsets[(offsets > 0) & (offsets < len(items))] - 1] = True
    return None if ascending.all() else "the items of a user are not ascending"
