"""What a search leaves for each budget, and how it is written to a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from torch import Tensor

from cerp.naming import prefixed, under


class Found(NamedTuple):
    """What a search leaves for one budget."""

    tensors: dict[str, Tensor]
    """By the names that the method gives them: of pruning, the ``weight`` and the ``mask``."""
    facts: dict[str, Any]
    """Ready for JSON."""


def pack(found: Mapping[int, Found]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Finds by limit, as named tensors and facts of one file."""
    tensors: dict[str, Tensor] = {}
    for limit, entry in found.items():
        tensors |= prefixed(str(limit), entry.tensors)
    return tensors, {str(limit): entry.facts for limit, entry in found.items()}


def unpack(tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> dict[int, Found]:
    """The inverse of `pack`."""
    return {int(limit): Found(under(limit, tensors), own) for limit, own in facts.items()}
