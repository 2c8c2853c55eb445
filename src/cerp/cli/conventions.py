"""How figures are computed: a line after a result, the whole where it is asked for."""

from __future__ import annotations

from typing import Annotated

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
