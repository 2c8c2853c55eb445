"""The tables and figures in the results folder, built again from the records beside them."""

from __future__ import annotations

from pathlib import Path

from cerp.files import write_text
from cerp.pages.svg import standalone
from cerp.paper.output import write_all
from cerp.paper.recipe import read_recipe
from cerp.paper.record import Record
from results_page.frontier import FIGURE, ROWS, figure, read_points

RECORDS = "*/*-runs.json"


def rebuild(folder: Path) -> None:
    """Write what `cerp paper` would, without running anything."""
    for path in sorted(folder.glob(RECORDS)):
        recipe = read_recipe(path.name.removesuffix("-runs.json"))
        write_all(recipe, Record.read(path), folder)
    for path in sorted(folder.glob(f"*/{ROWS}")):
        drawn = figure(path.parent.name, read_points(path))
        write_text(path.with_name(FIGURE), standalone(drawn))
