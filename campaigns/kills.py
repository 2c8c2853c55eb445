"""Work that is killed, or whose disk fails, at one of its file operations: done again, it ends
with the same bytes as work that nobody disturbed.

Each case is a child process: it copies this one, which has loaded everything, and does its work
until the fault strikes. Then another child does the same work again in the same folder.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from unittest.mock import patch

from safetensors.numpy import load_file

from campaigns.faults import FAULTS, Fault, arm, long_files_again
from campaigns.forked_workers import forked_workers, wait_for_workers
from campaigns.harness import Campaign
from cerp.config import Config, PruneConfig, RunOptions, TrainConfig
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic
from cerp.errors import CerpError
from cerp.runs.fitted_model import FittedModel

OUTPUT = "out"
"""The folder of a case in which operations count."""
ENDED, REFUSED, BROKEN = 0, 3, 4
"""How a child ends: with its work done, with an error of ours, with another."""
CONFIG = Config(
    backbone="mf",
    budgets=("80%",),
    dim=4,
    ordering="degree",
    prune=PruneConfig(epochs=1),
    train=TrainConfig(epochs=2, evaluate_every=1),
)
OTHER_METHODS = {
    "filter": Config(method="filter"),
    "sharp-filter": Config(method="sharp-filter"),
    "neighbours": Config(method="neighbours", budgets=("100",)),
    "als": Config(method="als", backbone="mf", budgets=("full",), dim=4),
}
COMPARED = ("comparison/results.jsonl", "comparison/jobs/*/*/*.cerp", "comparison/table.*")


@dataclass(frozen=True)
class Task:
    """Something to be disturbed."""

    name: str
    work: Callable[[Path], None]
    """Does it in a folder; done again, it goes on where it was left."""
    kept: tuple[str, ...]
    """Patterns of the files that have to be the same in the end."""


def attack(campaign: Campaign) -> None:
    """Each fault is a case."""
    splits = synthetic(30, 20, 200).split(seed=0)
    with tempfile.TemporaryDirectory() as folder:
        tasks = [_Prepared(task, Path(folder)) for task in _tasks(splits, Path(folder))]
        rng, counts = campaign.rng, dict.fromkeys([task.name for task in tasks], 0)
        faults = dict.fromkeys(FAULTS, 0)
        campaign.figures["operations"] = {task.name: task.operations for task in tasks}
        for number in campaign.rounds():
            task = tasks[number % len(tasks)]
            fault: Fault = "kill" if rng.random() < 0.6 else rng.choice(FAULTS)
            at = rng.randint(1, task.operations)
            problem = task.disturbed(at, fault)
            counts[task.name] += 1
            faults[fault] += 1
            campaign.check(problem is None, f"{task.name}, {fault} at operation {at}: {problem}")
        campaign.figures |= {"cases": counts, "faults": faults}


class _Prepared:
    """A task, how many operations it takes, and what it ends with."""

    def __init__(self, task: Task, folder: Path) -> None:
        self.task, self.name, self.folder = task, task.name, folder / task.name
        # Once in this process: the children have all modules and caches then.
        task.work(self._fresh())
        whole = self._fresh()
        self.operations = self._count(whole)
        self.ends_with = contents(whole, task.kept)
        assert self.operations, f"{self.name} writes nothing"
        assert self.ends_with, f"{self.name} leaves nothing behind"

    def disturbed(self, at: int, fault: Fault) -> str | None:
        """What is wrong after a fault and a second try; None: nothing."""
        folder = self._fresh()
        status = _in_child(lambda: self._armed(folder, at, fault))
        wait_for_workers(folder.parent)
        if status == BROKEN:
            return f"a raw error: {said(folder)}"
        if (raw := folder.parent / "raw").exists():
            return f"a raw error of a worker: {raw.read_text(encoding='utf-8')}"
        status = _in_child(lambda: self._armed(folder, None, fault))
        if status != ENDED:
            return f"the second try ended with {status}: {said(folder)}"
        found = contents(folder, self.task.kept)
        names = found.keys() | self.ends_with.keys()
        different = {name for name in names if found.get(name) != self.ends_with.get(name)}
        return f"{', '.join(sorted(different))} came out different" if different else None

    def _armed(self, folder: Path, at: int | None, fault: Fault) -> None:
        arm(folder, at, fault)
        work_in(folder, self.task.work)

    def _count(self, folder: Path) -> int:
        def counted() -> None:
            counter = arm(folder)
            work_in(folder, self.task.work)
            (folder.parent / "count-0").write_text(str(counter.count), encoding="utf-8")

        status = _in_child(counted)
        assert status == ENDED, f"{self.name} fails by itself: {said(folder)}"
        counts = folder.parent.glob("count-*")
        return max(int(path.read_text(encoding="utf-8")) for path in counts)

    def _fresh(self) -> Path:
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / OUTPUT).mkdir(parents=True)
        return self.folder / OUTPUT


def work_in(folder: Path, work: Callable[[Path], None]) -> None:
    """End the process where the work fails; what went wrong is said beside the folder."""
    try:
        work(folder)
    except CerpError as error:
        long_files_again()
        (folder.parent / "said").write_text(str(error), encoding="utf-8")
        os._exit(REFUSED)
    except Exception:
        long_files_again()
        (folder.parent / "said").write_text(traceback.format_exc()[-600:], encoding="utf-8")
        os._exit(BROKEN)


def said(folder: Path) -> str:
    """What went wrong."""
    said = folder.parent / "said"
    return said.read_text(encoding="utf-8") if said.exists() else "nothing was said"


def _in_child(work: Callable[[], None]) -> int:
    """How a copy of this process ends that does something: its code, or minus a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(fork(work), 0)[1])


def fork(work: Callable[[], None]) -> int:
    """A copy of this process that does something, and then ends."""
    child = os.fork()
    if child == 0:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        try:
            work()
            os._exit(ENDED)
        finally:
            os._exit(BROKEN)
    return child


def contents(folder: Path, kept: tuple[str, ...]) -> dict[str, str]:
    """Digests of the files that matter."""
    return {
        str(path.relative_to(folder)): _digest(path)
        for pattern in kept
        for path in folder.glob(pattern)
    }


def _digest(path: Path) -> str:
    """Of all bytes but those that say how long something took, and the order of result lines."""
    if path.suffix != ".safetensors":
        timeless = re.sub(rb'"seconds": [0-9.]+', b"", path.read_bytes())
        lines = sorted(timeless.splitlines()) if path.suffix == ".jsonl" else [timeless]
        return sha256(b"\n".join(lines)).hexdigest()
    tensors = load_file(path)
    return sha256(
        b"".join(name.encode() + tensors[name].tobytes() for name in sorted(tensors))
    ).hexdigest()


def _tasks(splits: Splits, folder: Path) -> list[Task]:
    import cerp
    from cerp.comparison import tuning_search
    from cerp.runs.fit import fit_all

    def trained(config: Config) -> Callable[[Path], None]:
        def work(out: Path) -> None:
            options = RunOptions(folder=out / "run", resume=True, checkpoint_seconds=0, quiet=True)
            fit_all(splits, config, options)

        return work

    [model] = fit_all(splits, CONFIG, RunOptions(quiet=True))

    def compared(out: Path) -> None:
        with forked_workers(out.parent):
            cerp.compare(
                splits, ["popularity", "ud"], output=out / "comparison", budgets="50%",
                backbones="mf", dim=4, epochs=1, prune_epochs=1, device="cpu", verbose=False,
            )  # fmt: skip

    def tuned(out: Path) -> None:
        # Whoever was killed is dead at once: nobody else is at work here.
        with patch.multiple(
            tuning_search, ALIVE_EVERY_SECONDS=0.05, DEAD_AFTER_SECONDS=0.2, GRACE_SECONDS=3
        ):
            cerp.tune(
                splits, "ud", output=out / "tuned", backbone="mf", budget="50%", trials=2, epochs=1,
                dim=4, device="cpu", verbose=False,
            )  # fmt: skip

    def exported(out: Path) -> None:
        model.save(out / "model.cerp")

    products = ("run/*.cerp", "run/*.safetensors")
    return [
        *(
            Task(f"train-{name}", trained(replace(CONFIG, backbone=name)), products)
            for name in ("mf", "mlp", "lightgcn")
        ),
        *(
            Task(f"train-{name}", trained(config), products)
            for name, config in OTHER_METHODS.items()
        ),
        Task("export", exported, ("model.cerp",)),
        Task("split", lambda out: _saved(splits, out / "split"), ("split/*",)),
        Task("compare", compared, COMPARED),
        Task("tune", tuned, ("tuned/best.json",)),
        *_commands(model, folder),
    ]


def _commands(model: FittedModel, folder: Path) -> list[Task]:
    """What the command line writes from a finished model: lists, and a model that has grown."""
    from cerp.cli import app

    shipped, new = folder / "shipped.cerp", folder / "new.csv"
    model.save(shipped)
    user, items = model.splits.users.values[0], model.splits.items.values[:2]
    new.write_text(f"user,item\n{user},{items[0]}\n{10**6},{items[1]}\n", encoding="utf-8")
    asked = {
        "lists.csv.gz": ["recommend", str(shipped), "--all-users"],
        "lists.parquet": ["recommend", str(shipped), "--all-users"],
        "next.cerp": ["update", str(shipped), str(new), "--epochs", "0"],
    }

    def task(name: str, command: list[str]) -> Task:
        return Task(
            f"{command[0]}-{Path(name).suffix[1:]}",
            lambda out: app([*command, "-o", str(out / name)], standalone_mode=False),
            (name,),
        )

    return [task(name, command) for name, command in asked.items()]


def _saved(splits: Splits, folder: Path) -> None:
    """Save a split; one that is there already is whole, and stays."""
    if not folder.exists():
        splits.save(folder)
