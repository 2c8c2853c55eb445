"""Memory that is freed while training is not handed back to the system before the end."""

from __future__ import annotations

import resource
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from cerp.cli import app
from cerp.config import Config, RunOptions, TrainConfig
from cerp.data.synthetic import synthetic
from cerp.runs.fit import fit_all
from cerp.training import malloc as memory
from cerp.training.malloc import freed_memory_kept

BLOCKS, VALUES = 5, 5_000_000
BYTES = BLOCKS * VALUES * 4
PAGES = BYTES // resource.getpagesize()
SETTLED = 10
"""Uses after which the heap is large enough: blocks are aligned, so gaps of just their size are
too small for them."""

needs_glibc = pytest.mark.skipif(
    memory._glibc() is None, reason="the C library has no such settings"
)


def use_blocks() -> None:
    """Fill a few blocks, then free them all."""
    blocks = [torch.ones(VALUES) for _ in range(BLOCKS)]
    del blocks


@needs_glibc
def test_freed_blocks_are_used_again() -> None:
    with freed_memory_kept():
        for _ in range(SETTLED):
            use_blocks()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        use_blocks()
        pages_cleared = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    assert pages_cleared < PAGES / 10


@needs_glibc
def test_what_was_kept_is_handed_back_at_the_end() -> None:
    with freed_memory_kept():
        use_blocks()
        inside = resident_bytes()
    assert inside - resident_bytes() > 0.9 * BYTES


class Recorder:
    """Stands in for glibc and notes what is asked of it."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, ...]] = []

    def mallopt(self, setting: int, value: int) -> None:
        self.calls.append((setting, value))

    def malloc_trim(self, kept: int) -> None:
        self.calls.append((kept,))


@pytest.mark.parametrize("fails", [False, True])
def test_settings_are_made_before_and_taken_back_after(
    fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    glibc = Recorder()
    monkeypatch.setattr(memory, "_glibc", lambda: glibc)

    with suppress(ValueError), freed_memory_kept():
        glibc.calls.append(())
        if fails:
            raise ValueError

    thirty_two_mebibytes = 33_554_432
    assert glibc.calls == [
        (-3, thirty_two_mebibytes),
        (-1, 2_147_483_647),
        (),
        (-3, thirty_two_mebibytes),
        (-1, 67_108_864),
        (0,),
    ]


def calls_of(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    glibc = Recorder()
    monkeypatch.setattr(memory, "_glibc", lambda: glibc)
    return glibc.calls


def test_training_on_a_gpu_leaves_the_allocator_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = calls_of(monkeypatch)
    with freed_memory_kept("cuda:0"):
        pass
    assert calls == []


ONCE = {"dim": 8, "train": TrainConfig(epochs=1, batch_size=512)}


def test_training_from_python_leaves_the_allocator_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = calls_of(monkeypatch)
    splits = synthetic(40, 20, 300).split(seed=0)
    fit_all(splits, Config("full", backbone="mf", **ONCE), RunOptions(quiet=True))
    assert calls == []


def test_the_command_line_keeps_freed_memory_while_it_trains(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls = calls_of(monkeypatch)
    command = "train synthetic --method full --backbone mf --dim 8 --epochs 1 --device cpu"
    assert CliRunner().invoke(app, [*command.split(), "-o", str(tmp_path / "run")]).exit_code == 0
    assert len(calls) == 5


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_other_systems_are_left_alone(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert memory._glibc() is None
    with freed_memory_kept():
        pass


def resident_bytes() -> int:
    numbers = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return int(numbers[1]) * resource.getpagesize()
