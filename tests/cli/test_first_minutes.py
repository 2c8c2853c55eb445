"""What a newcomer does first: a file, a run in time order, and what follows without a word."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cerp.cli import app
from cerp.data.synthetic import synthetic

SMALL = "--backbone mf --dim 8 --epochs 1 --prune-epochs 1 --assignment hash --ordering degree"


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("first")
    data = synthetic(80, 50, 900)
    rows = zip(data.user.tolist(), data.item.tolist(), data.time.tolist(), strict=True)
    lines = (f"u{user},i{item},{time}" for user, item, time in rows)
    (folder / "log.csv").write_text("\n".join(["user,item,timestamp", *lines]) + "\n")
    titles = (f"i{item},Item number {item}" for item in range(50))
    (folder / "titles.csv").write_text("\n".join(["item,title", *titles]) + "\n")
    run(
        *("train", folder / "log.csv", "--protocol", "time", "--titles", folder / "titles.csv"),
        *("--budget", "80%", *SMALL.split(), "-o", folder / "run"),
    )
    return folder


def test_a_run_by_time_is_judged_without_naming_the_data(trained: Path):
    found = json.loads(run("evaluate", trained / "run", "--json"))
    metrics = json.loads((trained / "run" / "metrics.json").read_text())
    assert found["ndcg@10"] == metrics["models"][0]["test"]["ndcg@10"]
    by_file = json.loads(run("evaluate", trained / "run" / "model-80pct.cerp", "--json"))
    assert by_file["ndcg@10"] == pytest.approx(found["ndcg@10"], abs=1e-6)


def test_a_run_by_time_is_exported_with_its_titles_and_reported(trained: Path):
    told = json.loads(run("export", trained / "run", "-o", trained / "model.cerp", "--json"))
    assert told["total_bytes"] == (trained / "model.cerp").stat().st_size
    best = json.loads(run("recommend", trained / "model.cerp", "--user", "u7", "-k", 1, "--json"))
    (place,) = best["recommendations"]
    assert place["title"] == f"Item number {place['item'][1:]}"
    run("report", trained / "run", "-o", trained / "report.html")
    assert "opularity" in (trained / "report.html").read_text()


def test_the_file_itself_split_otherwise_is_told_in_words(trained: Path):
    arguments = ["evaluate", str(trained / "run"), "--data", str(trained / "log.csv")]
    result = CliRunner().invoke(app, arguments)
    assert "split by random" in str(result.exception)
    assert "where the run was by time" in str(result.exception)


def test_a_run_is_trained_anew_only_where_that_is_said(trained: Path):
    again = ["train", str(trained / "run" / "split"), "--budget", "80%", *SMALL.split()]
    again += ["-o", str(trained / "run"), "--seed", "3"]
    refused = CliRunner().invoke(app, again)
    assert "overwrite=True to replace it" in str(refused.exception)


def test_a_doubtful_learning_rate_is_warned_about_before_training(trained: Path, tmp_path: Path):
    arguments = ["train", str(trained / "run" / "split"), "--budget", "80%", *SMALL.split()]
    arguments += ["--learning-rate", "7", "-o", str(tmp_path / "run")]
    result = CliRunner().invoke(app, arguments)
    assert "the learning rate of training, 7, is above" in " ".join(result.stderr.split())
