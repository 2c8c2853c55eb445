"""Notebooks hold no outputs, and their code runs, in short form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
SHORTER = {
    "400_000": "3_000",
    "2_000": "100",
    "60_000": "1_500",
    "5_000": "100",
    '"2MB"': '"60KB"',
    "epochs=8": "epochs=1",
    "epochs=6": "epochs=1",
    "epochs=3": "epochs=1",
    '["90%", "99%"]': '["90%"]',
}


def cells(path: Path) -> list[dict[str, Any]]:
    content = json.loads(path.read_text(encoding="utf-8"))
    assert (content["nbformat"], content["nbformat_minor"]) == (4, 5)
    return content["cells"]


def test_there_is_a_notebook_for_each_example():
    assert [path.stem for path in NOTEBOOKS] == ["clicks", "sequences", "table", "two_towers"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_holds_no_outputs(path: Path):
    for cell in cells(path):
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_code_of_a_notebook_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in cells(path):
        if cell["cell_type"] == "code":
            code = "".join(cell["source"])
            for long, short in SHORTER.items():
                code = code.replace(long, short)
            exec(compile(code, path.name, "exec"), names)
    assert capsys.readouterr().out
