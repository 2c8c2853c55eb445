"""`cerp train --max-file-size` alone: when several kinds of model are tried, and what they had."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from cerp.cli.output import print_note, print_table
from cerp.cli.words import for_the_command_line
from cerp.errors import ConfigError
from cerp.portfolio.members import MEMBERS

if TYPE_CHECKING:
    from cerp.portfolio.choice import Choice

MEMBER_NAMES = [member.name for member in MEMBERS]


def is_portfolio(
    max_file_size: str | None,
    portfolio: str | None,
    time_limit: str | None,
    named: Mapping[str, Any],
) -> bool:
    """Whether several kinds are tried: a file size is given, and nothing that names a kind."""
    given = [name for name, value in named.items() if value is not None]
    if max_file_size is not None and not given:
        return True
    for name, value in (("portfolio", portfolio), ("time_limit", time_limit)):
        if value is not None:
            why = f"with {given[0]} there is one kind" if given else "it needs max_file_size"
            raise ConfigError(f"{name}={value!r} is for several kinds of model, and {why}")
    return False


def print_tried(choice: Choice) -> None:
    """A line for each member, then those without a model and why, then why the winner won."""
    metric = choice.model.config.selection_metric
    print_table(
        ("tried", "file bytes", "stored as", f"valid {metric}", "seconds", ""),
        [
            (
                one.name,
                "-" if one.file_bytes is None else one.file_bytes,
                one.values or "-",
                "-" if one.valid is None else one.valid,
                f"{one.seconds:.1f}",
                "chosen" if one.name == choice.winner else "",
            )
            for one in choice.tried
        ],
    )
    for one in choice.tried:
        if one.why_not is not None:
            typer.echo(f"{one.name}: {for_the_command_line(one.why_not)}")
    typer.echo()
    print_note("chosen", choice.why)
