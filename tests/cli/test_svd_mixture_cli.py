"""`cerp train --method svd --mix`, and what other commands do with such a file."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

import cerp
from cerp.cli import app
from cerp.cli.trained import told_of_mixture
from golden_sums import SUMS_MIXTURE


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_training_says_what_validation_made_of_both(tmp_path: Path):
    rows = "".join(f"{user},{item}\n" for user in range(40) for item in range(user % 4, 30, 2))
    (tmp_path / "rows.csv").write_text(f"user,item\n{rows}", encoding="utf-8")
    limited = ("--max-file-size", "20KB", "-o", tmp_path / "run")
    output = run("train", tmp_path / "rows.csv", "--method", "svd", "--mix", *limited)
    [model] = json.loads((tmp_path / "run" / "metrics.json").read_text())["models"]
    mixture = model["search"]["mixture"]
    figures = mixture["valid_ndcg@10"]
    assert mixture["is_shipped"] == (figures["mixture"] >= max(figures.values()))
    assert f"mixture {figures['mixture']:.4f}, vectors {figures['vectors']:.4f}" in output
    runtime = cerp.load(tmp_path / "run" / "model-20KB.cerp")
    assert (runtime.model.filter is not None) == mixture["is_shipped"]


@pytest.mark.parametrize("sharpening", [{}, {"m": 0.5, "strength": 0.1, "times": 1}])
def test_a_better_filter_is_named_as_the_command_knows_it(sharpening: dict[str, float]):
    facts = SimpleNamespace(budget="99%", selection_metric="ndcg@10")
    figures = {"mixture": 0.3, "vectors": 0.1, "filter": 0.3}
    mixture = {"valid_ndcg@10": figures, "is_shipped": False, **sharpening}
    told = told_of_mixture(mixture, facts)
    assert told.endswith(f"--method {'sharp-filter' if sharpening else 'filter'}")


def test_inspecting_counts_the_graph_and_no_popularity():
    found = json.loads(run("inspect", SUMS_MIXTURE, "--json"))
    assert (found["backbone"], found["users"], found["items"]) == ("sums+sharp-filter", 4, 4)
    assert found["sections"].keys() >= {"codebook values", "codes", "graph", "ids"}
    assert "popularity" not in found["sections"]
    assert found["filter"]["times"] == 2
    assert sum(found["sections"].values()) == SUMS_MIXTURE.stat().st_size


def test_a_known_user_and_someone_new_are_recommended_to():
    known = json.loads(run("recommend", SUMS_MIXTURE, "--user", "ann", "-k", "1", "--json"))
    told = ("--liked", "10", "--liked", "11", "-k", "1", "--json")
    new = json.loads(run("recommend", SUMS_MIXTURE, *told))
    assert known["recommendations"] == new["recommendations"]


@pytest.mark.parametrize("name", ["ann", "eve"])
def test_new_interactions_join_without_training(name: str, tmp_path: Path):
    (tmp_path / "new.csv").write_text(f"user,item\n{name},500\n{name},77\n", encoding="utf-8")
    output = run("update", SUMS_MIXTURE, tmp_path / "new.csv", "-o", tmp_path / "next.cerp")
    assert "2 new interactions" in output
    runtime = cerp.load(tmp_path / "next.cerp")
    assert {77, 500} <= set(runtime.seen(name))
    assert runtime.recommend(name, 1)
