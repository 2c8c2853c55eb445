"""Whatever happened to the files of a run: an error that says so, never another model."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import cerp
from cerp.config import Config, PruneConfig, RunOptions, TrainConfig
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic
from cerp.errors import CerpError, CheckpointError, DataError
from cerp.runs.fit import fit_all, load_run
from cerp.runs.sealed import read_sealed, write_sealed
from cerp.training.checkpoint import read_checkpoint, write_checkpoint

CONFIG = Config(
    backbone="mf",
    budgets=("80%",),
    dim=8,
    ordering="degree",
    prune=PruneConfig(epochs=1),
    train=TrainConfig(epochs=1),
)
ODD: tuple[Any, ...] = (None, True, -1, 10**400, "x", "\ud800", [], {}, {"a": [1]}, float("nan"))
SEALED = ("plan.json", "judged-80pct.json", "shipped-80pct.json")
PRODUCTS = (*SEALED, "order.safetensors", "searched.safetensors", "trained-80pct.safetensors")
OTHERS = ("metrics.json", "curves.jsonl", "model-80pct.cerp")


@pytest.fixture(scope="module")
def splits() -> Splits:
    return synthetic(30, 20, 200).split(seed=0)


@pytest.fixture(scope="module")
def whole(splits: Splits, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run, which stays as it is."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    fit_all(splits, CONFIG, RunOptions(folder=folder, quiet=True))
    assert {path.name for path in folder.iterdir()} == {*PRODUCTS, *OTHERS, ".lock"}
    return folder


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    return shutil.copytree(whole, tmp_path / "run")


def weights(folder: Path, splits: Splits) -> dict[str, torch.Tensor]:
    [model] = load_run(folder, splits)
    return dict(model.recommender.state_dict())


def damaged(content: bytes, seed: int, cases: int) -> Iterator[bytes]:
    """Single bits, stretches and ends of a file changed."""
    rng = random.Random(seed)
    for _ in range(cases):
        place, changed = rng.randrange(len(content)), bytearray(content)
        changed[place] ^= 1 << rng.randrange(8)
        yield bytes(changed)
        yield content[:place]
        changed[place : place + 8] = rng.randbytes(8)
        yield bytes(changed)


def test_a_checkpoint_with_one_bit_changed_is_named_or_says_the_same(tmp_path: Path):
    path = tmp_path / "checkpoint.safetensors"
    tensors = {"a/b": torch.arange(7.0), "c": torch.tensor(3, dtype=torch.int32)}
    write_checkpoint(path, tensors, {"stage": "prune", "best": [0.125, 3]})
    content = path.read_bytes()
    refused = 0
    for place in range(len(content)):
        for bit in range(8):
            changed = bytearray(content)
            changed[place] ^= 1 << bit
            path.write_bytes(changed)
            try:
                found, facts = read_checkpoint(path)
            except CheckpointError:
                refused += 1
                continue
            assert facts == {"stage": "prune", "best": [0.125, 3]}
            assert {name: tensor.tolist() for name, tensor in found.items()} == {
                name: tensor.tolist() for name, tensor in tensors.items()
            }
    assert refused > 0.9 * 8 * len(content)


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_damaged_product_is_never_taken_for_a_whole_one(run: Path, splits: Splits, name: str):
    expected = weights(run, splits)
    content = (run / name).read_bytes()
    for changed in damaged(content, seed=1, cases=8):
        (run / name).write_bytes(changed)
        try:
            found = weights(run, splits)
        except CerpError:
            continue
        assert all(torch.equal(found[key], expected[key]) for key in expected)


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_damaged_product_is_not_resumed_from(run: Path, splits: Splits, name: str):
    content = (run / name).read_bytes()
    (run / "metrics.json").unlink()
    (run / name).write_bytes(content.replace(b"0", b"1"))
    with pytest.raises(CerpError, match=name):
        fit_all(splits, CONFIG, RunOptions(folder=run, resume=True, quiet=True))


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container in a JSON value with each of its keys."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from places(value[key])


@pytest.mark.parametrize("name", SEALED)
def test_entries_of_other_types_or_missing_ones_are_refused_with_a_fitting_seal_too(
    run: Path, splits: Splits, name: str
):
    before = read_sealed(run / name)
    rng = random.Random(2)
    for number in range(len(list(places(before)))):
        values = json.loads(json.dumps(before))
        container, key = list(places(values))[number]
        if isinstance(container, dict) and rng.random() < 0.5:
            del container[key]
        else:
            container[key] = rng.choice(ODD)
        write_sealed(run / name, values)
        try:
            load_run(run, splits)
        except CerpError:
            continue


def test_products_that_do_not_fit_together_are_refused(run: Path, splits: Splits):
    tensors, facts = read_checkpoint(run / "trained-80pct.safetensors")
    narrow = {name: tensor.reshape(-1)[:1].clone() for name, tensor in tensors.items()}
    write_checkpoint(run / "trained-80pct.safetensors", narrow, facts)
    with pytest.raises(DataError, match="do not fit together"):
        load_run(run, splits)


@pytest.mark.parametrize("name", OTHERS)
def test_a_report_of_a_damaged_run_is_an_error_or_a_page(
    run: Path, splits: Splits, tmp_path: Path, name: str
):
    content = (run / name).read_bytes()
    for changed in damaged(content, seed=3, cases=4):
        (run / name).write_bytes(changed)
        try:
            cerp.report([run], tmp_path / "report.html")
        except CerpError:
            continue


def test_a_report_of_figures_of_other_types_is_an_error_or_a_page(run: Path, tmp_path: Path):
    before = json.loads((run / "metrics.json").read_text())
    rng = random.Random(4)
    for number in range(len(list(places(before)))):
        values = json.loads(json.dumps(before))
        container, key = list(places(values))[number]
        if isinstance(container, dict) and rng.random() < 0.5:
            del container[key]
        else:
            container[key] = rng.choice(ODD)
        (run / "metrics.json").write_text(json.dumps(values))
        try:
            cerp.report([run], tmp_path / "report.html")
        except CerpError:
            continue


def test_a_report_refuses_a_figure_that_models_are_chosen_by_and_that_is_no_number(
    run: Path, tmp_path: Path
):
    figures = json.loads((run / "metrics.json").read_text())
    figures["models"][0]["valid"]["ndcg@10"] = None
    (run / "metrics.json").write_text(json.dumps(figures))
    with pytest.raises(CerpError, match=r"metrics\.json"):
        cerp.report([run], tmp_path / "report.html")


def test_a_plan_that_vanishes_before_the_folder_is_locked_is_made_again(
    run: Path, splits: Splits, monkeypatch: pytest.MonkeyPatch
):
    claimed = cerp.runs.folder.RunFolder.claimed

    def emptied(folder: cerp.runs.folder.RunFolder) -> Any:
        for path in run.iterdir():
            path.unlink()
        return claimed(folder)

    monkeypatch.setattr("cerp.runs.folder.RunFolder.claimed", emptied)
    [model] = fit_all(splits, replace(CONFIG), RunOptions(folder=run, quiet=True))
    assert (run / "plan.json").exists()
    assert model.facts.budget == "80%"
