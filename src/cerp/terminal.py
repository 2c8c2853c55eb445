"""Text from elsewhere on a terminal: shown, never obeyed."""

from __future__ import annotations

import re

_COMMANDS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters but tabs and line breaks, what turns the direction of writing, and halves."""


def printable(text: str) -> str:
    """The text with what a terminal would obey written out: an escape is shown as ``\\x1b``."""
    return _COMMANDS.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)
