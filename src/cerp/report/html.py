"""Elements of the page, and how numbers look on it.

The page is a tree of `xml.etree` elements, so that whatever a run, a path or a
title holds is escaped when the tree is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from xml.etree.ElementTree import Element, tostring

Child = Element | str | None
Section = list[Element]
"""What stands under a heading of the page."""

UNKNOWN = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"
MOST_DECIMALS = 4
"""Of a tick, beyond which it has an exponent."""


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


def document(root: Element) -> str:
    """The whole page as text."""
    return "<!doctype html>\n" + tostring(root, encoding="unicode", method="html") + "\n"


def remark(text: str) -> Element:
    """A paragraph that says what cannot be shown, or why."""
    return element("p", text, class_="muted")


def table(
    caption: str,
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    total: Sequence[str] | None = None,
) -> Element:
    """A table that scrolls by itself where the screen is too narrow for it.

    The first cell of a row is its heading; ``total`` is a last row apart.
    """
    head = element("tr", *(element("th", name, scope="col") for name in header))
    parts = [element("thead", head), element("tbody", *map(_row, rows))]
    if total is not None:
        parts.append(element("tfoot", _row(total)))
    made = element("table", *parts, aria_label=caption)
    # The caption is not in the table, where it would scroll away with it.
    return element(
        "figure",
        element("figcaption", caption),
        element("div", made, class_="scroll", tabindex=0, role="region", aria_label=caption),
        class_="table",
    )


def _row(cells: Sequence[str]) -> Element:
    first, *others = cells
    heading = element("th", first, scope="row")
    return element("tr", heading, *(element("td", cell) for cell in others))


def metric(value: float | None) -> str:
    """Four digits; a dash for what is not known."""
    return UNKNOWN if value is None else f"{value:.4f}"


def signed(value: float) -> str:
    """A difference of two metrics."""
    return f"{value:+.4f}".replace("-", MINUS)


def count(value: float | None) -> str:
    """A whole number with separators of thousands."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def percent(share: float | None) -> str:
    """A share; one digit more where it is below a tenth."""
    if share is None:
        return UNKNOWN
    return f"{share:.1%}" if share >= 0.1 else f"{share:.2%}"


def tick_labels(ticks: Sequence[float]) -> list[str]:
    """Numbers for an axis: 20k, 1.5M, 2e-07, or all with the same decimals."""
    decimals = max((_decimals(tick) for tick in ticks), default=0)
    return [_short(tick, decimals).replace("-", MINUS) for tick in ticks]


def _short(value: float, decimals: int) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{unit}"
    if value == 0:
        return "0"
    return f"{value:.{decimals}f}" if decimals <= MOST_DECIMALS else f"{value:g}"


def _decimals(value: float) -> int:
    """How many a number is written with: 2 for 0.05, none for 20."""
    return max(0, -int(Decimal(repr(value)).normalize().as_tuple().exponent))
