"""Runs of the graph filter: the same products, verbs and figures as any run, without training."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cerp
from cerp.artifact import Encoding
from cerp.cli import app
from cerp.comparison.jobs import plan
from cerp.config import Config, RunOptions
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic
from cerp.errors import ConfigError, DataError
from cerp.evaluation.baselines import Popularity, RecentPopularity
from cerp.evaluation.evaluate import evaluate
from cerp.graph import filter_search
from cerp.graph.search import search_exponents
from cerp.graph.search_sharpening import search_sharpening
from cerp.methods import METHODS
from cerp.runs.encodings import best_written, every_encoding
from cerp.runs.fit import fit_all, load_run
from cerp.runs.floor import below_floor, popularity_floors
from cerp.runs.folder import RunFolder
from cerp.runs.sealed import read_sealed, write_sealed
from small_graphs import splits_of

CONFIG = Config(method="filter")
PRODUCTS = ["judged-none.json", "metrics.json", "model-none.cerp", "plan.json",
            "searched.safetensors", "shipped-none.json"]  # fmt: skip


@pytest.fixture(scope="module")
def splits() -> Splits:
    return synthetic(300, 200, 6000).split(seed=0)


@pytest.fixture(scope="module")
def finished(splits: Splits, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("filter") / "run"
    fit_all(splits, CONFIG, RunOptions(folder=folder, quiet=True))
    return folder


# The sharpened filter


@pytest.fixture(scope="module")
def sharp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sharp") / "run"
    fit_all(splits_of(0), replace(CONFIG, method="sharp-filter"), RunOptions(folder=folder))
    return folder


def test_a_sharpened_filter_is_what_validation_found(sharp: Path):
    splits = splits_of(0)
    [facts] = json.loads((sharp / "metrics.json").read_text())["models"]
    wanted = search_sharpening(splits, search_exponents(splits, quiet=True), quiet=True)
    assert wanted.sharpening is not None, "the data of this test like it"
    assert facts["search"]["strength"] == wanted.sharpening.strength
    assert facts["valid"]["ndcg@10"] == pytest.approx(wanted.score)
    assert wanted.score > wanted.plain_score


def test_its_file_judges_as_the_run_did(sharp: Path):
    [facts] = json.loads((sharp / "metrics.json").read_text())["models"]
    runtime = cerp.load(sharp / "model-none.cerp")
    assert "sharpened graph filter" in repr(runtime)
    assert facts["test"]["ndcg@10"] == evaluate(runtime, splits_of(0), on="test").mean["ndcg@10"]
    assert facts["file_bytes"] == (sharp / "model-none.cerp").stat().st_size


def test_inspect_shows_how_it_is_sharpened(sharp: Path, capsys):
    app(["inspect", str(sharp / "model-none.cerp"), "--json"], standalone_mode=False)
    told = json.loads(capsys.readouterr().out)["filter"]
    assert set(told) == {"q", "p", "r", "m", "strength", "times"}


# The run


def test_the_products_are_plan_search_judgement_and_file(finished: Path):
    there = sorted(path.name for path in finished.iterdir() if not path.name.startswith("."))
    assert there == PRODUCTS


def test_exponents_come_from_validation_and_trials_are_kept(finished: Path, splits: Splits):
    [found] = RunFolder(finished).searched().found.values()
    searched = search_exponents(splits, quiet=True)
    assert [found.facts[name] for name in ("q", "p", "r")] == [
        searched.exponents.q, searched.exponents.p, searched.exponents.r
    ]  # fmt: skip
    assert len(found.facts["trials"]) == len(searched.trials) > 5
    assert {"q", "p", "r", "ndcg@10", "users", "seconds"} == set(found.facts["trials"][0])


def test_figures_are_those_of_a_model_that_stores_nothing(finished: Path, splits: Splits):
    [facts] = json.loads((finished / "metrics.json").read_text())["models"]
    assert [facts[name] for name in ("budget", "limit", "nnz", "values")] == ["none", 0, 0, None]
    assert facts["embedding_bytes"] == 0
    assert facts["file_bytes"] == (finished / "model-none.cerp").stat().st_size
    assert facts["best_valid_ndcg@10"] == pytest.approx(facts["valid"]["ndcg@10"])
    judged = evaluate(cerp.load(finished / "model-none.cerp"), splits, on="test")
    assert facts["test"]["ndcg@10"] == judged.mean["ndcg@10"] > 0


def test_a_finished_run_is_read_and_nothing_is_searched_again(
    finished: Path, splits: Splits, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(filter_search, "search_exponents", None)
    [loaded] = load_run(finished, splits)
    [resumed] = fit_all(splits, CONFIG, RunOptions(folder=finished, resume=True, quiet=True))
    assert loaded.facts == resumed.facts
    assert loaded.file() == (finished / "model-none.cerp").read_bytes()


def test_a_run_that_broke_off_after_its_search_goes_on_to_the_same_result(
    finished: Path, splits: Splits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("plan.json", "searched.safetensors"):
        (tmp_path / name).write_bytes((finished / name).read_bytes())
    (tmp_path / "order.safetensors").write_bytes(b"")
    monkeypatch.setattr(filter_search, "search_exponents", None)
    fit_all(splits, CONFIG, RunOptions(folder=tmp_path, resume=True, quiet=True))
    file = "model-none.cerp"
    assert (tmp_path / file).read_bytes() == (finished / file).read_bytes()


def test_fit_needs_no_budget_and_gives_a_model_that_recommends(splits: Splits):
    model = cerp.fit(splits, method="filter", verbose=False)
    user = splits.users.decode([0])[0]
    assert len(model.recommend(user, 5)) == 5
    assert model.recommender is None
    assert repr(model).startswith(
        "FittedModel(filter, seed 0)\n  300 users x 200 items; no values, "
    )
    users = np.arange(300, dtype=np.int32)
    shipped = cerp.runtime.Runtime(cerp.artifact.decode(model.file()))
    assert np.array_equal(model.score_all(users), shipped.score_all(users))


def test_another_metric_selects(splits: Splits):
    model = cerp.fit(splits, method="filter", selection_metric="recall@20", verbose=False)
    assert model.facts.selection_metric == "recall@20"
    assert model.facts.best_valid == pytest.approx(model.metrics["valid"]["recall@20"])


def test_a_refit_has_the_edges_of_validation_too(splits: Splits):
    model = cerp.fit(splits, method="filter", refit="train+valid", verbose=False)
    assert list(model.metrics) == ["test"]
    seen = cerp.artifact.decode(model.file()).seen
    assert len(seen.items) == len(splits.train) + len(splits.valid)


def test_what_cannot_be_is_refused_before_anything_is_searched(splits: Splits, tmp_path: Path):
    options = RunOptions(folder=tmp_path / "run", quiet=True)
    with pytest.raises(ConfigError, match="holds the training graph"):
        fit_all(splits, replace(CONFIG, store_seen=False), options)
    with pytest.raises(ConfigError, match="too small for the filter here: its graph and ids take"):
        fit_all(splits, replace(CONFIG, max_file_size="1KB"), options)
    no_validation = splits.refit("train+valid")
    with pytest.raises(DataError, match="validation part is empty"):
        fit_all(no_validation, CONFIG, options)
    assert not options.folder.exists()


def test_there_is_no_embedding_to_ask_for():
    assert not METHODS["filter"].has_vectors
    with pytest.raises(ConfigError, match="no vectors"):
        METHODS["filter"]().embedding(None, 0, None)


# Export


def test_a_filter_is_written_in_one_way(finished: Path, splits: Splits):
    [model] = load_run(finished, splits)
    [written] = every_encoding(model)
    assert (written.values, written.graph) == (None, "edges")
    assert written.data == model.file()
    assert written.valid == pytest.approx(model.metrics["valid"]["ndcg@10"])
    assert best_written([written], "edges", "int8") is written
    [refused] = every_encoding(model, graph="tables")
    assert refused.data is None
    assert "no vectors" in refused.why_not
    with pytest.raises(ConfigError, match="the filter needs its graph"):
        model.file(Encoding(seen=False))


# The command line


def run(*words: object, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    app([str(word) for word in words], standalone_mode=False)
    return json.loads(capsys.readouterr().out)


def test_the_verbs_take_a_filter(finished: Path, splits: Splits, tmp_path: Path, capsys):
    data = tmp_path / "data"
    splits.save(data)
    trained = run("train", data, "--method", "filter", "-o", tmp_path / "run", "--json",
                  capsys=capsys)  # fmt: skip
    [model] = trained["models"]
    assert model["test"]["ndcg@10"] > trained["popularity"]["test"]["ndcg@10"] > 0
    judged = run("evaluate", tmp_path / "run", "--data", data, "--json", capsys=capsys)
    assert judged["ndcg@10"] == model["test"]["ndcg@10"]
    file = tmp_path / "run" / "model-none.cerp"
    judged = run("evaluate", file, "--data", data, "--json", capsys=capsys)
    assert judged["ndcg@10"] == model["test"]["ndcg@10"]
    copy = tmp_path / "copy.cerp"
    run("export", tmp_path / "run", "--data", data, "-o", copy, "--json", capsys=capsys)
    assert copy.read_bytes() == file.read_bytes()
    told = run("inspect", copy, "--json", capsys=capsys)
    assert told["total_bytes"] == model["file_bytes"]
    assert set(told["sections"]) == {"graph", "header"}
    assert told["filter"] == {name: model["search"][name] for name in ("q", "p", "r")}
    assert (told["stored_values"], told["backbone"]) == (0, "filter")
    app(["inspect", str(copy)], standalone_mode=False)
    shown = capsys.readouterr().out
    assert "filter q" in shown
    assert "full table" not in shown
    page = tmp_path / "report.html"
    words = ["report", str(tmp_path / "run"), "--data", str(data), "-o", str(page)]
    app(words, standalone_mode=False)
    text = page.read_text()
    assert "filter none" not in text
    assert f"cerp train {data} --method filter -o {tmp_path / 'run'}" in text


# Comparison


def test_a_comparison_has_the_filter_once_and_in_every_table(splits: Splits, tmp_path: Path):
    jobs = plan(["filter", "ud"], ["mf", "lightgcn"], ["75%", "90%"], 2)
    assert [job.name for job in jobs if job.method == "filter"] == ["filter.seed0"]
    made = cerp.compare(
        splits, ["filter", "ud"], output=tmp_path, verbose=False,
        backbones="mf", budgets=["75%", "90%"], dim=8, epochs=1, device="cpu",
    )  # fmt: skip
    assert made.failed == {}
    [result] = [one for one in made.results if one.method == "filter"]
    assert (result.backbone, result.budget, result.nnz, result.values) == (None, None, 0, None)
    assert result.file_bytes > 0
    assert [section.rows[0][0] for section in made.tables.sections] == ["filter", "filter"]
    section = made.tables.sections[0]
    shown = dict(zip(section.header, section.rows[0], strict=True))
    assert shown["file bytes"] == f"{result.file_bytes:,}"


def test_what_has_no_vectors_makes_a_table_by_itself(splits: Splits, tmp_path: Path):
    made = cerp.compare(splits, ["filter", "popularity"], output=tmp_path, verbose=False)
    [section] = made.tables.sections
    assert section.title == "without vectors"
    assert [row[0] for row in section.rows] == ["filter", "popularity"]


def test_there_is_nothing_to_tune(splits: Splits, tmp_path: Path):
    with pytest.raises(ConfigError, match="nothing to tune"):
        cerp.tune(splits, "filter", output=tmp_path / "tuned")


# Popularity beside every model


def test_popularity_is_judged_where_the_model_is_and_kept(finished: Path, splits: Splits, tmp_path):
    models = load_run(finished, splits)
    [(name, floor)] = popularity_floors(models, RunFolder(tmp_path)).items()
    assert name == "popularity"
    assert list(floor) == ["valid", "test"]
    wanted = evaluate(Popularity(splits.train), splits, on="test").mean["ndcg@10"]
    assert floor["test"]["ndcg@10"] == wanted
    kept = read_sealed(tmp_path / "judged-popularity.json")
    assert kept["metrics"] == floor
    kept["metrics"]["test"]["ndcg@10"] = 1.0
    write_sealed(tmp_path / "judged-popularity.json", kept)
    assert popularity_floors(models, RunFolder(tmp_path))["popularity"]["test"]["ndcg@10"] == 1.0


def test_a_time_split_is_also_held_against_what_is_popular_of_late(tmp_path: Path):
    data = synthetic(80, 40, 1200)
    later = replace(data, time=np.arange(len(data), dtype=np.int64) % 97).split("time")
    folder = RunFolder(tmp_path / "run")
    models = fit_all(later, CONFIG, RunOptions(folder=folder.path, quiet=True))
    floors = popularity_floors(models, folder)
    assert list(floors) == ["popularity", "recent popularity"]
    wanted = evaluate(RecentPopularity(later.train), later, on="test").mean["ndcg@10"]
    assert floors["recent popularity"]["test"]["ndcg@10"] == wanted
    # Times are not kept with a split, but what was judged is.
    bare = replace(models[0], splits=replace(later, train=replace(later.train, time=None)))
    assert popularity_floors([bare], folder) == floors
    assert list(popularity_floors([bare])) == ["popularity"]
    above = {"test": {"ndcg@10": 0.9}}
    assert "popular of late instead" in below_floor(models[0], above, "recent popularity")


def test_a_model_below_popularity_is_told(finished: Path, splits: Splits):
    [model] = load_run(finished, splits)
    assert below_floor(model, model.metrics) is None
    above = {"test": {"ndcg@10": 0.9}}
    assert "below popularity with 0.9000" in below_floor(model, above)
    # Also where the test part is kinder than validation, which chooses.
    kind = {"valid": {"ndcg@10": 0.9}, "test": {"ndcg@10": 0.0}}
    assert "on valid, below popularity" in below_floor(model, kind)
