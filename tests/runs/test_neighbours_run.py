"""Runs of item neighbours: the products, verbs and figures of any run, in a file without users."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cerp
from cerp.artifact import decode, embedding_bytes, section_bytes
from cerp.cli import app
from cerp.comparison.jobs import plan
from cerp.config import Config, RunOptions
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic
from cerp.errors import BudgetError, ConfigError
from cerp.export.size_limit import SizeLimit
from cerp.methods import METHODS
from cerp.runs.encodings import every_encoding
from cerp.runs.fit import fit_all, load_run

CONFIG = Config(method="neighbours", budgets=("800", "1KB"))
PRODUCTS = ["judged-1KB.json", "judged-800.json", "metrics.json", "model-1KB.cerp",
            "model-800.cerp", "plan.json", "searched.safetensors", "shipped-1KB.json",
            "shipped-800.json"]  # fmt: skip


@pytest.fixture(scope="module")
def splits() -> Splits:
    return synthetic(300, 200, 6000).split(seed=0)


@pytest.fixture(scope="module")
def finished(splits: Splits, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("neighbours") / "run"
    fit_all(splits, CONFIG, RunOptions(folder=folder, quiet=True))
    return folder


# The run


def test_every_budget_has_its_own_weights_and_file(finished: Path, splits: Splits):
    there = sorted(path.name for path in finished.iterdir() if not path.name.startswith("."))
    assert there == PRODUCTS
    by_count, by_bytes = load_run(finished, splits)
    assert 760 < by_count.facts.nnz <= by_count.limit == 800
    sections = section_bytes((finished / "model-1KB.cerp").read_bytes())
    assert 950 < embedding_bytes(sections) == by_bytes.facts.embedding_bytes <= 1000
    assert by_bytes.limit == by_bytes.facts.nnz


def test_a_finished_run_is_read_and_nothing_is_searched_again(
    finished: Path, splits: Splits, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(METHODS["neighbours"], "find", None)
    written = json.loads((finished / "metrics.json").read_text())
    models = load_run(finished, splits)
    assert [model.facts.to_json() for model in models] == written["models"]
    for model in models:
        assert model.file() == (finished / f"model-{model.budget}.cerp").read_bytes()


@pytest.mark.parametrize("size", [3_000, 6_000, 20_000, 60_000])
def test_a_file_keeps_its_limit_and_uses_it(splits: Splits, size: int):
    model = cerp.fit(splits, method="neighbours", max_file_size=f"{size}B", verbose=False)
    assert len(model.file()) == model.facts.file_bytes <= size
    # 39,800 weights are all there are between 200 items, and half of them are not positive.
    if size < 20_000:
        assert model.facts.file_bytes > 0.97 * size


def test_the_model_is_judged_as_its_file_is(splits: Splits, tmp_path: Path):
    model = cerp.fit(splits, method="neighbours", max_file_size="6KB", verbose=False)
    path = tmp_path / "model.cerp"
    assert model.save(path) == model.facts.file_bytes
    runtime = cerp.load(path)
    assert runtime.is_item_only
    for part in ("valid", "test"):
        found = cerp.evaluate(runtime, splits, on=part).mean
        assert found["ndcg@10"] == model.metrics[part]["ndcg@10"]
    users = np.arange(splits.num_users, dtype=np.int32)
    by_histories = runtime.with_histories(splits.train).score_all(users)
    assert np.array_equal(model.score_all(users), by_histories)
    liked = splits.items.decode([3, 8])
    assert model.recommend_for(liked) == runtime.recommend_for(liked)
    with pytest.raises(ConfigError, match="items and no users"):
        model.recommend(0)
    assert repr(model).startswith("FittedModel(neighbours at 6KB, seed 0)\n  300 users x 200 items")
    assert model.facts.search["kind"] in ("ease", "cosine", "filter")
    assert model.facts.best_valid == pytest.approx(model.metrics["valid"]["ndcg@10"])


def test_without_a_limit_the_budget_is_that_of_every_method(splits: Splits):
    model = cerp.fit(splits, method="neighbours", verbose=False)
    # 1% of 500 entities of dimension 128.
    assert (model.budget, model.limit) == ("99%", 640)


def test_a_refit_has_weights_of_validation_too_and_is_judged_with_those_histories(
    splits: Splits, tmp_path: Path
):
    model = cerp.fit(
        splits, method="neighbours", max_file_size="6KB", refit="train+valid", verbose=False
    )
    assert list(model.metrics) == ["test"]
    assert 5_800 < model.save(tmp_path / "model.cerp") <= 6_000
    found = cerp.evaluate(cerp.load(tmp_path / "model.cerp"), splits)
    assert found.mean["ndcg@10"] == model.metrics["test"]["ndcg@10"]


def test_what_cannot_be_is_refused_before_anything_is_searched(splits: Splits, tmp_path: Path):
    options = RunOptions(folder=tmp_path / "run", quiet=True)
    small = replace(CONFIG, max_file_size="1KB")
    with pytest.raises(BudgetError, match="too small for neighbours here: with the fewest values"):
        fit_all(splits, small, options)
    with pytest.raises(ConfigError, match="leave out mix=True"):
        fit_all(splits, replace(CONFIG, mix=True), options)
    assert not options.folder.exists()


def test_there_is_no_embedding_to_ask_for():
    assert not METHODS["neighbours"].has_vectors
    with pytest.raises(ConfigError, match="no vectors"):
        METHODS["neighbours"]().embedding(None, 0, None)


# Export


def test_neighbours_are_written_in_one_way_and_shrink_under_a_limit(finished: Path, splits: Splits):
    model = load_run(finished, splits)[0]
    [written] = every_encoding(model)
    assert (written.values, written.data) == (None, model.file())
    assert written.valid == pytest.approx(model.metrics["valid"]["ndcg@10"])
    [smaller] = every_encoding(model, limit=SizeLimit(file=len(written.data) - 300))
    assert len(smaller.data) <= len(written.data) - 300
    assert 0 < len(decode(smaller.data).neighbours) < model.facts.nnz
    [refused] = every_encoding(model, graph="tables")
    assert "no vectors" in refused.why_not


# The command line


def run(*words: object, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    app([str(word) for word in words], standalone_mode=False)
    return json.loads(capsys.readouterr().out)


def test_the_verbs_take_neighbours(splits: Splits, tmp_path: Path, capsys):
    data = tmp_path / "data"
    splits.save(data)
    trained = run("train", data, "--method", "neighbours", "--max-file-size", "6KB",
                  "-o", tmp_path / "run", "--json", capsys=capsys)  # fmt: skip
    [model] = trained["models"]
    assert model["test"]["ndcg@10"] > trained["popularity"]["test"]["ndcg@10"] > 0
    file = tmp_path / "run" / "model-6KB.cerp"
    for judged in (tmp_path / "run", file):
        found = run("evaluate", judged, "--data", data, "--json", capsys=capsys)
        assert found["ndcg@10"] == model["test"]["ndcg@10"]
    copy = tmp_path / "copy.cerp"
    run("export", tmp_path / "run", "--data", data, "--max-file-size", "6KB", "-o", copy, "--json",
        capsys=capsys)  # fmt: skip
    assert copy.read_bytes() == file.read_bytes()
    told = run("inspect", copy, "--json", capsys=capsys)
    assert told["total_bytes"] == model["file_bytes"] <= 6000
    assert set(told["sections"]) == {"weights", "positions", "scales", "popularity", "header"}
    assert (told["users"], told["backbone"]) == (0, "neighbours")
    assert told["weights"] == told["stored_values"] == model["nnz"]
    app(["inspect", str(copy)], standalone_mode=False)
    shown = capsys.readouterr().out
    assert "weights between items" in shown
    assert "full table" not in shown
    item = str(splits.items.values[5])
    lists = run("recommend", copy, "--liked", item, "-k", "3", "--json", capsys=capsys)
    assert len(lists["recommendations"]) == 3
    page = tmp_path / "report.html"
    words = ["report", str(tmp_path / "run"), "--data", str(data), "-o", str(page)]
    app(words, standalone_mode=False)
    text = page.read_text()
    again = f"cerp train {data} --method neighbours --max-file-size 6KB -o {tmp_path / 'run'}"
    assert again in text
    assert "neighbours 6KB" in text
    app(["report", str(tmp_path / "run"), "-o", str(page)], standalone_mode=False)


@pytest.mark.parametrize("words", [["--user", "3"], ["--users", "users.csv", "-o", "lists.csv"]])
def test_a_user_is_refused_with_what_to_give_instead(
    finished: Path, tmp_path: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    Path("users.csv").write_text("user\n3\n")
    with pytest.raises(ConfigError, match="give the items that someone likes"):
        app(["recommend", str(finished / "model-800.cerp"), *words], standalone_mode=False)
    assert not Path("lists.csv").exists()


# Comparison


def test_a_comparison_has_neighbours_once_for_each_budget(splits: Splits, tmp_path: Path):
    jobs = plan(["neighbours", "ud"], ["mf", "lightgcn"], ["75%", "90%"], 2)
    assert [job.name for job in jobs if job.method == "neighbours"] == ["neighbours.seed0"]
    made = cerp.compare(
        splits, ["neighbours", "ud"], output=tmp_path, verbose=False,
        backbones="mf", budgets=["75%", "90%"], dim=8, epochs=1, device="cpu",
    )  # fmt: skip
    assert made.failed == {}
    results = [one for one in made.results if one.method == "neighbours"]
    assert [(one.backbone, one.budget, one.limit) for one in results] == [
        (None, "75%", 1000),
        (None, "90%", 400),
    ]
    assert all(one.nnz <= one.limit for one in results)
    assert [section.rows[0][0] for section in made.tables.sections] == ["neighbours"] * 2


def test_what_has_no_vectors_makes_a_table_for_each_budget(splits: Splits, tmp_path: Path):
    made = cerp.compare(
        splits, ["neighbours", "popularity"], output=tmp_path, verbose=False, budgets=["99%", "2KB"]
    )
    titles = [section.title for section in made.tables.sections]
    assert titles == ["without vectors, 99% (equal values)", "without vectors, 2KB (equal bytes)"]
    for section in made.tables.sections:
        assert [row[0] for row in section.rows] == ["neighbours", "popularity"]


def test_there_is_nothing_to_tune(splits: Splits, tmp_path: Path):
    with pytest.raises(ConfigError, match="nothing to tune"):
        cerp.tune(splits, "neighbours", output=tmp_path / "tuned")
