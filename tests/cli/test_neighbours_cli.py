"""`cerp train --neighbours`: LightGCN that looks at a part of the graph in each step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import cerp
from cerp.cli import app
from cerp.errors import ConfigError
from cerp.runs.fit import load_run

QUICK = ("--budget", "50%", "--dim", "4", "--epochs", "1", "--prune-epochs", "1")


def rows_in(folder: Path) -> str:
    rows = "".join(f"{user},{item}\n" for user in range(20) for item in range(user % 4, 12, 2))
    (folder / "rows.csv").write_text(f"user,item\n{rows}", encoding="utf-8")
    return str(folder / "rows.csv")


def test_a_run_keeps_how_many_neighbours_its_steps_look_at(tmp_path: Path):
    words = ["train", rows_in(tmp_path), *QUICK, "--neighbours", "2", "-o", str(tmp_path / "run")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    written = json.loads((tmp_path / "run" / "metrics.json").read_text(encoding="utf-8"))
    assert written["config"]["backbone_options"] == {"neighbours": 2}
    [model] = load_run(tmp_path / "run", cerp.read(tmp_path / "rows.csv").split(seed=0))
    assert model.recommender.backbone.neighbours == 2
    # The file has the whole graph: what was judged is what it recommends by.
    judged = cerp.evaluate(cerp.load(tmp_path / "run" / "model-50pct.cerp"), model.splits)
    assert judged.mean["ndcg@10"] == pytest.approx(model.metrics["test"]["ndcg@10"], abs=1e-6)


def test_a_large_graph_is_said_to_be_looked_at_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("cerp.models.backbones.lightgcn.MOST_PAIRS", 10)
    words = ["train", rows_in(tmp_path), *QUICK, "-o", str(tmp_path / "run")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert "steps look at 8 neighbours" in " ".join(result.output.split())


def test_the_same_command_gives_the_same_file(tmp_path: Path):
    data, files = rows_in(tmp_path), []
    for name in ("first", "second"):
        words = ["train", data, *QUICK, "--neighbours", "2", "-o", str(tmp_path / name)]
        assert CliRunner().invoke(app, words).exit_code == 0
        files.append((tmp_path / name / "model-50pct.cerp").read_bytes())
    assert files[0] == files[1]


def test_other_backbones_have_no_neighbours(tmp_path: Path):
    words = ["train", rows_in(tmp_path), *QUICK, "--backbone", "mf", "--neighbours", "2"]
    result = CliRunner().invoke(app, [*words, "-o", str(tmp_path / "run")])
    assert isinstance(result.exception, ConfigError)
    assert "backbone 'mf' has no option 'neighbours'" in str(result.exception)
