from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from small_batches import trained
from test_resume import SCRIPT, weights

from cerp.training.distributed import lost_words


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


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("[gloo/transport/tcp/pair.cc:537] Connection closed by peer [::1]:4242", "signal 9, SIGK"),
        ("[gloo/transport/tcp/unbound_buffer.cc] Timed out waiting 1800000ms", "0:30:00"),
        ("shape '[3]' is invalid for input of size 4", None),
    ],
)
def test_a_process_that_is_gone_is_told_from_a_bug(said: str, words: str | None):
    found = lost_words(RuntimeError(said))
    assert found is None if words is None else words in str(found)


def together(tmp_path: Path, body: str) -> list[str]:
    """What two processes of one group print, each running ``body`` with its rank in ``r``."""
    script = tmp_path / "body.py"
    script.write_text(
        "import os, sys, numpy as np, torch\nfrom pathlib import Path\n"
        "from cerp.training import distributed\n"
        "with distributed.process_group('cpu'):\n    r = distributed.rank()\n"
        + "".join(f"    {line}\n" for line in body.splitlines())
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    running = [
        subprocess.Popen(
            [sys.executable, str(script)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ
            | {"WORLD_SIZE": "2", "RANK": str(rank), "LOCAL_RANK": str(rank)}
            | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port},
        )
        for rank in range(2)
    ]
    return [one.communicate(timeout=120)[0] for one in running]


@pytest.mark.parametrize("most_shuffled", [1 << 24, 8], ids=["shuffled", "formula"])
def test_two_processes_of_which_one_may_have_no_row_train_as_one(
    tmp_path: Path, most_shuffled: int
):
    said = together(
        tmp_path,
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from small_batches import trained\n"
        f"torch.save(trained({most_shuffled}), Path({str(tmp_path)!r}) / f'{{r}}.pt')",
    )
    assert said == ["", ""]
    alone = trained(most_shuffled)
    for rank in range(2):
        found = torch.load(tmp_path / f"{rank}.pt")
        torch.testing.assert_close(found, alone, atol=1e-5, rtol=1e-4)


def test_two_processes_judge_as_one_and_name_what_is_lost(tmp_path: Path):
    (tmp_path / "0").mkdir()
    said = together(
        tmp_path,
        "from cerp.data.synthetic import synthetic\n"
        "from cerp.evaluation.baselines import Popularity\n"
        "from cerp.evaluation.evaluate import evaluate\n"
        "splits = synthetic(121, 80, 1500).split(seed=0)\n"
        "alone = evaluate(Popularity(splits.train), splits)\n"
        "shared = distributed.all_judge(torch.device('cpu'))\n"
        "both = evaluate(Popularity(splits.train), splits, sharing=shared)\n"
        "print('part', len(shared.part(alone.users)), 'equal', alone.summary() == both.summary())\n"
        "try:\n"
        "    distributed.refuse_separate_folders(Path('run'), has_run=r == 0)\n"
        "except Exception as error:\n"
        "    print(error)\n"
        "if r == 1:\n"
        "    os.kill(os.getpid(), 9)\n"
        "torch.distributed.barrier()\n",
    )
    for rank, (text, share) in enumerate(zip(said, (61, 60), strict=True)):
        assert f"part {share} equal True" in text
        assert "1 of 2 processes find a run in run, and the others find none" in text
        assert ("another process of this training is gone" in text) == (rank == 0)
