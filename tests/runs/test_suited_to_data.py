"""Where codes do not fit into memory, rows are hashed and that is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import cerp
from cerp.assignment.graph_vectors import graph_vectors
from cerp.choices import Assignment
from cerp.cli import app
from cerp.config import Config
from cerp.data.synthetic import synthetic
from cerp.errors import ConfigError
from cerp.presets import preset
from cerp.runs import suited_to_data
from cerp.runs.suited_to_data import hash_instead

SPLITS = synthetic(60, 40, 600).split(seed=0)
QUICK = {"epochs": 1, "prune_epochs": 1, "dim": 8}
LEARNED = preset("default", "mf")


@pytest.fixture
def short_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    # 40 items: 12 columns in float32 and a copy are 3,840 bytes.
    monkeypatch.setattr(suited_to_data, "MEMORY", 3_839)


def test_enough_memory_leaves_codes_learned(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(suited_to_data, "MEMORY", 3_840)
    assert hash_instead(LEARNED, None, SPLITS) is None


@pytest.mark.usefixtures("short_of_memory")
def test_the_words_say_what_takes_how_much():
    words = hash_instead(LEARNED, None, SPLITS)
    assert words is not None
    assert "vectors of 40 items, which need 3,840 bytes, and 3,839 are allowed" in words


@pytest.mark.usefixtures("short_of_memory")
@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        (LEARNED, "learned"),
        (replace(LEARNED, codebooks=4), None),
        (preset("default", "mf", teacher="als"), None),
        (preset("default", "mlp"), None),
    ],
)
def test_what_is_asked_for_is_not_replaced(config: Config, wanted: Assignment | None):
    assert hash_instead(config, wanted, SPLITS) is None


@pytest.mark.usefixtures("short_of_memory")
def test_fit_takes_the_hash_and_says_so(capsys: pytest.CaptureFixture[str]):
    model = cerp.fit(SPLITS, "90%", backbone="mf", device="cpu", **QUICK)
    assert model.facts.assignment == "hash"
    assert "note: codebook rows are chosen by a hash" in capsys.readouterr().err


@pytest.mark.usefixtures("short_of_memory")
def test_the_command_takes_the_hash_and_says_so(tmp_path: Path):
    command = ["train", "synthetic", "--backbone", "mf", "--budget", "90%", "--device", "cpu"]
    command += ["--epochs", "1", "--prune-epochs", "1", "--dim", "8", "-o", str(tmp_path / "run")]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "codebook rows are chosen by a hash" in " ".join(done.output.split())


def test_codes_that_were_asked_for_are_refused_where_they_do_not_fit():
    with pytest.raises(ConfigError, match=r"do not fit into 3,839 bytes: memory=3840 would do"):
        graph_vectors(SPLITS.train, memory=3_839)
