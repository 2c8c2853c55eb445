"""How far what validation chooses for a size is behind the best that fits into it, on test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cerp.pages.tables import markdown_table
from cerp.portfolio.members import MEMBERS
from results_page.frontier import ROWS, Measured, read_points

BAR = 0.02
"""What is chosen for a size is to be within 2% of the best there."""
ALIKE = 1.01
"""Sizes that differ by less are one: those of a model's seeds differ as much."""
OFFERED = frozenset(member.name for member in MEMBERS)
"""What a size alone chooses among."""


@dataclass(frozen=True)
class Choice:
    """From a size on: what validation chooses of the portfolio, and what is best on test of all."""

    from_bytes: float
    chosen: Measured | None
    """None: nothing of the portfolio was measured there."""
    best: Measured

    @property
    def behind(self) -> float:
        """The share of the best that is missed."""
        return 1.0 if self.chosen is None else 1 - self.chosen.ndcg10 / self.best.ndcg10


def choices(points: Sequence[Measured]) -> list[Choice]:
    """The choice at every size of a file, those that are the same as at the size before left out.

    Of sizes that are alike the largest counts. Points by rising bytes, as `read_points` has them.
    """
    found: list[Choice] = []
    for place, point in enumerate(points):
        following = points[place + 1 : place + 2]
        if following and following[0].file_bytes <= ALIKE * point.file_bytes:
            continue
        fitting = points[: place + 1]
        offered = [one for one in fitting if one.method in OFFERED]
        chosen = max(offered, key=lambda one: one.valid_ndcg10, default=None)
        best = max(fitting, key=lambda one: one.ndcg10)
        if not found or (found[-1].chosen, found[-1].best) != (chosen, best):
            found.append(Choice(point.file_bytes, chosen, best))
    return found


def choice_table(points: Sequence[Measured]) -> str:
    """The choices as a table in Markdown."""
    header = ("from bytes", "chosen on validation", "test", "best on test", "test", "behind")
    rows = [
        (
            f"{one.from_bytes:,.0f}",
            "nothing" if one.chosen is None else one.chosen.method,
            "-" if one.chosen is None else f"{one.chosen.ndcg10:.4f}",
            one.best.method,
            f"{one.best.ndcg10:.4f}",
            "-" if one.chosen == one.best else f"{one.behind:.1%}",
        )
        for one in choices(points)
    ]
    return markdown_table(header, rows)


def verdict(points: Sequence[Measured]) -> str:
    """Whether every choice is within the bar, and where it is not, in a sentence."""
    beyond = [one for one in choices(points) if one.behind > BAR]
    if not beyond:
        return f"At every size the choice of validation is within {BAR:.0%} of the best on test."
    worst = max(beyond, key=lambda one: one.behind)
    return (
        f"From {', '.join(f'{one.from_bytes:,.0f}' for one in beyond)} bytes on the choice is more "
        f"than {BAR:.0%} behind the best on test, at worst {worst.behind:.1%} (chosen: "
        f"{'nothing' if worst.chosen is None else worst.chosen.method}; best: {worst.best.method})."
    )


def choice_parts(folder: Path) -> list[str]:
    """A section of the page: the choices on each data set."""
    parts = [
        "### What validation chooses",
        "For every size of a file above: of the members of the portfolio that fit, the row with "
        "the best validation, which is what `cerp train --max-file-size` alone ships, beside the "
        "best on test of all rows. Sizes that differ by less than 1% are one. "
        "`benchmarks/frontier.py --check` prints the same.",
    ]
    there = sorted(folder.glob(f"*/{ROWS}"))
    for path in there:
        points = read_points(path)
        parts += [f"**{path.parent.name}.** {verdict(points)}", choice_table(points)]
    return parts if there else []
