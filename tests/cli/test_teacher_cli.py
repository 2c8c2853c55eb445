"""`cerp train --backbone mf`: a teacher where the data allow it, and what it had."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cerp.cli import app

QUICK = ("--budget", "50%", "--backbone", "mf", "--dim", "4", "--epochs", "1", "--prune-epochs")


@pytest.mark.parametrize(("asked", "teacher"), [((), "svd"), (("--teacher", "none"), None)])
def test_the_command_says_what_the_teacher_had(
    asked: tuple[str, ...],
    teacher: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    rows = "".join(f"{user},{item}\n" for user in range(20) for item in range(user % 4, 12, 2))
    (tmp_path / "rows.csv").write_text(f"user,item\n{rows}", encoding="utf-8")
    monkeypatch.setattr("cerp.presets.TAUGHT_ROWS", (1, 1000))
    words = ["train", str(tmp_path / "rows.csv"), *QUICK, "1", *asked, "-o", str(tmp_path / "run")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    written = json.loads((tmp_path / "run" / "metrics.json").read_text(encoding="utf-8"))
    assert written["config"]["teacher"] == teacher
    [model] = written["models"]
    assert ("teacher: 50%: ndcg@10 on validation: svd" in result.output) == (teacher is not None)
    if teacher is not None:
        assert f"svd {model['search']['teacher']['valid_ndcg@10']:.4f}" in result.output
