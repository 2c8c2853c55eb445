"""What a record is written as: rows, Markdown, a page, and figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cerp.comparison.rendering import to_html, to_markdown
from cerp.comparison.tables import Report, Section
from cerp.files import make_folder, write_json, write_text
from cerp.paper.json_rows import rows
from cerp.paper.recipe import Recipe
from cerp.paper.recipe_report import report
from cerp.paper.record import Record


def record_path(folder: Path, dataset: str, recipe: Recipe) -> Path:
    """``FOLDER/<dataset>/<recipe>-runs.json``"""
    return folder / dataset / f"{recipe.name}-runs.json"


def write_all(recipe: Recipe, record: Record, folder: Path) -> str:
    """Everything that is kept of a recipe, in ``FOLDER/<dataset>/``; the Markdown is returned.

    ``<recipe>-runs.json`` is the record, ``<recipe>.json`` its rows, and
    ``<recipe>.md``, ``.html`` and ``-1.svg``, ``-2.svg`` ... are built from them.
    """
    path = record_path(folder, record.dataset, recipe)
    make_folder(path.parent)
    record.write(path)
    stem = path.with_name(recipe.name)
    write_json(stem.with_suffix(".json"), rows(recipe, record))
    shown = report(recipe, record)
    markdown = to_markdown(_with_images(shown, stem))
    write_text(stem.with_suffix(".md"), markdown)
    write_text(stem.with_suffix(".html"), to_html(shown))
    return markdown


def _with_images(shown: Report, stem: Path) -> Report:
    """The report with its figures as files, which Markdown can show."""

    def shown_in(section: Section, number: int) -> Section:
        if not section.figure:
            return section
        name = f"{stem.name}-{number}.svg"
        write_text(stem.with_name(name), section.figure + "\n")
        return replace(section, notes=[f"![{section.title}]({name})", *section.notes])

    sections = [shown_in(section, number) for number, section in enumerate(shown.sections, 1)]
    return replace(shown, sections=sections)
