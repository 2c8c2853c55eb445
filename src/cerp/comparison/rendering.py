"""A report as Markdown, and as one HTML page that needs nothing but itself."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from cerp.comparison.tables import Report, Section

STYLE = """
:root { color-scheme: light dark; --line: #8885; --shade: #0003; --good: #08702f; --bad: #a8231c; }
@media (prefers-color-scheme: dark) {
  :root { --shade: #fff4; --good: #5fd38d; --bad: #ff8a80; }
}
body { font: 15px/1.5 system-ui, sans-serif; max-width: 96rem; margin: 2rem auto; padding: 0 1rem; }
h1 { line-height: 1.2; }
/* A shadow where something is cut off: the covers move with the content, the shadows do not. */
.scroll { overflow-x: auto; margin-bottom: 1rem; background:
  linear-gradient(to right, Canvas 40%, transparent) left / 2.5rem 102% no-repeat local,
  linear-gradient(to left, Canvas 40%, transparent) right / 2.5rem 102% no-repeat local,
  linear-gradient(to right, var(--shade), transparent) left / .9rem 100% no-repeat,
  linear-gradient(to left, var(--shade), transparent) right / .9rem 100% no-repeat; }
.scroll svg { display: block; height: auto; }
.scroll .curve { width: 100%; max-width: 32rem; }
table { border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .5rem; border-bottom: 1px solid var(--line); text-align: right; }
th { vertical-align: bottom; }
td { white-space: nowrap; }
:is(th, td):first-child { position: sticky; left: 0; text-align: left; background: Canvas; }
ul { max-width: 80ch; }
li { overflow-wrap: anywhere; }
.better { color: var(--good); }
.worse { color: var(--bad); }
@media (max-width: 40rem) {
  table { font-size: 13px; }
  th, td { padding-inline: .35rem; }
  :is(th, td):first-child { min-width: 6.5rem; padding-left: 0; white-space: normal; }
}
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
    table = f"""<table>
<thead><tr>{header}</tr></thead>
<tbody>
{rows}
</tbody>
</table>"""
    figure = _html_box("Figure", section.title, section.figure) if section.figure else ""
    return f"""<h2>{escape(section.title)}</h2>
{figure}
{_html_box("Table", section.title, table)}
{_html_notes(section.notes)}"""


def _html_box(kind: str, title: str, content: str) -> str:
    """Scrolls by itself where the screen is too narrow for what is in it, with a keyboard too."""
    label = escape(f"{kind}: {title}")
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">{content}</div>'


def _html_cell(text: str) -> str:
    word = text.partition(" ")[0]
    kind = f' class="{word}"' if word in ("better", "worse") else ""
    return f"<td{kind}>{escape(text)}</td>"


def _html_notes(notes: list[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(note)}</li>' for note in notes)}</ul>" if notes else ""


def _markdown_notes(notes: list[str]) -> str:
    return "\n".join(f"- {' '.join(note.split())}" for note in notes)
