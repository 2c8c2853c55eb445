"""A run that is killed, resumed, and killed again ends where an undisturbed one ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from training_process import CONFIG, small_splits

from cerp.config import RunOptions
from cerp.errors import CheckpointError, ConfigError, OutputError
from cerp.runs.fit import fit_all
from cerp.runs.folder import CODED
from cerp.training.checkpoint import read_checkpoint, write_checkpoint

SCRIPT = Path(__file__).with_name("training_process.py")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    subprocess.run([sys.executable, SCRIPT, folder], check=True, timeout=120)
    return folder


def weights(folder: Path) -> dict[str, dict[str, torch.Tensor]]:
    return {
        path.name: read_checkpoint(path)[0] for path in sorted(folder.glob("trained-*.safetensors"))
    }


def assert_same_weights(first: Path, second: Path) -> None:
    mine, theirs = weights(first), weights(second)
    assert mine.keys() == theirs.keys() != set()
    for name, tensors in mine.items():
        assert tensors.keys() == theirs[name].keys()
        for key, tensor in tensors.items():
            assert torch.equal(tensor, theirs[name][key]), f"{name}: {key}"


def run_until(folder: Path, done: str, extra_seconds: float, *options: str) -> None:
    """Start the run and kill it without warning some time after a file has appeared."""
    process = subprocess.Popen([sys.executable, SCRIPT, folder, *options])
    limit = time.monotonic() + 60
    while not (folder / done).exists() and process.poll() is None and time.monotonic() < limit:
        time.sleep(0.005)
    time.sleep(extra_seconds)
    process.send_signal(signal.SIGKILL)
    process.wait()


@pytest.mark.slow
def test_killed_in_each_stage_it_ends_with_the_same_bits(undisturbed: Path, tmp_path: Path):
    run_until(tmp_path, "checkpoint.safetensors", 0.05)
    assert not (tmp_path / "metrics.json").exists()
    run_until(tmp_path, "searched.safetensors", 0.05)
    assert not (tmp_path / "metrics.json").exists()
    subprocess.run([sys.executable, SCRIPT, tmp_path], check=True, timeout=120)
    assert_same_weights(tmp_path, undisturbed)
    mine, theirs = (
        json.loads((folder / "metrics.json").read_text()) for folder in (tmp_path, undisturbed)
    )
    assert [model["test"] for model in mine["models"]] == [
        model["test"] for model in theirs["models"]
    ]


@pytest.mark.slow
def test_learned_codes_are_kept_over_kills_and_end_with_the_same_bits(tmp_path: Path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run([sys.executable, SCRIPT, whole, "learned"], check=True, timeout=120)
    run_until(killed, CODED, 0, "learned")
    codes = (killed / CODED).read_bytes()
    for done in ("checkpoint.safetensors", "searched.safetensors"):
        run_until(killed, done, 0.05, "learned")
        assert not (killed / "metrics.json").exists()
    subprocess.run([sys.executable, SCRIPT, killed, "learned"], check=True, timeout=120)
    assert (killed / CODED).read_bytes() == codes
    assert_same_weights(killed, whole)
    for file in sorted(path.name for path in whole.glob("*.cerp")):
        assert (killed / file).read_bytes() == (whole / file).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_asked_to_stop_it_saves_and_goes_on_to_the_same_bits(
    undisturbed: Path, tmp_path: Path, number: signal.Signals
):
    # A shell in the background, or nohup, has signals ignored, which a child would take over.
    process = subprocess.Popen(
        [sys.executable, SCRIPT, tmp_path],
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    )
    while not (tmp_path / "checkpoint.safetensors").exists():
        time.sleep(0.005)
    process.send_signal(number)
    assert process.wait(timeout=60) in (-number, 1)
    subprocess.run([sys.executable, SCRIPT, tmp_path], check=True, timeout=120)
    assert_same_weights(tmp_path, undisturbed)


def test_the_curves_are_whole_after_an_interruption(undisturbed: Path):
    rows = [json.loads(line) for line in (undisturbed / "curves.jsonl").read_text().splitlines()]
    stages = [(row["stage"], row["epoch"]) for row in rows]
    assert stages[:3] == [("prune", 1), ("prune", 2), ("prune", 3)]
    assert len(set(stages)) == len(stages)


def test_another_configuration_or_other_data_is_refused_with_the_difference(undisturbed: Path):
    options = RunOptions(folder=undisturbed, resume=True)
    with pytest.raises(ConfigError, match=r"differs in config\.seed: 1 against 0"):
        fit_all(small_splits(), replace(CONFIG, seed=1), options)
    other = small_splits().train_and_valid.split(seed=3)
    with pytest.raises(ConfigError, match="the data has changed"):
        fit_all(other, CONFIG, options)


def test_without_resume_an_existing_run_is_left_alone(undisturbed: Path):
    with pytest.raises(ConfigError, match="holds this run already; give resume=True"):
        fit_all(small_splits(), CONFIG, RunOptions(folder=undisturbed))


def test_a_half_written_checkpoint_is_never_taken_for_a_whole_one(tmp_path: Path):
    path = tmp_path / "checkpoint.safetensors"
    write_checkpoint(path, {"weight": torch.arange(1000.0)}, {"step": 3})
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match="not a readable checkpoint"):
        read_checkpoint(path)


def test_a_full_disk_leaves_the_earlier_checkpoint_intact(tmp_path: Path, monkeypatch):
    path = tmp_path / "checkpoint.safetensors"
    write_checkpoint(path, {"weight": torch.zeros(3)}, {"step": 1})

    def no_space(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("cerp.files.os.fsync", no_space)
    with pytest.raises(OutputError, match=r"No space left.*before is intact"):
        write_checkpoint(path, {"weight": torch.ones(3)}, {"step": 2})
    assert read_checkpoint(path)[1] == {"step": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
