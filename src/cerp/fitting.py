"""`fit`: from splits to trained models under their budgets.

order ids -> prune once for all budgets -> train what is left of each -> select
on validation -> read the test part once. With a folder, every finished stage
leaves its file there, so an interrupted run goes on with the stage it was in.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from cerp import backbones
from cerp._version import __version__
from cerp.budget import Budget, bucket_count
from cerp.checkpoint import read_checkpoint, write_checkpoint, write_json, write_text
from cerp.config import Config, Rewind, RunOptions, differences
from cerp.data.ids import Id, Int32Array
from cerp.data.ordering import order
from cerp.data.splits import PARTS, Part, Splits
from cerp.distributed import rank
from cerp.embeddings.base import Embedding
from cerp.embeddings.cerp import CompositionalEmbedding
from cerp.embeddings.full import FullEmbedding
from cerp.errors import ConfigError, DataError
from cerp.evaluation import Metrics, entries_of, evaluate
from cerp.leak import id_leak
from cerp.presets import preset
from cerp.ranking import exclude, top_k
from cerp.recommender import Recommender
from cerp.stages import (
    Snapshot,
    StageResult,
    pack_snapshots,
    prune,
    score_memory,
    train,
    unpack_snapshots,
)
from cerp.training import Checkpointing

METHODS = ("cerp", "full")
CHECKPOINT = "checkpoint.safetensors"


@dataclass(eq=False)
class FittedModel:
    """One trained model, with what is known of it."""

    budget: str
    limit: int
    """The largest number of values that the budget allows."""
    recommender: Recommender
    splits: Splits
    """What it was trained on; after a refit, more than what selected it."""
    facts: dict[str, Any]
    """nnz, average dimension, overlap, epochs, seconds: ready for JSON."""
    metrics: dict[str, dict[str, Any]]
    """``metrics["test"]["ndcg@10"]``: valid and test, where they may be looked at."""
    judged: dict[str, Metrics] = field(default_factory=dict, repr=False)
    """The same with per-user values; empty for a model that was read from a run."""

    def recommend(self, user: Id, k: int = 10) -> list[Id]:
        """The k best items for a user that they have not taken, by original ids."""
        code = self.splits.users.encode([user], what="user")
        scores = exclude(
            self.recommender.scorer().score_all(code),
            *entries_of(self.splits.train_and_valid, code),
        )
        items, _ = top_k(scores, k)
        return self.splits.items.decode(items[0][items[0] >= 0])

    def save(self, path: str | Path) -> None:
        """The weights, as safetensors, with `summary` in the header."""
        write_checkpoint(Path(path), self.recommender.state_dict(), self.summary())

    def summary(self) -> dict[str, Any]:
        """Budget, limit, facts and metrics."""
        return {"budget": self.budget, "limit": self.limit, **self.facts, **self.metrics}


def fit(
    splits: Splits,
    budget: str | int = "99%",
    *,
    backbone: str = "lightgcn",
    method: str = "cerp",
    seed: int = 0,
    device: str = "cpu",
    output: str | Path | None = None,
    config: Config | None = None,
) -> FittedModel:
    """Order ids, prune, retrain, select on validation, and read the test part once.

    ``config`` gives everything that the other arguments leave open; without it, the default
    preset does. With ``output``, a folder, the run can be resumed by the same call.
    """
    chosen = replace(
        config or preset("default", backbone, method),
        budgets=(str(budget),),
        backbone=backbone,
        method=method,
        seed=seed,
    )
    folder = None if output is None else Path(output)
    options = RunOptions(device=device, folder=folder, resume=True)
    return fit_all(splits, chosen, options)[0]


def fit_all(splits: Splits, config: Config, options: RunOptions) -> list[FittedModel]:
    """One model per budget of the configuration, in the order given."""
    return _Run(splits, config, options).models()


def load_run(folder: str | Path, splits: Splits, *, device: str = "cpu") -> list[FittedModel]:
    """The models of a finished run, which must have been trained on these splits."""
    path = Path(folder)
    if not (path / "metrics.json").is_file():
        raise DataError(
            f"{path} holds no finished run (no metrics.json); "
            "if it was interrupted, go on with 'cerp train ... --resume'"
        )
    config = Config.from_dict(json.loads((path / "config.json").read_text())["config"])
    return fit_all(splits, config, RunOptions(device=device, folder=path, resume=True))


class _Run:
    """What the stages of one run share."""

    def __init__(self, splits: Splits, config: Config, options: RunOptions) -> None:
        if config.method not in METHODS:
            raise ConfigError(
                f"unknown method {config.method!r}; choose one of {', '.join(METHODS)}"
            )
        self.splits, self.config, self.options = splits, config, options
        self.device = torch.device(options.device)
        self.budgets = ("full",) if config.method == "full" else config.budgets
        self.limits = [self._limit(budget) for budget in self.budgets]
        self.folder = options.folder
        if self.folder:
            _enter(self.folder, config, splits, resume=options.resume)

    def models(self) -> list[FittedModel]:
        positions, snapshots = self._pruned() if self.config.method == "cerp" else (None, {})
        models = [
            self._model(budget, limit, positions, snapshots.get(limit))
            for budget, limit in zip(self.budgets, self.limits, strict=True)
        ]
        if self.folder and rank() == 0:
            write_json(self.folder / "metrics.json", self._result(models))
            (self.folder / CHECKPOINT).unlink(missing_ok=True)
        return models

    def _result(self, models: list[FittedModel]) -> dict[str, Any]:
        # Native order may read the test set off the ids: its results say how much.
        leak = id_leak(self.splits).summary() if self.config.ordering == "native" else None
        return {
            "config": self.config.to_dict(),
            "fingerprint": self.splits.fingerprint,
            "version": __version__,
            "device": _device_name(self.device),
            "id_leak": leak,
            "models": [model.summary() for model in models],
        }

    def _limit(self, budget: str) -> int:
        count, dim = self.splits.num_entities, self.config.dim
        if self.config.method == "full":
            return count * dim
        return Budget.parse(budget).limit(count, dim)

    def _pruned(self) -> tuple[Int32Array, dict[int, Snapshot]]:
        """Positions and snapshots, from the pruning stage or from the file that it left."""
        path = self.folder / "pruned.safetensors" if self.folder else None
        if path and path.exists():
            tensors, facts = read_checkpoint(path)
            return tensors["positions"].numpy(), unpack_snapshots(tensors, facts)
        positions = order(self.splits.train, self.config.ordering, seed=self.config.seed)
        snapshots, history = prune(
            self._recommender(self._embedding(positions), self.splits),
            self.splits,
            self.config.prune,
            self.limits,
            seed=self.config.seed,
            options=self.options,
            checkpointing=self._checkpointing("prune"),
        )
        if path and rank() == 0:
            self._add_curves("prune", history)
            tensors, facts = pack_snapshots(snapshots)
            write_checkpoint(path, tensors | {"positions": torch.from_numpy(positions)}, facts)
        return positions, snapshots

    def _model(
        self, budget: str, limit: int, positions: Int32Array | None, snapshot: Snapshot | None
    ) -> FittedModel:
        path = self.folder / f"model-{limit}.safetensors" if self.folder else None
        if path and path.exists():
            return self._read_model(path, budget, limit, positions)
        started = time.monotonic()
        recommender, result = self._train(f"train {budget}", positions, snapshot, self.splits)
        splits = self.splits
        parts: list[Part] = ["valid", "test"]
        if self.config.refit:
            splits = self.splits.refit(self.config.refit)
            parts = ["test"] if len(splits.test) else []
            recommender, _ = self._train(
                f"refit {budget}", positions, snapshot, splits, epochs=result.best_epoch
            )
        scorer = recommender.scorer()
        judged: dict[str, Metrics] = {
            part: evaluate(scorer, splits, on=part, memory=score_memory(self.device))
            for part in parts
        }
        facts = {
            "nnz": recommender.embedding.nnz,
            **_shape_facts(recommender.embedding),
            "best_epoch": result.best_epoch,
            "best_valid_ndcg@10": result.best_score,
            "seconds": round(time.monotonic() - started, 2),
            "pruning": snapshot.facts if snapshot else None,
        }
        metrics: dict[str, dict[str, Any]] = {
            part: found.summary() for part, found in judged.items()
        }
        model = FittedModel(budget, limit, recommender, splits, facts, metrics, judged)
        if path and rank() == 0:
            model.save(path)
        return model

    def _read_model(
        self, path: Path, budget: str, limit: int, positions: Int32Array | None
    ) -> FittedModel:
        """A model that an earlier call has finished."""
        refit = self.config.refit
        splits = self.splits.refit(refit) if refit else self.splits
        recommender = self._recommender(self._embedding(positions), splits)
        tensors, summary = read_checkpoint(path)
        recommender.load_state_dict(tensors)
        recommender.eval()
        metrics: dict[str, dict[str, Any]] = {
            part: summary.pop(part) for part in PARTS if part in summary
        }
        facts = {name: value for name, value in summary.items() if name not in ("budget", "limit")}
        return FittedModel(budget, limit, recommender, splits, facts, metrics)

    def _train(
        self,
        stage: str,
        positions: Int32Array | None,
        snapshot: Snapshot | None,
        splits: Splits,
        epochs: int | None = None,
    ) -> tuple[Recommender, StageResult]:
        embedding = self._embedding(positions)
        if snapshot is not None:
            _put_on(embedding, snapshot, self.config.rewind)
        recommender = self._recommender(embedding, splits)
        result = train(
            recommender,
            splits,
            self.config.train,
            seed=self.config.seed + 1,
            label=stage,
            options=self.options,
            epochs=epochs,
            checkpointing=self._checkpointing(stage),
        )
        if self.folder and rank() == 0:
            self._add_curves(stage, result.history)
        return recommender, result

    def _embedding(self, positions: Int32Array | None) -> Embedding:
        """The embedding before any training: the same one whenever it is asked for."""
        config, count = self.config, self.splits.num_entities
        generator = torch.Generator().manual_seed(config.seed)
        if config.method == "full":
            return FullEmbedding(count, config.dim, generator=generator)
        # One pruning run serves all budgets; the loosest one needs the most room.
        buckets = config.buckets or bucket_count(max(self.limits), count, config.dim)
        return CompositionalEmbedding(
            count,
            config.dim,
            buckets=buckets,
            hash_name=config.hash,
            positions=positions,
            generator=generator,
        )

    def _recommender(self, embedding: Embedding, splits: Splits) -> Recommender:
        backbone = backbones.create(
            self.config.backbone,
            splits.train,
            embedding_dim=self.config.dim,
            generator=torch.Generator().manual_seed(self.config.seed + 1),
            **self.config.backbone_options,
        )
        return Recommender(embedding, backbone).to(self.device)

    def _checkpointing(self, stage: str) -> Checkpointing | None:
        if self.folder is None:
            return None
        return Checkpointing(self.folder / CHECKPOINT, stage, self.options.checkpoint_seconds)

    def _add_curves(self, stage: str, history: Iterable[dict[str, float]]) -> None:
        assert self.folder is not None
        path = self.folder / "curves.jsonl"
        kept = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        kept = [line for line in kept if json.loads(line)["stage"] != stage]
        rows = [json.dumps({"stage": stage, **row}) for row in history]
        write_text(path, "\n".join([*kept, *rows]) + "\n")


def _enter(folder: Path, config: Config, splits: Splits, *, resume: bool) -> None:
    """Start a run in a folder, or go on with the one that is there, if it is the same."""
    mine = {"config": config.to_dict(), "fingerprint": splits.fingerprint}
    path = folder / "config.json"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        if rank() == 0:
            write_json(path, mine)
        return
    if found := differences(mine, json.loads(path.read_text(encoding="utf-8"))):
        raise ConfigError(
            f"{folder} holds another run; it differs in {'; '.join(found)} "
            "(asked for against there). Choose another folder, or remove it"
        )
    if not resume:
        raise ConfigError(f"{folder} holds this run already; pass --resume to go on with it")


def _put_on(embedding: Embedding, snapshot: Snapshot, rewind: Rewind) -> None:
    """Leave of a fresh embedding what survived pruning, at its first or at its pruned values."""
    assert isinstance(embedding, CompositionalEmbedding)
    embedding.mask = snapshot.mask.cpu()
    first = embedding.weight.detach().clone()
    embedding.rewind(first if rewind == "initial" else snapshot.weight)


def _shape_facts(embedding: Embedding) -> dict[str, Any]:
    if not isinstance(embedding, CompositionalEmbedding):
        return {"avg_dim": float(embedding.embedding_dim), "overlap": None}
    found = embedding.diagnostics()
    return {
        "avg_dim": found.average_dimension,
        "overlap": found.overlap,
        "buckets": embedding.hash.buckets,
        "empty_entities": found.empty_entities,
        "empty_rows": found.empty_rows,
    }


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
