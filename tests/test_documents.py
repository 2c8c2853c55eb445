"""What README.md and docs/*.md show, works: their Python blocks and `$ cerp` lines are run."""

from __future__ import annotations

import csv
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cerp
from cerp.budget import UNITS
from cerp.evaluation.metrics import METRICS
from cerp.methods import METHODS
from cerp.models.backbones import BACKBONES
from cerp.training.losses import LOSSES
from cerp.training.penalties import PENALTIES

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(path: Path, language: str) -> str:
    """All code blocks of one language, in order, as one text."""
    text = path.read_text(encoding="utf-8")
    return "\n".join(re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the ratings.csv and vectors.npy that the documents speak of."""
    np.save(tmp_path / "vectors.npy", np.random.default_rng(0).normal(size=(300, 8)))
    data = cerp.load_splits("synthetic").train
    with (tmp_path / "ratings.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["user_id", "item_id"])
        writer.writerows(
            (f"user-{user}", f"item-{item}")
            for user, item in zip(data.user, data.item, strict=True)
        )
    monkeypatch.chdir(tmp_path)
    for registry in (METHODS, BACKBONES, LOSSES, PENALTIES, METRICS, UNITS):
        monkeypatch.setattr(registry, "_parts", dict(registry._parts))
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_python_blocks_run(path: Path, folder: Path):
    code = blocks(path, "python")
    exec(compile(code, path.name, "exec"), {"__name__": "__main__"})


@pytest.mark.slow
@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_console_lines_run(path: Path, folder: Path):
    for line in re.findall(r"^\$ cerp (.*)$", blocks(path, "console"), re.MULTILINE):
        command = [sys.executable, "-m", "cerp.cli", *shlex.split(line)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 0, f"cerp {line}\n{result.stderr}"


def test_the_readme_is_among_what_was_checked():
    assert "cerp.read" in blocks(ROOT / "README.md", "python")
    assert "$ cerp train" in blocks(ROOT / "README.md", "console")
