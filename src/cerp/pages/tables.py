"""Pages that are tables with notes, as HTML and as Markdown: comparisons, the paper's tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element

from cerp.pages.html import Card, Place, element, folded, listed, page, table

NOTHING = "-"
"""In a cell without a figure."""
WHAT_FIGURES_MEAN = "How the figures are computed"


@dataclass(frozen=True)
class TableSection:
    """One table and what must be said beside it."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]
    notes: list[str] = field(default_factory=list)
    best: frozenset[Place] = frozenset()
    """The cells that are bold."""
    figure: Element | None = None
    """A drawing, above the table."""


@dataclass(frozen=True)
class TablePage:
    """Tables with a title, and the notes that belong to all of them."""

    title: str
    sections: list[TableSection]
    notes: list[str]
    conventions: str = ""
    """How figures are computed: once, and folded."""


def best_in(column: int, scores: Iterable[float | None]) -> frozenset[Place]:
    """The cells of a column with the highest score; None takes no part, and equals are not best."""
    known = {row: score for row, score in enumerate(scores) if score is not None}
    if len(known) > 1 and len(set(known.values())) == 1:
        return frozenset()
    highest = max(known.values(), default=None)
    return frozenset((row, column) for row, score in known.items() if score == highest)


def to_html(shown: TablePage) -> str:
    """A page in light and dark, without any reference to the outside."""
    cards = [
        Card(f"table-{number}", section.title, _parts(section))
        for number, section in enumerate(shown.sections, 1)
    ]
    notes = listed(shown.notes)
    if shown.conventions:
        notes.append(folded(WHAT_FIGURES_MEAN, element("p", shown.conventions)))
    return page(shown.title, [*cards, Card("notes", "Notes", notes)])


def to_markdown(shown: TablePage, *, conventions: bool = True) -> str:
    """Tables whose columns align in plain text too; ``conventions``: with that paragraph."""
    parts = [f"# {shown.title}"]
    for section in shown.sections:
        parts += [
            f"## {section.title}",
            markdown_table(section.header, section.rows, best=section.best),
        ]
        parts += [_markdown_notes(section.notes)] if section.notes else []
    if shown.notes:
        parts += ["## Notes", _markdown_notes(shown.notes)]
    if shown.conventions and conventions:
        told = " ".join(shown.conventions.split())
        parts.append(f"<details><summary>{WHAT_FIGURES_MEAN}</summary>\n\n{told}\n\n</details>")
    return "\n\n".join(parts) + "\n"


def markdown_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    best: frozenset[Place] = frozenset(),
) -> str:
    """The first column to the left, the others to the right, the best in bold."""
    marked = [
        [f"**{cell}**" if (number, column) in best else cell for column, cell in enumerate(row)]
        for number, row in enumerate(rows)
    ]
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in [header, *marked]]
    widths = [max(map(len, column)) for column in zip(*escaped, strict=True)]
    lines = [
        " | ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in escaped
    ]
    first, *rest = widths
    lines.insert(1, " | ".join(["-" * first, *("-" * (width - 1) + ":" for width in rest)]))
    return "\n".join(f"| {line} |" for line in lines)


def _parts(section: TableSection) -> list[Element]:
    shown = table(section.title, section.header, section.rows, best=section.best, has_caption=False)
    return [*_drawn(section.figure), shown, *listed(section.notes)]


def _drawn(figure: Element | None) -> list[Element]:
    """A drawing, no larger than its own size."""
    if figure is None:
        return []
    width = figure.get("viewBox", "").split()[2]
    return [element("figure", figure, class_="drawing", style=f"max-width: {width}px")]


def _markdown_notes(notes: list[str]) -> str:
    return "\n".join(f"- {' '.join(note.split())}" for note in notes)
