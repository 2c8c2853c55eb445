"""The penalty with the clock of today's `paper` preset: `benchmarks/regularizer.py table`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import mean, stdev
from typing import Any, NamedTuple

from cerp.pages.tables import markdown_table
from cerp.presets import preset
from results_page.names import BACKBONES
from results_page.results_index import ResultsIndex

Figures = dict[str, Any]
TRAINING = ("learning_rate", "batch_size", "epochs")
"""What the presets of other times trained by."""


class Pair(NamedTuple):
    """A cell of the table: seeds with the penalty, and seeds without."""

    name: str
    penalty: list[Figures]
    without: list[Figures]

    def moves(self, figure: str) -> float:
        """By how much the penalty changes a figure, in the mean over seeds."""
        means = [mean(one[figure] for one in side) for side in (self.penalty, self.without)]
        return float(means[0] - means[1])


def regularizer_parts(results: ResultsIndex) -> list[str]:
    """Average dimension, overlap and accuracy with the penalty beside those without it."""
    pairs = list(_pairs((results.read("regularizer.json") or {"runs": []})["runs"]))
    if not pairs:
        return []
    wider = sum(pair.moves("avg_dim") > 0 for pair in pairs)
    less = sum(pair.moves("overlap_pct") < 0 for pair in pairs)
    told = (
        "Today's `paper` preset, Gowalla, with the penalty / without (training.md tells how it was "
        f"chosen): it raises the dimension in {wider} of {len(pairs)} cells and lowers the overlap "
        f"in {less}."
    )
    header = ("", "average dimension", "overlap", "NDCG@10", "seeds")
    return [told, markdown_table(header, [_line(pair) for pair in pairs])]


def _pairs(runs: Sequence[Figures]) -> Iterator[Pair]:
    own = [run for run in runs if run["part"] == "table" and run["dataset"] == "gowalla"]
    for backbone in BACKBONES:
        today = preset("paper", backbone).train
        training = {name: getattr(today, name) for name in TRAINING}
        there = [run for run in own if (run["backbone"], run["training"]) == (backbone, training)]
        for budget in there[0]["budgets"] if there else ():
            sides = [
                [run["budgets"][budget] for run in there if run["name"] == name]
                for name in ("penalty", "no_penalty")
            ]
            if all(sides):
                yield Pair(f"{backbone}, {budget}", *sides)


def _line(pair: Pair) -> tuple[str, ...]:
    sides = (pair.penalty, pair.without)
    return (
        pair.name,
        " / ".join(f"{mean(one['avg_dim'] for one in side):.1f}" for side in sides),
        " / ".join(f"{mean(one['overlap_pct'] for one in side):.2f}%" for side in sides),
        " / ".join(_spread([one["test_ndcg@10"] for one in side]) for side in sides),
        str(min(map(len, sides))),
    )


def _spread(values: list[float]) -> str:
    return f"{mean(values):.4f}" + (f" ± {stdev(values):.4f}" if len(values) > 1 else "")
