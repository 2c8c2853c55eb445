"""Whether a value that was read from a file is of the kind that a type hint says."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

LARGEST = 2.0**63
"""Numbers are below: nothing that is counted or measured here comes near."""


def fits(value: object, hint: Any) -> bool:
    """Whether a value, as JSON has it, is what the hint says; numbers are finite ones."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, UnionType):
        return any(fits(value, one) for one in inner)
    if origin is Literal:
        return isinstance(value, str) and value in inner
    if origin is dict:
        return isinstance(value, dict) and all(
            fits(key, inner[0]) and fits(entry, inner[1]) for key, entry in value.items()
        )
    if origin is tuple:
        return isinstance(value, tuple | list) and all(fits(entry, inner[0]) for entry in value)
    if hint is float or hint is int:
        allowed = (int,) if hint is int else (int, float)
        is_number = isinstance(value, allowed) and not isinstance(value, bool)
        return is_number and -LARGEST < value < LARGEST  # type: ignore[operator]
    if hint is str:
        return isinstance(value, str) and not any("\ud800" <= sign <= "\udfff" for sign in value)
    return isinstance(value, NoneType if hint is None else hint)
