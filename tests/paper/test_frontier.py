"""The frontier: rows by method and size, the hull through the best, its figure and its section."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree.ElementTree import tostring

import pytest

from results_page.frontier import ROWS, figure, frontier_parts, hull, read_points

RESULTS = Path(__file__).parents[2] / "results"
SHARED = {"dataset": "made-up", "valid_ndcg10": 0.1}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files of 10, 20, 30 and 40 bytes; that of 30 is worse than that of 20."""
    rows = [
        {"method": "a", "max_file_size": "10B", "file_bytes": 10, "ndcg10": 0.1, "seed": 0},
        {"method": "a", "max_file_size": "20B", "file_bytes": 18, "ndcg10": 0.2, "seed": 0},
        {"method": "a", "max_file_size": "20B", "file_bytes": 22, "ndcg10": 0.4, "seed": 1},
        {"method": "b", "budget": "99%", "file_bytes": 30, "ndcg10": 0.2, "seed": 0},
        {"method": "b mlp", "budget": "99%", "file_bytes": 40, "ndcg10": 0.5, "seed": 0},
    ]
    (tmp_path / "made-up").mkdir()
    text = json.dumps([{**SHARED, **row} for row in rows])
    (tmp_path / "made-up" / ROWS).write_text(text)
    return tmp_path


def test_points_are_means_over_seeds_and_the_hull_leaves_out_what_a_smaller_file_beats(folder):
    points = read_points(folder / "made-up" / ROWS)
    assert [(one.method, one.file_bytes, one.seeds) for one in points] == [
        ("a", 10, 1),
        ("a", 20, 2),
        ("b", 30, 1),
        ("b mlp", 40, 1),
    ]
    assert points[1].ndcg10 == pytest.approx(0.3)
    assert [one.file_bytes for one in hull(points)] == [10, 20, 40]


def test_the_figure_names_the_hull_and_every_method_but_those_of_the_mlp(folder: Path):
    drawn = tostring(figure("made-up", read_points(folder / "made-up" / ROWS)), encoding="unicode")
    assert all(f">{name}<" in drawn for name in ("the hull", "a", "b"))
    assert "mlp" not in drawn


def test_the_section_has_a_table_of_the_hull(folder: Path):
    page = "\n".join(frontier_parts(folder, ("lastfm",)))
    assert "![NDCG@10 by bytes of the file, made-up](../results/made-up/frontier.svg)" in page
    assert "| a           |         20 |     0.1000 | 0.3000 |     2 |" in page
    assert frontier_parts(folder / "made-up", ()) == []


@pytest.mark.parametrize(
    "path", sorted(RESULTS.glob(f"*/{ROWS}")), ids=lambda path: path.parent.name
)
def test_rows_that_are_kept_have_the_stable_names(path: Path):
    keys = {"method", "dataset", "file_bytes", "ndcg10", "valid_ndcg10", "seed"}
    rows = json.loads(path.read_text(encoding="utf-8"))
    assert rows
    assert all(keys <= row.keys() and row["dataset"] == path.parent.name for row in rows)
    assert path.with_name("frontier.svg").exists()
