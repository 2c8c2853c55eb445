"""Elements of a page, and the page around them.

A page is a tree of `xml.etree` elements, so that whatever a run, a path or a
title holds is escaped when the tree is written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from xml.etree.ElementTree import Element, tostring

from cerp._version import __version__

Child = Element | str | None
Parts = list[Element]
"""What stands under a heading of a page."""
Place = tuple[int, int]
"""Row and column of a table's cell, both from 0."""

VERDICTS = ("better", "worse")
"""First words of cells that have a colour."""


@dataclass(frozen=True)
class Card:
    """One part of a page, with a heading and a link to it."""

    anchor: str
    title: str
    parts: Parts


def element(name: str, *children: Child, **attributes: object) -> Element:
    """An element with text and elements in it; None is left out.

    ``class_`` stands for the attribute class, ``aria_label`` for aria-label.
    """
    made = Element(
        name,
        {
            key.rstrip("_").replace("_", "-"): str(value)
            for key, value in attributes.items()
            if value is not None
        },
    )
    for child in children:
        if isinstance(child, Element):
            made.append(child)
        elif child and len(made):
            made[-1].tail = (made[-1].tail or "") + child
        elif child:
            made.text = (made.text or "") + child
    return made


def page(title: str, cards: Sequence[Card]) -> str:
    """A whole page as text: a heading, links to the cards where there are several, the cards."""
    links = [element("li", element("a", card.title, href=f"#{card.anchor}")) for card in cards]
    body = element(
        "body",
        element(
            "header",
            element("p", "cerp", class_="wordmark"),
            element("h1", title),
            element("nav", element("ul", *links), aria_label="Sections") if cards[1:] else None,
        ),
        element("main", *map(_card, cards)),
        element("footer", element("p", f"Made by cerp {__version__}.", class_="muted")),
    )
    return document(element("html", _head(title), body, lang="en"))


def document(root: Element) -> str:
    """A tree as the text of an HTML file."""
    return "<!doctype html>\n" + tostring(root, encoding="unicode", method="html") + "\n"


def stylesheet(*names: str) -> str:
    """The style sheets of this folder with these names, joined."""
    folder = files("cerp.pages")
    return "".join(folder.joinpath(f"{name}.css").read_text(encoding="utf-8") for name in names)


def remark(text: str) -> Element:
    """A paragraph that says what cannot be shown, or why."""
    return element("p", text, class_="muted")


def folded(summary: str, *parts: Child) -> Element:
    """A line that shows more when it is clicked."""
    return element("details", element("summary", summary), *parts)


def listed(notes: Iterable[str]) -> Parts:
    """Notes as a list; nothing where there are none."""
    entries = [element("li", note) for note in notes]
    return [element("ul", *entries, class_="notes")] if entries else []


def table(
    caption: str,
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    total: Sequence[str] | None = None,
    best: Collection[Place] = (),
    has_caption: bool = True,
) -> Element:
    """A table that scrolls by itself where the screen is too narrow for it.

    Parameters
    ----------
    caption
        What the table shows.
    header
        Names of the columns.
    rows
        The first cell of a row is its heading.
    total
        A last row apart.
    best
        The cells that are bold: the best of their column.
    has_caption
        Whether the caption is shown; where a heading says the same, it need not be.

    """
    head = element("tr", *(element("th", name, scope="col") for name in header))
    body = [
        _row(cells, {column for place, column in best if place == number})
        for number, cells in enumerate(rows)
    ]
    parts = [element("thead", head), element("tbody", *body)]
    if total is not None:
        parts.append(element("tfoot", _row(total)))
    made = element("table", *parts, aria_label=caption)
    # The caption is not in the table, where it would scroll away with it.
    return element(
        "figure",
        element("figcaption", caption) if has_caption else None,
        element("div", made, class_="scroll", tabindex=0, role="region", aria_label=caption),
        class_="table",
    )


def _row(cells: Sequence[str], best: Collection[int] = ()) -> Element:
    first, *others = cells
    heading = element("th", first, scope="row")
    return element(
        "tr", heading, *(_cell(cell, column in best) for column, cell in enumerate(others, 1))
    )


def _cell(text: str, is_best: bool) -> Element:
    word = text.partition(" ")[0]
    shown = element("strong", text) if is_best else text
    return element("td", shown, class_=word if word in VERDICTS else None)


def _head(title: str) -> Element:
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name_="color-scheme", content="light dark"),
        element("title", title),
        element("style", stylesheet("colours", "page", "chart")),
    )


def _card(card: Card) -> Element:
    heading = element("h2", card.title, id=f"{card.anchor}-title")
    return element(
        "section",
        heading,
        *card.parts,
        id=card.anchor,
        class_="card",
        aria_labelledby=f"{card.anchor}-title",
    )
