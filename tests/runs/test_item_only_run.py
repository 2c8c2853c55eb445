"""Runs of item-only files from vectors: judged as they are used, everybody folded in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import cerp
from cerp.artifact import decode, section_bytes
from cerp.cli import app
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic
from cerp.errors import ConfigError
from cerp.runs.encodings import every_encoding
from cerp.runs.fit import load_run
from cerp.runtime import Runtime

QUICK: dict[str, Any] = {"dim": 16, "epochs": 4, "prune_epochs": 2, "verbose": False}


@pytest.fixture(scope="module")
def splits() -> Splits:
    return synthetic(300, 200, 6000).split(seed=0)


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "full"},
        {"budget": "90%", "assignment": "learned"},
        {"budget": "90%", "assignment": "hash"},
        {"method": "pep", "budget": "75%"},
        {"method": "qr", "budget": "75%"},
        {"max_file_size": "5KB"},
        {"method": "ud", "budget": "75%", "values": "int8"},
    ],
    ids=str,
)
def test_the_figures_are_those_of_the_file_with_everybody_folded_in(
    splits: Splits, settings: dict[str, Any]
):
    model = cerp.fit(splits, backbone="mf", item_only=True, **settings, **QUICK)
    data = model.file()
    file = decode(data)
    assert file.is_item_only
    assert "seen" not in section_bytes(data)
    assert len(data) == model.facts.file_bytes
    assert model.facts.nnz == cerp.artifact.usage(file).stored_values
    for part in ("valid", "test"):
        found = cerp.evaluate(Runtime(file), splits, on=part).mean["ndcg@10"]
        assert found == model.metrics[part]["ndcg@10"]
        assert found == cerp.evaluate(model, splits, on=part).mean["ndcg@10"]


# Learned codes leave more of so small a limit: a book has 64 rows or more, and one more is a step.
@pytest.mark.parametrize(("assignment", "used"), [("hash", 0.95), ("learned", 0.85)])
def test_a_limit_of_the_file_is_kept_and_used(splits: Splits, assignment: str, used: float):
    size, settings = 6_000, {"backbone": "mf", "assignment": assignment, **QUICK}
    model = cerp.fit(splits, item_only=True, max_file_size="6KB", **settings)
    assert used * size < len(model.file()) <= size
    whole = cerp.fit(splits, budget=model.limit, **settings)
    assert len(whole.file()) > size


def test_a_file_without_users_is_smaller_than_one_with_them(splits: Splits):
    sizes = [
        cerp.fit(splits, backbone="mf", method="full", item_only=alone, **QUICK).facts.file_bytes
        for alone in (True, False)
    ]
    # Of 500 vectors 300 are gone, and the interactions.
    assert sizes[0] < 0.45 * sizes[1]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"backbone": "lightgcn"}, "lightgcn needs more"),
        ({"backbone": "mlp"}, "mlp needs more"),
        ({"backbone": "mf", "mix": True}, "mf with a filter needs more"),
        ({"method": "filter"}, "ranks by what users took"),
        ({"backbone": "mf", "method": "dhe", "budget": "50%"}, "cannot be written to a model file"),
    ],
)
def test_what_cannot_do_without_users_is_refused(
    splits: Splits, settings: dict[str, Any], reason: str, tmp_path: Path
):
    with pytest.raises(ConfigError, match=reason):
        cerp.fit(splits, item_only=True, output=tmp_path / "run", **settings, **QUICK)
    assert not (tmp_path / "run").exists()


def test_neighbours_are_item_only_with_or_without_being_told(splits: Splits):
    models = [
        cerp.fit(splits, method="neighbours", budget=500, item_only=alone, verbose=False)
        for alone in (True, False)
    ]
    assert models[0].file() == models[1].file()
    assert models[0].metrics == models[1].metrics


def test_the_verbs_take_it(splits: Splits, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    data, folder = tmp_path / "data", tmp_path / "run"
    splits.save(data)

    def run(*words: object) -> dict[str, Any]:
        app([*map(str, words), "--json"], standalone_mode=False)
        return json.loads(capsys.readouterr().out)

    trained = run("train", data, "--backbone", "mf", "--method", "full", "--item-only",
                  "--dim", "16", "--epochs", "4", "-o", folder)  # fmt: skip
    [model] = trained["models"]
    file = folder / "model-full.cerp"
    for judged in (folder, file):
        assert run("evaluate", judged, "--data", data)["ndcg@10"] == model["test"]["ndcg@10"]
    told = run("inspect", file)
    assert (told["users"], told["stored_values"]) == (0, 200 * 16)
    assert run("recommend", file, "--liked", splits.items.values[3], "-k", "2")["recommendations"]
    page = tmp_path / "report.html"
    app(["report", str(folder), "--data", str(data), "-o", str(page)], standalone_mode=False)
    assert "--item-only" in page.read_text()
    [loaded] = load_run(folder, splits)
    assert loaded.file() == file.read_bytes()
    written = every_encoding(loaded)
    assert [one.values for one in written] == ["fp32", "fp16", "int8", "int4"]
    assert written[0].valid == pytest.approx(model["valid"]["ndcg@10"])
