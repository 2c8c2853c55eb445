"""How figures are computed: a line after a result, the whole where it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from cerp.cli.output import print_note
from cerp.evaluation.metrics import CONVENTIONS

Conventions = Annotated[
    bool, typer.Option("--conventions", help="Also print how the figures are computed.")
]
IN_A_LINE = "ranked over all items, none of them sampled; --conventions tells the rest"


def print_conventions(*, whole: bool, start: str = "") -> None:
    """Say after a result what its figures mean; ``start`` says what was judged."""
    print_note("conventions", f"{start}{CONVENTIONS if whole else IN_A_LINE}")


def cold_start_words(figures: Mapping[str, Any], *, unseen_items: bool = False) -> str:
    """How many users and items training never saw, and what becomes of them; "" for none."""
    words = ""
    if cold := figures.get("cold_users", 0):
        words += f", {cold:,} of them without training rows, who get the popular items"
    if (unseen := figures.get("unseen_items", 0)) and not unseen_items:
        item, are = ("item", "is") if unseen == 1 else ("items", "are")
        words += f"; {unseen:,} {item} that training never saw {are} not recommended"
    return words
