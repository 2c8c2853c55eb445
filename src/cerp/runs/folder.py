"""A run's folder: one file for each product, a lock, and nothing that is computed.

plan.json, order.safetensors    `Plan`
coded.safetensors               `Coded`, where rows are learned
searched.safetensors            `Searched`
trained-<budget>.safetensors    `Trained`
judged-<budget>.json            `Judged`; of popularity too, where it was asked for
model-<budget>.cerp, shipped-<budget>.json    `Shipped`; 99% is 99pct in names
metrics.json                    all figures of the finished run, for eyes and programs
split/                          what it was trained on, see `cerp.runs.kept_split`
curves.jsonl                    a row for every epoch of every stage
checkpoint.safetensors          the stage in progress
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch

from cerp.artifact import Encoding
from cerp.config import Config, differences
from cerp.data.splits import Splits
from cerp.errors import CheckpointError, ConfigError, DataError
from cerp.export.size_limit import SizeLimit
from cerp.files import errors_named, make_folder, remove, write_bytes, write_json, write_text
from cerp.locks import claimed
from cerp.methods import METHODS
from cerp.methods.base import CHECKPOINT
from cerp.naming import budget_file, model_file
from cerp.runs.kept_split import SPLIT, what_changed
from cerp.runs.products import Coded, Judged, Plan, Searched, Shipped, Trained
from cerp.runs.sealed import read_json, read_sealed, write_sealed
from cerp.sizing.precision_plan import Candidate
from cerp.training.checkpoint import read_checkpoint, write_checkpoint
from cerp.training.distributed import rank, world_size
from cerp.training.search_result import pack, unpack

FORMAT = 3
"""Of run folders. The first ones had no number, the second no checksums."""
PLAN, SEARCHED = "plan.json", "searched.safetensors"
ORDER, CODED = "order.safetensors", "coded.safetensors"
RESULT, CURVES = "metrics.json", "curves.jsonl"
WRITTEN = ("*.safetensors", "*.json", CURVES, "model-*.cerp")
"""Names of all that a run writes, as in a shell."""
FIRST_PLAN = "config.json"
"""What the first cerp wrote in place of a plan."""

_Product = TypeVar("_Product")


@dataclass(frozen=True)
class RunFolder:
    """Where a run keeps its products; the first of several processes writes, all may read."""

    path: Path

    # Plan

    def plan(self) -> Plan | None:
        """What the run in this folder is doing; None where there is no run."""
        if (self.path / FIRST_PLAN).exists() and not (self.path / PLAN).exists():
            raise DataError(
                f"{self.path} holds a run of an earlier cerp, whose folders are not read any "
                "more; its model files (.cerp) still load. Train again into another folder"
            )
        if not (self.path / PLAN).exists():
            return None
        values = read_json(self.path / PLAN)
        if values.get("format") != FORMAT:
            raise DataError(
                f"{self.path} holds a run in the format {values.get('format')!r}, and this cerp "
                f"reads {FORMAT}; use the cerp that trained it, or train again into another folder"
            )
        return self._read(PLAN, lambda: self._plan(read_sealed(self.path / PLAN)))

    def write_plan(self, plan: Plan) -> None:
        """Say which run the folder holds."""
        if rank() > 0:
            return
        make_folder(self.path)
        if plan.positions is not None:
            order = {"positions": torch.from_numpy(plan.positions)}
            write_checkpoint(self.path / ORDER, order, {})
        write_sealed(
            self.path / PLAN,
            {
                "format": FORMAT,
                **described(plan.config, plan.fingerprint),
                "is_ordered": plan.positions is not None,
                "candidates": {
                    budget: [asdict(one) for one in entries]
                    for budget, entries in plan.candidates.items()
                },
            },
        )

    def _plan(self, values: dict[str, Any]) -> Plan:
        positions = None
        if not isinstance(values["fingerprint"], str):
            raise TypeError(f"fingerprint is {values['fingerprint']!r}")
        if values["is_ordered"]:
            positions = read_checkpoint(self.path / ORDER)[0]["positions"].numpy()
        return Plan(
            Config.from_dict(values["config"]),
            values["fingerprint"],
            {
                budget: tuple(map(_candidate, entries))
                for budget, entries in values["candidates"].items()
            },
            positions,
        )

    # Coded

    def coded(self) -> Coded | None:
        """The learned rows of entities, once they are known."""
        path = self.path / CODED
        if not path.exists():
            return None

        def read() -> Coded:
            tensors, facts = read_checkpoint(path)
            arrays: dict[str, Any] = {name: found.numpy() for name, found in tensors.items()}
            return Coded(**arrays, **facts)

        return self._read(CODED, read)

    def write_coded(self, coded: Coded) -> None:
        """Keep the rows; where none are learned, that is known without a file."""
        if rank() > 0 or coded.codes is None:
            return
        arrays = {"codes": coded.codes, "rows": coded.rows, "teacher": coded.teacher}
        tensors = {
            name: torch.from_numpy(array) for name, array in arrays.items() if array is not None
        }
        facts = {"seconds": coded.seconds, "teacher_score": coded.teacher_score}
        write_checkpoint(self.path / CODED, tensors, facts)

    # Searched

    def searched(self) -> Searched | None:
        """What the search found, once it is done."""
        path = self.path / SEARCHED
        if not path.exists():
            return None
        return self._read(SEARCHED, lambda: Searched(unpack(*read_checkpoint(path))))

    def write_searched(self, searched: Searched) -> None:
        """Keep what was found."""
        if rank() == 0:
            write_checkpoint(self.path / SEARCHED, *pack(searched.found))

    # Trained

    def trained(self, budget: str) -> Trained | None:
        """The weights of a budget's model, once they are there."""
        path = budget_file(self.path, "trained", budget, ".safetensors")
        if not path.exists():
            return None

        def read() -> Trained:
            weights, facts = read_checkpoint(path)
            return Trained(_candidate(facts.pop("candidate")), weights, **facts)

        return self._read(path.name, read)

    def write_trained(self, budget: str, trained: Trained) -> None:
        """Keep the weights, and drop what led to them."""
        if rank() > 0:
            return
        facts = {
            "candidate": asdict(trained.candidate),
            "best_epoch": trained.best_epoch,
            "best_valid": trained.best_valid,
            "seconds": trained.seconds,
            "counts": trained.counts,
            "mixture": trained.mixture,
        }
        write_checkpoint(
            budget_file(self.path, "trained", budget, ".safetensors"), trained.weights, facts
        )

    # Judged

    def judged(self, budget: str) -> Judged | None:
        """The figures of a budget's model, once they are there."""
        path = budget_file(self.path, "judged", budget, ".json")
        if not path.exists():
            return None
        return self._read(path.name, lambda: Judged(**read_sealed(path)))

    def write_judged(self, budget: str, judged: Judged) -> None:
        """Keep the means."""
        if rank() == 0:
            values = {"metrics": judged.metrics, "seconds": judged.seconds}
            write_sealed(budget_file(self.path, "judged", budget, ".json"), values)

    # Shipped

    def shipped(self, budget: str) -> Shipped | None:
        """What the file of a budget's model takes, once it is written."""
        path = budget_file(self.path, "shipped", budget, ".json")
        return (
            self._read(path.name, lambda: Shipped(**read_sealed(path))) if path.exists() else None
        )

    def write_shipped(self, budget: str, shipped: Shipped, file: bytes | None) -> None:
        """Write the model file, and what it takes."""
        if rank() > 0:
            return
        if file is not None:
            write_bytes(model_file(self.path, budget), file)
        write_sealed(budget_file(self.path, "shipped", budget, ".json"), asdict(shipped))

    # A training that is finished while its model is not

    def stage(self, name: str) -> Path:
        """What a finished training leaves until its model is whole, so that it is not repeated."""
        return self.path / f".{name}.safetensors"

    def drop_stages(self, names: Iterable[str]) -> None:
        """Remove what finished trainings left."""
        if rank() == 0:
            for name in names:
                remove(self.stage(name))

    # The whole run

    @property
    def is_finished(self) -> bool:
        """Whether all is there."""
        return (self.path / RESULT).is_file()

    def finish(self, result: dict[str, Any]) -> None:
        """All is there: drop what was kept until then, and write the figures: it is finished."""
        if rank() == 0:
            # A process that was killed may have left stages of models that are whole.
            with errors_named(self.path):
                left = [self.path / CHECKPOINT, *self.path.glob(".*.safetensors")]
            for path in left:
                remove(path)
            write_json(self.path / RESULT, result)

    def missing(self, plan: Plan) -> list[str]:
        """What a finished run has in its folder and this one has not."""
        files = [self.path / SEARCHED]
        files += [self.path / CODED] if plan.config.assignment == "learned" else []
        for budget in plan.candidates:
            if METHODS[plan.config.method].has_vectors:
                files.append(budget_file(self.path, "trained", budget, ".safetensors"))
            files += [
                budget_file(self.path, kind, budget, ".json") for kind in ("judged", "shipped")
            ]
        return [file.name for file in files if not file.exists()]

    def add_curves(self, stage: str, history: Iterable[dict[str, float]]) -> None:
        """Put the curves of a stage, a row per epoch, in place of older ones."""
        if rank() > 0:
            return
        path = self.path / CURVES
        kept = self._read(CURVES, lambda: _other_stages(path, stage)) if path.exists() else []
        rows = [json.dumps({"stage": stage, **row}) for row in history]
        if lines := [*kept, *rows]:
            write_text(path, "\n".join(lines) + "\n")

    def clear(self) -> None:
        """Remove the run that is here, and nothing else that may lie in the folder."""
        if world_size() > 1:
            raise ConfigError(
                f"several processes cannot overwrite a run together; remove {self.path} first"
            )
        for pattern in (*WRITTEN, ".*.safetensors"):
            for path in self.path.glob(pattern):
                remove(path)
        for folder in (SPLIT, "teacher"):
            shutil.rmtree(self.path / folder, ignore_errors=True)

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Work in the folder, which only one process may do at a time.

        The lock goes when the process does, however it ends.
        """
        if rank() > 0:
            yield
            return
        with claimed(self.path, WRITTEN):
            yield

    def _read(self, name: str, read: Callable[[], _Product]) -> _Product:
        """A product from its file; an error that names the file where it is not one."""
        try:
            return read()
        except (CheckpointError, DataError):
            raise
        except (
            *(ConfigError, LookupError, TypeError, ValueError, AttributeError),
            *(ArithmeticError, RuntimeError, OSError),
        ) as error:
            raise DataError(
                f"{self.path / name} is not what a run writes ({type(error).__name__}: {error}); "
                "was it changed? Put it back, or train again into another folder"
            ) from None


def described(config: Config, fingerprint: str) -> dict[str, Any]:
    """What tells one run from another."""
    return {"config": config.to_dict(), "fingerprint": fingerprint}


def refuse_other(folder: Path, there: Plan, config: Config, splits: Splits) -> None:
    """Refuse to go on with a plan that is another run's."""
    unlike = []
    if settings := differences(config.to_dict(), there.config.to_dict(), "config."):
        unlike.append(f"it differs in {'; '.join(settings)} (asked for against there)")
    if there.fingerprint != splits.learning_fingerprint:
        unlike.append(f"the data has changed: {what_changed(folder, splits)}")
    if unlike:
        raise ConfigError(
            f"{folder} holds another run; {'; '.join(unlike)}. Choose another folder, or give "
            "overwrite=True to replace it"
        )


def _other_stages(path: Path, stage: str) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if json.loads(line)["stage"] != stage]


def _candidate(values: dict[str, Any]) -> Candidate:
    encoding, size = Encoding(**values["encoding"]), SizeLimit(**values["size"])
    return Candidate(int(values["limit"]), encoding, size)
