"""What a file format is, and the formats there are by name.

A format is one file: a function that reads it, and a `FileFormat` that says how it is recognised.
A package of its own adds one by an entry point:

    [project.entry-points."cerp.formats"]
    mine = "my_package.my_format:FORMAT"
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cerp.data.formats.columns import Wanted
from cerp.data.interactions import Interactions
from cerp.registry import Registry

COLUMN_OPTIONS = frozenset(
    {"user", "item", "rating", "time", "weight", "min_rating", "ids", "where", "time_format"}
)
"""What a caller may ask of a table with columns, see `Wanted`."""
LAYOUT_OPTIONS = frozenset({"delimiter", "header", "decimal"})
"""What a caller may say about delimited text."""


@dataclass(frozen=True)
class SourceFile:
    """A file to read, and what the caller said about it."""

    path: Path
    """What the caller named; messages name it too."""
    plain: Path
    """The same content, uncompressed; of a text format in UTF-8."""
    head: str = ""
    """The first lines of a text format."""
    delimiter: str | None = None
    header: bool | None = None
    sql: str | None = None
    """What to read of a database."""


@dataclass(frozen=True)
class FileFormat:
    """One way in which interactions are written to a file.

    Parameters
    ----------
    title
        What messages call it, such as ``"JSON lines"``.
    read
        Interactions of a file. What is asked for is within ``options``.
    suffixes
        Endings of file names by which it is recognised, such as ``(".csv",)``; lower case.
    options
        The options of `cerp.read` that it understands; others are refused.
    is_text
        Whether files are text, which may be compressed (``.gz``) and in any encoding.

    """

    title: str
    read: Callable[[SourceFile, Wanted], Interactions]
    suffixes: tuple[str, ...] = ()
    options: frozenset[str] = COLUMN_OPTIONS
    is_text: bool = True


FORMATS: Registry[FileFormat] = Registry(
    "format",
    "cerp.formats",
    {
        "csv": "cerp.data.formats.delimited:DELIMITED",
        "duckdb": "cerp.data.formats.databases:DUCKDB",
        "jsonl": "cerp.data.formats.json_lines:JSON_LINES",
        "lightgcn": "cerp.data.formats.lightgcn_text:LIGHTGCN",
        "parquet": "cerp.data.formats.parquet:PARQUET",
        "recbole": "cerp.data.formats.recbole:RECBOLE",
    },
)
"""Every file format, by the name that ``format=`` takes. A new one is a file and a line here."""


def format_of_suffix(suffix: str) -> str | None:
    """The name of the format that a file's ending stands for; cerp's own come first."""
    names = sorted(FORMATS, key=lambda name: not FORMATS.is_own(name))
    return next((name for name in names if suffix in FORMATS[name].suffixes), None)
