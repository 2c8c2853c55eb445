"""Work that is killed, or whose disk fails, at one of its file operations: done again, it ends
with the same bytes as work that nobody disturbed.

Each case is a child process: it copies this one, which has loaded everything, and does its work
until the fault strikes. Then another child does the same work again in the same folder.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from safetensors.numpy import load_file

from campaigns.faults import FAULTS, Fault, arm
from campaigns.harness import Campaign
from cerp.config import Config, PruneConfig, RunOptions, TrainConfig
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic
from cerp.errors import CerpError

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
        campaign.figures["operations"] = {task.name: task.operations for task in tasks}
        for number in campaign.rounds():
            task = tasks[number % len(tasks)]
            fault: Fault = "kill" if rng.random() < 0.6 else rng.choice(FAULTS)
            at = rng.randint(1, task.operations)
            problem = task.disturbed(at, fault)
            counts[task.name] += 1
            campaign.check(problem is None, f"{task.name}, {fault} at operation {at}: {problem}")
        campaign.figures["cases"] = counts


class _Prepared:
    """A task, how many operations it takes, and what it ends with."""

    def __init__(self, task: Task, folder: Path) -> None:
        self.task, self.name, self.folder = task, task.name, folder / task.name
        whole = self._fresh()
        self.operations = self._count(whole)
        self.ends_with = _contents(whole, task.kept)
        assert self.operations, f"{self.name} writes nothing"
        assert self.ends_with, f"{self.name} leaves nothing behind"

    def disturbed(self, at: int, fault: Fault) -> str | None:
        """What is wrong after a fault and a second try; None: nothing."""
        folder = self._fresh()
        status = _in_child(lambda: self._armed(folder, at, fault))
        if status == BROKEN:
            return f"a raw error: {_said(folder)}"
        status = _in_child(lambda: self._armed(folder, None, fault))
        if status != ENDED:
            return f"the second try ended with {status}: {_said(folder)}"
        found = _contents(folder, self.task.kept)
        different = {name for name in self.ends_with if found.get(name) != self.ends_with[name]}
        return f"{', '.join(sorted(different))} came out different" if different else None

    def _armed(self, folder: Path, at: int | None, fault: Fault) -> None:
        arm(folder, at, fault)
        _work(self.task, folder)

    def _count(self, folder: Path) -> int:
        def counted() -> None:
            counter = arm(folder)
            _work(self.task, folder)
            (folder.parent / "count").write_text(str(counter.count), encoding="utf-8")

        status = _in_child(counted)
        assert status == ENDED, f"{self.name} fails by itself: {_said(folder)}"
        return int((folder.parent / "count").read_text(encoding="utf-8"))

    def _fresh(self) -> Path:
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / OUTPUT).mkdir(parents=True)
        return self.folder / OUTPUT


def _work(task: Task, folder: Path) -> None:
    """End the process by how the work ended; what went wrong is said beside the folder."""
    try:
        task.work(folder)
    except CerpError as error:
        (folder.parent / "said").write_text(str(error), encoding="utf-8")
        os._exit(REFUSED)
    except Exception:
        (folder.parent / "said").write_text(traceback.format_exc()[-600:], encoding="utf-8")
        os._exit(BROKEN)


def _said(folder: Path) -> str:
    said = folder.parent / "said"
    return said.read_text(encoding="utf-8") if said.exists() else "nothing was said"


def _in_child(work: Callable[[], None]) -> int:
    """How a copy of this process ends that does something: its code, or minus a signal."""
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
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _contents(folder: Path, kept: tuple[str, ...]) -> dict[str, str]:
    """Digests of the files that matter."""
    return {
        str(path.relative_to(folder)): _digest(path)
        for pattern in kept
        for path in folder.glob(pattern)
    }


def _digest(path: Path) -> str:
    """Of all bytes; of the tensors of a product, whose header also says how long they took."""
    if path.suffix != ".safetensors":
        return sha256(path.read_bytes()).hexdigest()
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
        cerp.compare(
            splits, ["popularity"], output=out / "comparison", budgets="80%", backbones="mf",
            dim=4, epochs=1, prune_epochs=1, device="cpu", verbose=False,
        )  # fmt: skip

    def tuned(out: Path) -> None:
        # Whoever was killed is dead at once: nobody else is at work here.
        tuning_search.ALIVE_EVERY_SECONDS, tuning_search.DEAD_AFTER_SECONDS = 0.1, 0.5
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
        Task("train-filter", trained(Config(method="filter")), products),
        Task("export", exported, ("model.cerp",)),
        Task("split", lambda out: _saved(splits, out / "split"), ("split/*",)),
        Task("compare", compared, ("comparison/results.jsonl",)),
        Task("tune", tuned, ("tuned/best.json",)),
    ]


def _saved(splits: Splits, folder: Path) -> None:
    """Save a split; one that is there already is whole, and stays."""
    if not folder.exists():
        splits.save(folder)
