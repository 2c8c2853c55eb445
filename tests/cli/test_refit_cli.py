"""`cerp train --refit all`: nothing is left to judge on, and the command says what it made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cerp.cli import app

QUICK = ("--method", "ud", "--budget", "50%", "--backbone", "mf", "--dim", "4", "--epochs", "1")


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_model_of_all_rows_is_told_without_figures(form: tuple[str, ...], tmp_path: Path):
    rows = "".join(f"{user},{item}\n" for user in range(20) for item in range(user % 4, 12, 2))
    (tmp_path / "rows.csv").write_text(f"user,item\n{rows}", encoding="utf-8")
    asked = ["train", str(tmp_path / "rows.csv"), *QUICK, "--refit", "all", *form]
    result = CliRunner().invoke(app, [*asked, "-o", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "run" / "model-50pct.cerp").is_file()
    if form:
        assert json.loads(result.stdout)["models"][0]["budget"] == "50%"
