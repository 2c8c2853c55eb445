"""Comparisons with several seeds end in the files of results."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from examples import seeds
from examples.measured import merge_rows
from examples.seeds import Job

STANDIN = """
import argparse, json
parser = argparse.ArgumentParser()
for name in ("data", "--seed", "--device", "-o"):
    parser.add_argument(name)
given = parser.parse_args()
if given.data == "broken":
    raise SystemExit("no such data")
rows = [{"data": given.data, "seed": int(given.seed), "device": given.device}]
open(given.o, "w").write(json.dumps({"rows": rows}))
"""


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two comparisons by a stand-in, and a folder of results that has rows already."""
    (tmp_path / "standin.py").write_text(STANDIN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    made = [Job("standin", (data,), "made.json", ("data", "seed")) for data in ("one", "two")]
    monkeypatch.setattr(seeds, "JOBS", made)
    old = [{"data": "one", "old": True}, {"data": "other", "seed": 1}]
    (tmp_path / "made.json").write_text(json.dumps({"rows": old}))
    return tmp_path


def test_rows_of_all_seeds_take_their_places(jobs: Path):
    seeds.main(["--seeds", "0", "1", "--at-once", "2", "--device", "cpu", "-o", str(jobs)])
    rows = json.loads((jobs / "made.json").read_text())["rows"]
    assert rows[-1]["command"] == (
        "python -m standin two --seed 1 --device cpu -o results/made.json"
    )
    # A row without a seed has seed 0, so the old one is replaced; the other data set stays.
    assert [(row["data"], row["seed"]) for row in rows] == [
        ("other", 1), ("one", 0), ("two", 0), ("one", 1), ("two", 1),
    ]  # fmt: skip


def test_some_comparisons_can_be_named_and_a_failure_is_told(
    jobs: Path, monkeypatch: pytest.MonkeyPatch
):
    broken = Job("standin", ("broken",), "made.json", ("data", "seed"))
    monkeypatch.setattr(seeds, "JOBS", [*seeds.JOBS, broken])
    seeds.main(["--seeds", "3", "--only", "two", "-o", str(jobs)])
    with pytest.raises(SystemExit, match="did not end well: made-broken-3"):
        seeds.main(["--seeds", "3", "-o", str(jobs)])
    rows = json.loads((jobs / "made.json").read_text())["rows"]
    assert {row["data"] for row in rows if row.get("seed") == 3} == {"one", "two"}


def test_every_comparison_is_one_that_its_module_takes():
    assert len(seeds.JOBS) == 9
    assert {job.output for job in seeds.JOBS} == {"ctr.json", "sequences.json", "two_towers.json"}
    assert all(job.module in sys.modules for job in seeds.JOBS)


def test_rows_are_added_to_a_file_that_is_not_there(tmp_path: Path):
    merge_rows(tmp_path / "new.json", [{"data": "one", "seed": 0}], ["data", "seed"])
    assert json.loads((tmp_path / "new.json").read_text())["rows"] == [{"data": "one", "seed": 0}]
