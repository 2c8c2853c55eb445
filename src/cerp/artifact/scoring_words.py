"""How a model scores, and the word for it in the file's metadata.

The file says how to score, not which backbone was trained: any backbone whose
scores are one of these ways can be written, read and served. The words are
those of the first backbones that had them; ``+filter`` says that the graph filter
is added, and ``filter`` that there is nothing else; a sharpened one is a ``sharp-filter``.
It is in the word, so that a reader that does not know it refuses the file instead of ranking by
half of it. ``neighbours`` are weights between items, ``sums`` vectors of items that are summed over
the items that someone has (``sums+filter``: users of training, too); ``lookup`` says that vectors
are looked up and nothing is scored.
"""

from __future__ import annotations

from typing import NamedTuple

from cerp.artifact.fields import Fields
from cerp.artifact.model import ShippedModel
from cerp.choices import Head
from cerp.errors import ConfigError, MalformedFileError
from cerp.graph.term import FilterTerm


class _Way(NamedTuple):
    head: Head | None
    propagates: bool
    filtered: str | None = None
    """The word for the filter that is added, or that ranks alone."""
    has_neighbours: bool = False
    has_sums: bool = False


VECTOR_WAYS = {
    "mf": _Way("dot", propagates=False),
    "mlp": _Way("tower", propagates=False),
    "lightgcn": _Way("dot", propagates=True),
}
FILTER, SHARP_FILTER, LOOKUP = "filter", "sharp-filter", "lookup"
NEIGHBOURS, SUMS = "neighbours", "sums"
FILTERS = (FILTER, SHARP_FILTER)
SUMMED = _Way("dot", propagates=False, has_sums=True)
WAYS = {
    **VECTOR_WAYS,
    LOOKUP: _Way(None, propagates=False),
    **{filtered: _Way(None, propagates=False, filtered=filtered) for filtered in FILTERS},
    NEIGHBOURS: _Way(None, propagates=False, has_neighbours=True),
    SUMS: SUMMED,
    **{
        f"{word}+{filtered}": way._replace(filtered=filtered)
        for filtered in FILTERS
        for word, way in {**VECTOR_WAYS, SUMS: SUMMED}.items()
    },
}
"""By the word under ``backbone`` in the metadata."""


def scoring_word(
    head: Head | None,
    layers: int,
    *,
    filtered: str | None = None,
    has_neighbours: bool = False,
    has_sums: bool = False,
) -> str:
    """The word for a way to score: a head, and layers of propagation before it (0: none)."""
    wanted = _Way(head, layers > 0, filtered, has_neighbours, has_sums)
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
    head, propagates, filtered, has_neighbours, has_sums = WAYS[word]
    layers = fields.whole("layers")
    if (layers > 0) != propagates:
        raise MalformedFileError(
            f"the way to score {word!r} goes with {'1 or more' if propagates else '0'} layers of "
            f"propagation, got {layers}"
        )
    if (filtered is not None) != ("filter" in fields):
        there = "is there" if "filter" in fields else "is missing"
        raise MalformedFileError(f"the way to score is {word!r}, and the filter {there}")
    if filtered is not None and (filtered == SHARP_FILTER) != ("m" in fields.group("filter")):
        is_not = "is not" if filtered == SHARP_FILTER else "is"
        raise MalformedFileError(f"the way to score is {word!r}, and the filter {is_not} sharpened")
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
        filtered=_filter_word(model.filter),
        has_neighbours=model.neighbours is not None,
        has_sums=model.sums is not None,
    )


def _filter_word(term: FilterTerm | None) -> str | None:
    if term is None:
        return None
    return FILTER if term.sharpening is None else SHARP_FILTER


def backbone_name(model: ShippedModel) -> str:
    """The backbone that a model was trained with: the word, unless its facts know better."""
    found = model.facts.get("backbone")
    return found if isinstance(found, str) else word_of(model)
