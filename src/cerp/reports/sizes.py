"""Where the bytes of model files are: bars to scale, and a table that adds up."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from cerp.artifact.sections import SECTIONS, section_number
from cerp.pages.html import Parts, element, remark, table
from cerp.pages.numbers import count
from cerp.reports.findings import Findings
from cerp.reports.finished_runs import Model, ModelFile

COLOURS = 14
"""Of parts, in the style sheet."""


def sizes(found: Findings) -> Parts:
    """Bytes by section."""
    files = {model: model.file for model in found.models if model.file is not None}
    missing = [
        f"{model.label}: {model.facts.why_no_file or 'its file is not in the folder'}"
        for model in found.models
        if model.file is None
    ]
    parts = []
    if files:
        widest = max(files, key=lambda model: model.run.config.dim)
        parts += [
            size_bars(files, found.full_table_bytes(widest)),
            section_key(list(files.values())),
            size_table(files),
        ]
    if missing:
        parts.append(remark(f"Without a file: {'; '.join(missing)}."))
    return parts


def size_bars(files: dict[Model, ModelFile], full_table: int | None) -> Element:
    """A bar for each file, to one scale, under the full table in fp32."""
    scale = max([file.size for file in files.values()] + [full_table or 0])
    bars = []
    if full_table is not None:
        whole = [("full table", full_table, "part-whole")]
        bars += _bar("full table in fp32, vectors alone", whole, scale)
    for model, file in files.items():
        parts = [(name, size, _colour(name)) for name, size in file.sections.items()]
        bars += _bar(model.label, parts, scale)
    return element("div", *bars)


def section_key(files: Sequence[ModelFile]) -> Element:
    """Which colour belongs to which section."""
    entries = [element("li", element("i", class_=_colour(name)), name) for name in _present(files)]
    return element("ul", *entries, class_="legend")


def size_table(files: dict[Model, ModelFile]) -> Element:
    """Bytes of every section of every file; the last row is the size of the file."""
    rows = [
        (name, *(count(file.sections.get(name, 0)) for file in files.values()))
        for name in _present(list(files.values()))
    ]
    return table(
        "Every byte of the files",
        ["section", *(model.label for model in files)],
        rows,
        total=["file", *(count(file.size) for file in files.values())],
    )


def stacked_bar(title: str, parts: Sequence[tuple[str, int, str]], scale: int) -> Element:
    """Parts (name, bytes, class) side by side, as wide together as their share of ``scale``."""
    rects, begin = [], 0
    for name, size, kind in parts:
        rects.append(
            element(
                "rect",
                element("title", f"{name}: {size:,} bytes"),
                x=f"{begin / scale:.4%}",
                width=f"{size / scale:.4%}",
                height="100%",
                class_=kind,
            )
        )
        begin += size
    described = ", ".join(f"{name} {size:,} bytes" for name, size, _ in parts)
    return element("svg", *rects, class_="bar", role="img", aria_label=f"{title}: {described}")


def _bar(title: str, parts: Sequence[tuple[str, int, str]], scale: int) -> list[Element]:
    total = sum(size for _, size, _ in parts)
    label = element(
        "p",
        element("span", title),
        element("span", f"{total:,} bytes"),
        class_="bar-label",
    )
    return [label, stacked_bar(title, parts, scale)]


def _present(files: Sequence[ModelFile]) -> list[str]:
    present = {name for file in files for name in file.sections}
    known = [section.name for section in SECTIONS if section.name in present]
    return known + sorted(present.difference(known))


def _colour(section: str) -> str:
    return f"part-{section_number(section) % COLOURS}"
