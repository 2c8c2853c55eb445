"""Readers of click data, on files of their formats."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cerp.errors import DataError
from examples.ctr.clicks import (
    avazu,
    criteo,
    criteo_shaped,
    frappe,
    movielens,
    read_libfm,
)


def test_libfm_lines_are_labels_and_features(tmp_path: Path):
    (tmp_path / "a.libfm").write_text("1 3:1 7:1\n-1 4:1 9:1\n")
    rows = read_libfm(tmp_path / "a.libfm")
    assert rows.ids.tolist() == [[3, 7], [4, 9]]
    assert rows.labels.tolist() == [1, 0]


def test_a_libfm_line_of_another_length_is_refused(tmp_path: Path):
    (tmp_path / "a.libfm").write_text("1 3:1 7:1\n-1 4:1\n")
    with pytest.raises(DataError, match="line 2: 1 features, the lines before have 2"):
        read_libfm(tmp_path / "a.libfm")
    (tmp_path / "b.libfm").write_text("")
    with pytest.raises(DataError, match="no lines"):
        read_libfm(tmp_path / "b.libfm")


def test_frappe_has_ten_fields_and_validation_rows_of_its_own(shared_data):
    clicks = frappe(shared_data("frappe"))
    assert len(clicks.fields) == 10
    assert clicks.fields["user"] == 913  # as its meta.json says
    assert (len(clicks.train), len(clicks.validation), len(clicks.test)) == (51_950, 5772, 28_860)
    for part in (clicks.train, clicks.validation, clicks.test):
        assert (part.ids < list(clicks.fields.values())).all()
    assert clicks.counts()["user"].sum() == 51_950


def test_movielens_rows_have_the_fields_of_users_and_items(shared_data):
    clicks = movielens(shared_data("ml-100k"))
    assert list(clicks.fields) == [
        "user", "item", "age", "sex", "occupation", "zip", "year", "genres",
    ]  # fmt: skip
    assert clicks.fields["sex"] == 3  # two, and what training never saw
    assert len(clicks.train) == 80_000
    assert clicks.train.labels.mean() == pytest.approx(0.5538, abs=0.005)  # 55,375 of 100,000


def criteo_line(label: int, count: str, category: str) -> str:
    return "\t".join([str(label), count, *["1"] * 12, category, *["9a"] * 24, ""])


def test_criteo_rows_have_counts_in_steps_and_rare_categories_together(tmp_path: Path):
    lines = [criteo_line(row % 2, "19", "68fd1e64") for row in range(38)]
    lines += [criteo_line(1, "20", "rare"), criteo_line(0, "", "rare2")]
    (tmp_path / "train.txt").write_text("\n".join(lines) + "\n")
    clicks = criteo(tmp_path / "train.txt", least=3)
    assert len(clicks.fields) == 39
    assert clicks.fields["C1"] == 2  # the frequent one, and all others
    ids = np.concatenate([part.ids for part in (clicks.train, clicks.validation, clicks.test)])
    assert (ids[:, 0] > 0).sum() == 39  # ln(19)² and ln(20)² are both 8 and more; "" is rare
    assert (ids[:, 13] > 0).sum() == 38
    assert (ids[:, 38] > 0).all()  # a missing category is a category
    assert len(criteo(tmp_path / "train.txt", limit=20).train) == 16


def test_a_file_that_is_not_criteos_is_refused(tmp_path: Path):
    (tmp_path / "train.txt").write_text("1\t2\t3\n")
    with pytest.raises(DataError, match="line 1: 3 columns; Criteo's files have 40"):
        criteo(tmp_path / "train.txt")


def test_avazu_rows_have_the_hour_of_the_day(tmp_path: Path):
    lines = ["id,click,hour,C1,site_id"]
    lines += [f"{row},{row % 2},141021{row % 2:02},1005,1fbe01fe" for row in range(30)]
    (tmp_path / "train.csv").write_text("\n".join(lines) + "\n")
    clicks = avazu(tmp_path / "train.csv")
    assert clicks.fields == {"hour": 3, "day": 2, "C1": 2, "site_id": 2}
    assert (clicks.train.ids[:, 0] == clicks.train.labels + 1).all()
    (tmp_path / "other.csv").write_text("click,hour\n")
    with pytest.raises(DataError, match="begin with id, click, hour"):
        avazu(tmp_path / "other.csv")


def test_made_up_clicks_have_criteos_fields():
    clicks = criteo_shaped(largest=300, rows=1000)
    assert len(clicks.fields) == 26
    assert max(clicks.fields.values()) == 300
    assert min(clicks.fields.values()) == 3
    assert 0.1 < clicks.train.labels.mean() < 0.5
    assert np.array_equal(clicks.test.ids, criteo_shaped(largest=300, rows=1000).test.ids)
