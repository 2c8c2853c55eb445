"""The metadata of a file that may lie, read one checked field at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from cerp.errors import MalformedFileError

MAX_SIZE = 2**31 - 1
"""No count in a file is larger: codes are int32."""
_Word = TypeVar("_Word", bound=str)


class Fields:
    """A JSON object; ``path`` says where it stands, for errors."""

    def __init__(self, values: Any, path: str = "metadata") -> None:
        if not isinstance(values, dict):
            raise MalformedFileError(f"{path} is not an object")
        self.values: dict[str, Any] = values
        self.path = path

    def __contains__(self, key: str) -> bool:
        return self.values.get(key) is not None

    def whole(self, key: str, *, smallest: int = 0, largest: int = MAX_SIZE) -> int:
        """An integer from ``smallest`` to ``largest``."""
        value = self.values.get(key)
        if type(value) is not int or not smallest <= value <= largest:
            raise MalformedFileError(
                f"{self.path}.{key} must be an integer from {smallest} to {largest:,}, "
                f"got {_short(value)}"
            )
        return value

    def number(self, key: str, *, smallest: float, largest: float) -> float:
        """A number from ``smallest`` to ``largest``."""
        value: Any = self.values.get(key)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not smallest <= value <= largest:
            raise MalformedFileError(
                f"{self.path}.{key} must be a number from {smallest:g} to {largest:g}, "
                f"got {_short(value)}"
            )
        return float(value)

    def truth(self, key: str) -> bool:
        """True or false."""
        value = self.values.get(key)
        if type(value) is not bool:
            raise MalformedFileError(f"{self.path}.{key} must be true or false")
        return value

    def choice(self, key: str, words: Sequence[_Word]) -> _Word:
        """One of a few words."""
        value = self.values.get(key)
        for word in words:
            if value == word:
                return word
        raise MalformedFileError(
            f"{self.path}.{key} must be one of {', '.join(words)}, got {_short(value)}"
        )

    def word(self, key: str) -> str:
        """Some text."""
        value = self.values.get(key)
        if type(value) is not str:
            raise MalformedFileError(f"{self.path}.{key} must be a word, got {_short(value)}")
        return value

    def words(self, key: str) -> list[str]:
        """A list of words."""
        value = self.values.get(key)
        if not isinstance(value, list) or not all(type(word) is str for word in value):
            raise MalformedFileError(f"{self.path}.{key} is not a list of words")
        return value

    def group(self, key: str) -> Fields:
        """An object inside this one."""
        return Fields(self.values.get(key), f"{self.path}.{key}")

    def groups(self, key: str) -> list[Fields]:
        """A list of objects inside this one."""
        value = self.values.get(key)
        if not isinstance(value, list):
            raise MalformedFileError(f"{self.path}.{key} is not a list")
        return [Fields(entry, f"{self.path}.{key}[{i}]") for i, entry in enumerate(value)]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."
