from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from test_resume import SCRIPT, weights


def start(folder: Path, processes: int) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    subprocess.run(
        [*command, f"--nproc-per-node={processes}", SCRIPT, folder], check=True, timeout=180
    )


@pytest.mark.slow
def test_two_processes_with_half_the_batch_each_end_where_one_ends(tmp_path: Path):
    start(tmp_path / "one", 1)
    start(tmp_path / "two", 2)
    alone, together = weights(tmp_path / "one"), weights(tmp_path / "two")
    assert alone.keys() == together.keys() != set()
    for name, tensors in alone.items():
        for key, tensor in tensors.items():
            torch.testing.assert_close(together[name][key], tensor, atol=1e-4, rtol=1e-3)
