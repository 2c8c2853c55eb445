"""Every notebook runs: its code cells, one after the other, in short form, in a folder of its own.

A notebook asks the environment for ``CERP_SHORT`` and then makes everything small. It needs nothing
of Jupyter: what is in its code cells is plain Python.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def code_of(path: Path) -> str:
    """The code cells as one script."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_in_short_form(path: Path, tmp_path: Path):
    (tmp_path / "cells.py").write_text(code_of(path), encoding="utf-8")
    environment = {**os.environ, "CERP_SHORT": "1", "PYTHONPATH": str(ROOT)}  # for examples/
    done = subprocess.run(
        [sys.executable, "cells.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert done.stdout


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_says_how_it_is_made_short_and_names_no_machine(path: Path):
    text = path.read_text(encoding="utf-8")
    assert "CERP_SHORT" in code_of(path)
    assert not any(place in text for place in ("/tmp", "/home", "/root", "/work"))


def test_there_is_a_notebook_for_each_job_and_example():
    found = [path.stem for path in NOTEBOOKS]
    assert found == ["clicks", "every_night", "first_model", "sequences", "table", "two_towers"]
