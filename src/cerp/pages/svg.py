"""What every drawing is made of, on a page or in a file of its own."""

from __future__ import annotations

from unicodedata import east_asian_width
from xml.etree.ElementTree import Element, fromstring, tostring

from cerp.pages.html import element, stylesheet

NARROW = frozenset(" .,:;'|!()/-fijlrt")
WIDE = frozenset("mwMW@%")


def drawing(
    width: float,
    height: float,
    title: str,
    described: str,
    *parts: Element | None,
    class_: str,
    **attributes: object,
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
        **attributes,
    )


def standalone(drawn: Element) -> str:
    """A drawing as an SVG file, with its style and a size of its own, in light and dark."""
    root = fromstring(tostring(drawn))  # a copy: the one on the page stays as it is
    _, _, width, height = root.get("viewBox", "").split()
    root.attrib |= {"xmlns": "http://www.w3.org/2000/svg", "width": width, "height": height}
    root.insert(0, element("style", stylesheet("colours", "chart")))
    return tostring(root, encoding="unicode") + "\n"


def rule(x1: float, y1: float, x2: float, y2: float, kind: str) -> Element:
    """A straight line."""
    ends = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
    return element("line", class_=kind, **{name: f"{value:.1f}" for name, value in ends.items()})


def words(
    text: str, x: float, y: float, anchor: str, kind: str, *, whole: str | None = None
) -> Element:
    """Text that starts, ends or has its middle at a point; ``whole`` is shown when pointed at."""
    title = None if whole is None else element("title", whole)
    place = {"x": f"{x:.1f}", "y": f"{y:.1f}"}
    return element("text", title, text, text_anchor=anchor, class_=kind, **place)


def text_width(text: str, size: float) -> float:
    """How wide a text of a font size is at most, in the usual fonts for screens."""
    return size * sum(map(_ems, text))


def _ems(character: str) -> float:
    if character in NARROW:
        return 0.42
    if character in WIDE or east_asian_width(character) in "FW":
        return 1.0
    return 0.8 if character.isupper() else 0.65
