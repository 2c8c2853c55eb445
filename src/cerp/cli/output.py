"""How results look: aligned text for people, one JSON object for machines."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Collection, Sequence
from typing import Any

import typer

from cerp.cli.words import for_the_command_line
from cerp.terminal import printable

FROM_THE_LIBRARY = ("note", "warning", "no file")
"""Labels of notes whose text the library wrote; others name files, which stay as they are."""


def print_json(result: dict[str, Any]) -> None:
    """One JSON object on standard output, floats in full precision."""
    typer.echo(json.dumps(result, allow_nan=False))


def print_table(
    header: Sequence[str], rows: Sequence[Sequence[object]], *, prose: Collection[str] = ()
) -> None:
    """Columns aligned: the first and those of prose to the left, the others to the right."""
    cells = [list(header), *([_text(value) for value in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    for number, row in enumerate(cells):
        first, *rest = (
            cell.ljust(width) if column == 0 or header[column] in prose else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        typer.echo("  ".join([first, *rest]).rstrip())
        if number == 0:
            typer.echo("  ".join("─" * width for width in widths))


def print_note(label: str, text: str) -> None:
    """A paragraph for the eye, wrapped, on standard error."""
    if label in FROM_THE_LIBRARY:
        text = for_the_command_line(text)
    paragraph = textwrap.fill(f"{label}: {printable(text)}", width=96, subsequent_indent="  ")
    typer.echo(f"\n{paragraph}", err=True)


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4f}"
    if isinstance(value, int):
        return f"{value:,}"
    # In a cell line breaks and tabs would break the table.
    return printable(str(value)).replace("\n", "\\n").replace("\t", "\\t")
