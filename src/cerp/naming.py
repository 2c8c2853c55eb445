"""Groups of named values in one flat mapping, as files of tensors have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

_Value = TypeVar("_Value")


def prefixed(prefix: str, values: Mapping[str, _Value], *, by: str = ".") -> dict[str, _Value]:
    """Every name as ``prefix.name``."""
    return {f"{prefix}{by}{name}": value for name, value in values.items()}


def under(prefix: str, values: Mapping[str, _Value], *, by: str = ".") -> dict[str, _Value]:
    """The values whose names begin with ``prefix.``, by the rest of their names."""
    start = f"{prefix}{by}"
    return {
        name.removeprefix(start): value for name, value in values.items() if name.startswith(start)
    }
