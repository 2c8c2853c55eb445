"""What the results page says of the penalty with the clock of today's paper preset."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cerp.presets import preset
from results_page.regularizer import TRAINING, regularizer_parts
from results_page.results_index import ResultsIndex


def run_of(name: str, score: float, **figures: float) -> dict[str, Any]:
    budgets = {"99%": {"test_ndcg@10": score, **figures}}
    train = preset("paper", "lightgcn").train
    training = {name: getattr(train, name) for name in TRAINING}
    shared = {"part": "table", "dataset": "gowalla", "backbone": "lightgcn", "training": training}
    return {**shared, "name": name, "budgets": budgets}


def test_means_over_seeds_stand_beside_each_other(tmp_path: Path):
    runs = [
        run_of("penalty", 0.09, avg_dim=19, overlap_pct=0.1),
        run_of("penalty", 0.10, avg_dim=20, overlap_pct=0.3),
        run_of("no_penalty", 0.07, avg_dim=18, overlap_pct=0.15),
        {**run_of("penalty", 0.5, avg_dim=9, overlap_pct=9), "dataset": "lastfm"},
        {**run_of("penalty", 0.5, avg_dim=9, overlap_pct=9), "training": "of another preset"},
        {**run_of("no_penalty", 0.5, avg_dim=9, overlap_pct=9), "part": "search"},
    ]
    (tmp_path / "regularizer.json").write_text(json.dumps({"runs": runs}))
    told, table = regularizer_parts(ResultsIndex(tmp_path))
    # .2 in the mean with the penalty is more than .15 without.
    assert "raises the dimension in 1 of 1 cells and lowers the overlap in 0." in told
    cells = [cell.strip() for cell in table.splitlines()[2].split("|")[1:-1]]
    assert cells == [
        "lightgcn, 99%",
        "19.5 / 18.0",
        "0.20% / 0.15%",
        "0.0950 ± 0.0071 / 0.0700",
        "1",
    ]


def test_nothing_is_said_where_nothing_was_measured(tmp_path: Path):
    assert regularizer_parts(ResultsIndex(tmp_path)) == []
    without = [run_of("penalty", 0.09, avg_dim=19, overlap_pct=0.1)]
    (tmp_path / "regularizer.json").write_text(json.dumps({"runs": without}))
    assert regularizer_parts(ResultsIndex(tmp_path)) == []
