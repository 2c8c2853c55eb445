"""What every drawing on the page is made of."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from cerp.report.html import element


def drawing(
    width: float, height: float, title: str, described: str, *parts: Element, class_: str
) -> Element:
    """An SVG that is as wide as its place, with words for those who cannot see it."""
    return element(
        "svg",
        element("title", title),
        element("desc", described),
        *parts,
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        aria_label=title,
        class_=class_,
    )


def rule(x1: float, y1: float, x2: float, y2: float, kind: str) -> Element:
    """A straight line."""
    ends = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
    return element("line", class_=kind, **{name: f"{value:.1f}" for name, value in ends.items()})


def words(text: str, x: float, y: float, anchor: str, kind: str) -> Element:
    """Text that starts, ends or has its middle at a point."""
    return element("text", text, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor, class_=kind)
