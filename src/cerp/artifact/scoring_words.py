"""How a model scores, and the word for it in the file's metadata.

The file says how to score, not which backbone was trained: any backbone whose
scores are one of these ways can be written, read and served. The words are
those of the first backbones that had them; ``+filter`` says that the graph filter
is added, and ``filter`` that there is nothing else. It is in the word, so that a reader
that knows no filter refuses the file instead of ranking by half of it. ``neighbours`` are
weights between items, ``sums`` vectors of items that are summed over the items that someone has;
``lookup`` says that vectors are looked up and nothing is scored.
"""

from __future__ import annotations

from typing import NamedTuple

from cerp.artifact.fields import Fields
from cerp.artifact.model import ShippedModel
from cerp.choices import Head
from cerp.errors import ConfigError, MalformedFileError


class _Way(NamedTuple):
    head: Head | None
    propagates: bool
    is_filtered: bool = False
    has_neighbours: bool = False
    has_sums: bool = False


VECTOR_WAYS = {
    "mf": _Way("dot", propagates=False),
    "mlp": _Way("tower", propagates=False),
    "lightgcn": _Way("dot", propagates=True),
}
FILTER, LOOKUP, NEIGHBOURS, SUMS = "filter", "lookup", "neighbours", "sums"
WAYS = {
    **VECTOR_WAYS,
    LOOKUP: _Way(None, propagates=False),
    FILTER: _Way(None, propagates=False, is_filtered=True),
    NEIGHBOURS: _Way(None, propagates=False, has_neighbours=True),
    SUMS: _Way("dot", propagates=False, has_sums=True),
    **{f"{word}+{FILTER}": way._replace(is_filtered=True) for word, way in VECTOR_WAYS.items()},
}
"""By the word under ``backbone`` in the metadata."""


def scoring_word(
    head: Head | None,
    layers: int,
    *,
    is_filtered: bool = False,
    has_neighbours: bool = False,
    has_sums: bool = False,
) -> str:
    """The word for a way to score: a head, and layers of propagation before it (0: none)."""
    wanted = _Way(head, layers > 0, is_filtered, has_neighbours, has_sums)
    for word, way in WAYS.items():
        if way == wanted:
            return word
    raise ConfigError(
        f"a model file has no word for the head {head!r} after {layers} layers of propagation; "
        "propagated vectors are scored by a dot product"
    )


def read_scoring(fields: Fields) -> tuple[Head | None, int]:
    """Head and layers as the metadata have them."""
    word = fields.choice("backbone", tuple(WAYS))
    head, propagates, is_filtered, has_neighbours, has_sums = WAYS[word]
    layers = fields.whole("layers")
    if (layers > 0) != propagates:
        raise MalformedFileError(
            f"the way to score {word!r} goes with {'1 or more' if propagates else '0'} layers of "
            f"propagation, got {layers}"
        )
    if is_filtered != ("filter" in fields):
        there = "is there" if "filter" in fields else "is missing"
        raise MalformedFileError(f"the way to score is {word!r}, and the filter {there}")
    if has_neighbours != ("neighbours" in fields):
        there = "are there" if "neighbours" in fields else "are missing"
        raise MalformedFileError(f"the way to score is {word!r}, and neighbours {there}")
    if has_sums != ("sums" in fields):
        there = "are there" if "sums" in fields else "are missing"
        raise MalformedFileError(f"the way to score is {word!r}, and sums over histories {there}")
    return head, layers


def word_of(model: ShippedModel) -> str:
    """The word for the way in which a model scores."""
    return scoring_word(
        model.head,
        model.layers,
        is_filtered=model.filter is not None,
        has_neighbours=model.neighbours is not None,
        has_sums=model.sums is not None,
    )


def backbone_name(model: ShippedModel) -> str:
    """The backbone that a model was trained with: the word, unless its facts know better."""
    found = model.facts.get("backbone")
    return found if isinstance(found, str) else word_of(model)
