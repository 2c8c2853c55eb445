"""The comparisons of all examples with several seeds, in processes beside each other.

    python -m examples.seeds --seeds 0 1 2 --device cuda --at-once 16 -o results

Each comparison writes a file of its own in a scratch folder; its rows then take the place of those
of the same data, network and seed in ``ctr.json``, ``sequences.json`` and ``two_towers.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from examples.ctr.compare import SAME as CLICKS_SAME
from examples.measured import merge_rows
from examples.sequences.compare import SAME as SEQUENCES_SAME
from examples.two_towers.towers import SAME as TOWERS_SAME


class Job(NamedTuple):
    """One comparison."""

    module: str
    arguments: tuple[str, ...]
    output: str
    """The file of results that its rows go to."""
    same: tuple[str, ...]
    """What its rows have in common."""


CLICKS = "examples.ctr.compare", "ctr.json", CLICKS_SAME
JOBS = [
    *(
        Job(CLICKS[0], (data, network, *more), CLICKS[1], CLICKS[2])
        for data, more in (
            ("frappe", ()),
            ("ml-100k", ("--rates", "0.003")),
            ("criteo-shaped", ("--rates", "0.003", "--rows", "150000")),
        )
        for network in ("deepfm", "dcn-v2")
    ),
    *(
        Job("examples.sequences.compare", (data,), "sequences.json", SEQUENCES_SAME)
        for data in ("video-games", "ml-100k")
    ),
    Job("examples.two_towers.towers", (), "two_towers.json", TOWERS_SAME),
]


def run(job: Job, seed: int, device: str, scratch: Path) -> tuple[Job, Path, str]:
    """One comparison in a process of one thread: what it was, its rows, and what went wrong."""
    words = (job.output.partition(".")[0], *job.arguments[:2], str(seed))
    path = scratch / f"{'-'.join(words)}.json"
    command = [
        *(sys.executable, "-m", job.module, *job.arguments),
        *("--seed", str(seed), "--device", device, "-o", str(path)),
    ]
    alone = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=alone, capture_output=True, text=True, check=False)
    print(f"{path.stem}: {'done' if done.returncode == 0 else done.stderr[-500:]}", flush=True)
    return job, path, "" if done.returncode == 0 else path.stem


def command_of(job: Job, seed: int, device: str) -> str:
    """What makes the same rows by itself."""
    words = (*job.arguments, "--seed", str(seed), "--device", device, "-o", f"results/{job.output}")
    return f"python -m {job.module} {shlex.join(words)}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is asked for, and put the rows together as comparisons end."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", default=None, help="words of jobs, such as frappe")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--at-once", type=int, default=1, help="processes beside each other")
    parser.add_argument("-o", "--output", type=Path, required=True, help="a folder of results")
    given = parser.parse_args(arguments)
    jobs = [
        job for job in JOBS if given.only is None or {*job.arguments, job.output} & {*given.only}
    ]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.at_once) as pool:
        started = [
            pool.submit(run, job, seed, given.device, Path(folder))
            for seed in given.seeds
            for job in jobs
        ]
        failed = []
        for one in started:
            job, path, wrong = one.result()
            if wrong:
                failed.append(wrong)
                continue
            found = json.loads(path.read_text(encoding="utf-8"))["rows"]
            rows = [row | {"command": command_of(job, row["seed"], given.device)} for row in found]
            merge_rows(given.output / job.output, rows, job.same)
    if failed:
        sys.exit(f"these did not end well: {', '.join(failed)}")


if __name__ == "__main__":
    main()
