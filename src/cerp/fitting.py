"""`fit`: from splits to trained models under their budgets.

order ids -> prune once for all budgets -> train what is left of each -> judge
on validation -> read the test part once. With a folder, every finished stage
leaves its file there, so an interrupted run goes on with the stage it was in.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from cerp import __version__, backbones
from cerp.budget import Budget, bucket_count
from cerp.checkpoint import read_checkpoint, write_checkpoint
from cerp.config import Config, RunOptions, differences
from cerp.data.interactions import Id, Int32Array
from cerp.data.ordering import order
from cerp.data.splits import Splits
from cerp.embeddings.base import Embedding
from cerp.embeddings.cerp import CompositionalEmbedding
from cerp.embeddings.full import FullEmbedding
from cerp.errors import ConfigError
from cerp.evaluation import Metrics, entries_of, evaluate
from cerp.leak import id_leak
from cerp.ranking import exclude, top_k
from cerp.recommender import Recommender
from cerp.stages import Snapshot, prune, score_memory, train
from cerp.training import Checkpointing

METHODS = ("cerp", "full")


@dataclass(eq=False)
class FittedModel:
    """One trained model, with what is known of it."""

    budget: str
    limit: int
    """The largest number of values that the budget allows."""
    recommender: Recommender
    splits: Splits
    facts: dict[str, Any]
    """nnz, average dimension, overlap, epochs, seconds: ready for JSON."""
    metrics: dict[str, dict[str, Any]]
    """``metrics["test"]["ndcg@10"]``; valid and test."""
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
        """The weights, as safetensors, with the facts in the header."""
        write_checkpoint(Path(path), self.recommender.state_dict(), self.summary())

    def summary(self) -> dict[str, Any]:
        """Budget, limit, facts and metrics."""
        return {"budget": self.budget, "limit": self.limit, **self.facts, **self.metrics}


def fit(splits: Splits, config: Config, options: RunOptions | None = None) -> list[FittedModel]:
    """One model per budget, in the order in which the budgets are given."""
    return _Run(splits, config, options or RunOptions()).models()


class _Run:
    """What the stages of one call of `fit` share."""

    def __init__(self, splits: Splits, config: Config, options: RunOptions) -> None:
        if config.method not in METHODS:
            raise ConfigError(
                f"unknown method {config.method!r}; choose one of {', '.join(METHODS)}"
            )
        self.splits, self.config, self.options = splits, config, options
        self.device = torch.device(options.device)
        full = splits.num_entities * config.dim
        self.limits = [
            full
            if config.method == "full"
            else Budget.parse(budget).limit(splits.num_entities, config.dim)
            for budget in config.budgets
        ]
        self.folder = options.folder
        if self.folder:
            self._enter(self.folder)

    def models(self) -> list[FittedModel]:
        snapshots = self._snapshots() if self.config.method == "cerp" else {}
        models = [
            self._model(budget, limit, snapshots.get(limit))
            for budget, limit in zip(self.config.budgets, self.limits, strict=True)
        ]
        if self.folder:
            (self.folder / "checkpoint.safetensors").unlink(missing_ok=True)
            result = {
                "config": self.config.to_dict(),
                "fingerprint": self.splits.fingerprint,
                "version": __version__,
                "device": _device_name(self.device),
                "id_leak": self._leak(),
                "models": [model.summary() for model in models],
            }
            _write_json(self.folder / "metrics.json", result)
        return models

    def _enter(self, folder: Path) -> None:
        """Start a run in a folder, or go on with the one that is there, if it is the same."""
        folder.mkdir(parents=True, exist_ok=True)
        mine = {"config": self.config.to_dict(), "fingerprint": self.splits.fingerprint}
        path = folder / "config.json"
        if path.exists():
            theirs = json.loads(path.read_text(encoding="utf-8"))
            if found := differences(mine, theirs):
                raise ConfigError(
                    f"{folder} holds another run; it differs in {'; '.join(found)} "
                    "(asked for against there). Choose another folder, or remove it"
                )
        else:
            _write_json(path, mine)

    def _positions(self) -> Int32Array:
        return order(self.splits.train, self.config.ordering, seed=self.config.seed)

    def _leak(self) -> dict[str, Any] | None:
        """Native order may read the test set off the ids: its results say how much."""
        return id_leak(self.splits).summary() if self.config.ordering == "native" else None

    def _embedding(self, positions: Int32Array | None) -> Embedding:
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
            hash_name=config.hash,  # type: ignore[arg-type]
            positions=positions,
            generator=generator,
        )

    def _recommender(self, embedding: Embedding) -> Recommender:
        backbone = backbones.create(
            self.config.backbone,
            self.splits.train,
            embedding_dim=self.config.dim,
            generator=torch.Generator().manual_seed(self.config.seed + 1),
            **self.config.backbone_options,
        )
        return Recommender(embedding, backbone).to(self.device)

    def _checkpointing(self, stage: str) -> Checkpointing | None:
        if self.folder is None:
            return None
        path = self.folder / "checkpoint.safetensors"
        return Checkpointing(path, stage, self.options.checkpoint_seconds)

    def _snapshots(self) -> dict[int, Snapshot]:
        """From the pruning stage, or from the file that it left."""
        path = self.folder / "pruned.safetensors" if self.folder else None
        if path and path.exists():
            tensors, facts = read_checkpoint(path)
            self.positions = tensors["positions"].numpy()
            return {
                int(limit): Snapshot(tensors[f"{limit}.weight"], tensors[f"{limit}.mask"], its)
                for limit, its in facts.items()
            }
        self.positions = self._positions()
        model = self._recommender(self._embedding(self.positions))
        snapshots, history = prune(
            model,
            self.splits,
            self.config.prune,
            self.limits,
            seed=self.config.seed,
            options=self.options,
            checkpointing=self._checkpointing("prune"),
        )
        if path:
            tensors = {"positions": torch.from_numpy(self.positions)}
            for limit, snapshot in snapshots.items():
                tensors |= {f"{limit}.weight": snapshot.weight, f"{limit}.mask": snapshot.mask}
            facts = {str(limit): snapshot.facts for limit, snapshot in snapshots.items()}
            self._add_curves("prune", history)
            write_checkpoint(path, tensors, facts)
        return snapshots

    def _model(self, budget: str, limit: int, snapshot: Snapshot | None) -> FittedModel:
        stage = f"train {budget}"
        path = self.folder / f"model-{limit}.safetensors" if self.folder else None
        recommender = self._recommender(self._start(snapshot))
        if path and path.exists():
            tensors, facts = read_checkpoint(path)
            recommender.load_state_dict(tensors)
            recommender.eval()
            metrics = {part: facts.pop(part) for part in ("valid", "test")}
            facts.pop("budget"), facts.pop("limit")
            return FittedModel(budget, limit, recommender, self.splits, facts, metrics)
        started = time.monotonic()
        result = train(
            recommender,
            self.splits,
            self.config.train,
            seed=self.config.seed + 1,
            label=stage,
            options=self.options,
            checkpointing=self._checkpointing(stage),
        )
        judged = {
            part: evaluate(
                recommender.scorer(), self.splits, on=part, memory=score_memory(self.device)
            )
            for part in ("valid", "test")
        }
        facts = {
            "nnz": recommender.embedding.nnz,
            "best_epoch": result.best_epoch,
            "epochs": len(result.history),
            "seconds": round(time.monotonic() - started, 2),
            **_shape_facts(recommender.embedding),
            "pruning": snapshot.facts if snapshot else None,
        }
        model = FittedModel(
            budget,
            limit,
            recommender,
            self.splits,
            facts,
            {part: metrics.summary() for part, metrics in judged.items()},
            judged,
        )
        if path:
            self._add_curves(stage, result.history)
            model.save(path)
        return model

    def _start(self, snapshot: Snapshot | None) -> Embedding:
        """The embedding that training starts from."""
        if snapshot is None:
            return self._embedding(None)
        embedding = self._embedding(self.positions)
        assert isinstance(embedding, CompositionalEmbedding)
        if self.config.rewind == "pruned":
            embedding.weight.data.copy_(snapshot.weight)
        embedding.mask = snapshot.mask.cpu()
        return embedding

    def _add_curves(self, stage: str, history: Iterable[dict[str, float]]) -> None:
        assert self.folder is not None
        path = self.folder / "curves.jsonl"
        kept = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        kept = [line for line in kept if json.loads(line)["stage"] != stage]
        rows = [json.dumps({"stage": stage, **row}) for row in history]
        _write_text(path, "\n".join([*kept, *rows]) + "\n")


def _shape_facts(embedding: Embedding) -> dict[str, Any]:
    if not isinstance(embedding, CompositionalEmbedding):
        return {"avg_dim": float(embedding.embedding_dim), "overlap": None}
    found = embedding.diagnostics()
    return {
        "avg_dim": found.average_dimension,
        "overlap": found.overlap,
        "buckets": embedding.hash.buckets,
        "empty_entities": found.empty_entities,
    }


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def _write_json(path: Path, value: Any) -> None:
    _write_text(path, json.dumps(value, indent=1) + "\n")


def _write_text(path: Path, text: str) -> None:
    scratch = path.with_name(f".{path.name}.writing")
    scratch.write_text(text, encoding="utf-8")
    scratch.replace(path)
