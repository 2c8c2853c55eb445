"""What a record is written as: rows, Markdown, a page, and figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cerp.files import make_folder, write_json, write_text
from cerp.pages.svg import standalone
from cerp.pages.tables import TablePage, TableSection, to_html, to_markdown
from cerp.paper.json_rows import rows
from cerp.paper.recipe import Recipe
from cerp.paper.recipe_page import recipe_page
from cerp.paper.record import Record


def record_path(folder: Path, dataset: str, recipe: Recipe) -> Path:
    """``FOLDER/<dataset>/<recipe>-runs.json``"""
    return folder / dataset / f"{recipe.name}-runs.json"


def write_all(recipe: Recipe, record: Record, folder: Path) -> TablePage:
    """Everything that is kept of a recipe, in ``FOLDER/<dataset>/``; what is shown is returned.

    ``<recipe>-runs.json`` is the record, ``<recipe>.json`` its rows, and
    ``<recipe>.md``, ``.html`` and ``-1.svg``, ``-2.svg`` ... are built from them.
    """
    path = record_path(folder, record.dataset, recipe)
    make_folder(path.parent)
    record.write(path)
    stem = path.with_name(recipe.name)
    write_json(stem.with_suffix(".json"), rows(recipe, record))
    shown = recipe_page(recipe, record)
    with_images = _with_images(shown, stem)
    write_text(stem.with_suffix(".md"), to_markdown(with_images))
    write_text(stem.with_suffix(".html"), to_html(shown))
    return with_images


def _with_images(shown: TablePage, stem: Path) -> TablePage:
    """The page with its figures as files, which Markdown can show."""

    def shown_in(section: TableSection, number: int) -> TableSection:
        if section.figure is None:
            return section
        name = f"{stem.name}-{number}.svg"
        write_text(stem.with_name(name), standalone(section.figure))
        return replace(section, notes=[f"![{section.title}]({name})", *section.notes])

    sections = [shown_in(section, number) for number, section in enumerate(shown.sections, 1)]
    return replace(shown, sections=sections)
