"""A report as Markdown, and as one HTML page that needs nothing but itself."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from cerp.comparison.tables import Report, Section

STYLE = """
:root { color-scheme: light dark; --line: #8885; --good: #08702f; --bad: #a8231c; }
@media (prefers-color-scheme: dark) { :root { --good: #5fd38d; --bad: #ff8a80; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid var(--line); text-align: right; }
th { vertical-align: bottom; }
td { white-space: nowrap; }
:is(th, td):first-child { text-align: left; }
li { overflow-wrap: anywhere; }
.better { color: var(--good); }
.worse { color: var(--bad); }
"""


def to_markdown(report: Report) -> str:
    """Tables whose columns align in plain text too."""
    parts = [f"# {report.title}"]
    for section in report.sections:
        parts += [f"## {section.title}", markdown_table(section.header, section.rows)]
        parts += [_markdown_notes(section.notes)] if section.notes else []
    parts += ["## Notes", _markdown_notes(report.notes)]
    return "\n\n".join(parts) + "\n"


def to_html(report: Report) -> str:
    """A page in light and dark, without any reference to the outside."""
    sections = "\n".join(_html_section(section) for section in report.sections)
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(report.title)}</title>
<style>{STYLE}</style>
<h1>{escape(report.title)}</h1>
{sections}
<h2>Notes</h2>
{_html_notes(report.notes)}
</html>
"""


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The first column to the left, the others to the right."""
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in [header, *rows]]
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


def _html_section(section: Section) -> str:
    header = "".join(f'<th scope="col">{escape(name)}</th>' for name in section.header)
    rows = "\n".join(f"<tr>{''.join(map(_html_cell, row))}</tr>" for row in section.rows)
    return f"""<h2>{escape(section.title)}</h2>
{section.figure}
<div class="scroll"><table>
<thead><tr>{header}</tr></thead>
<tbody>
{rows}
</tbody>
</table></div>
{_html_notes(section.notes)}"""


def _html_cell(text: str) -> str:
    word = text.partition(" ")[0]
    kind = f' class="{word}"' if word in ("better", "worse") else ""
    return f"<td{kind}>{escape(text)}</td>"


def _html_notes(notes: list[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(note)}</li>' for note in notes)}</ul>" if notes else ""


def _markdown_notes(notes: list[str]) -> str:
    return "\n".join(f"- {' '.join(note.split())}" for note in notes)
