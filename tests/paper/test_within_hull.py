"""What validation chooses for a size, beside the best there on test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from results_page.frontier import ROWS, Measured
from results_page.within_hull import choice_parts, choice_table, choices, verdict

# For 30 bytes validation likes the mixture, which is .05 of .40 behind on test; from 50 bytes on
# it likes what is also best. What is no member of the portfolio is never chosen.
POINTS = [
    Measured("filter", 10, 0.20, 0.10, 1),
    Measured("lightgcn", 20, 0.40, 0.15, 1),
    Measured("mixture", 30, 0.35, 0.25, 1),
    Measured("ud mlp", 40, 0.36, 0.90, 1),
    Measured("full", 50, 0.50, 0.30, 1),
]


def test_a_choice_is_named_where_it_changes():
    found = [(one.from_bytes, one.chosen.method, one.best.method) for one in choices(POINTS)]
    assert found == [
        (10, "filter", "filter"),
        (20, "lightgcn", "lightgcn"),
        (30, "mixture", "lightgcn"),
        (50, "full", "full"),
    ]
    assert [one.behind for one in choices(POINTS)] == pytest.approx([0, 0, 0.125, 0])


def test_the_verdict_says_where_the_bar_is_missed():
    assert verdict(POINTS).startswith("From 30 bytes on the choice is more than 2% behind")
    assert "at worst 12.5% (chosen: mixture; best: lightgcn)" in verdict(POINTS)
    assert verdict(POINTS[:2]).startswith("At every size the choice of validation is within 2%")


def test_without_a_member_nothing_is_chosen():
    [only] = choices(POINTS[3:4])
    assert only.chosen is None
    assert only.behind == 1
    assert " nothing |    - | " in choice_table(POINTS[3:4])


def test_sizes_that_are_alike_are_one():
    some = [Measured("mixture together", 1000, 0.4, 0.3, 3), Measured("mixture", 1009, 0.3, 0.2, 3)]
    assert [(one.from_bytes, one.chosen.method) for one in choices(some)] == [(1009, "mixture")]


def test_the_section_has_a_table_for_each_data_set(tmp_path: Path):
    assert choice_parts(tmp_path) == []
    (tmp_path / "made-up").mkdir()
    row = {"method": "filter", "file_bytes": 10, "ndcg10": 0.2, "valid_ndcg10": 0.1, "seed": 0}
    (tmp_path / "made-up" / ROWS).write_text(json.dumps([row]))
    page = "\n".join(choice_parts(tmp_path))
    assert "**made-up.** At every size" in page
    assert "filter" in page
