"""`fit`: from splits to trained models under their budgets.

order ids -> search once for all budgets -> train what each may keep -> select
on validation -> read the test part once. With a folder, every finished stage
leaves its file there, so an interrupted run goes on with the stage it was in.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import torch

from cerp import methods
from cerp._version import __version__
from cerp.artifact import Encoding, ValuesCodec, decode, embedding_bytes, section_bytes
from cerp.budget import Budget, parse_size
from cerp.checkpoint import read_checkpoint, write_bytes, write_checkpoint, write_json
from cerp.config import Config, RunOptions
from cerp.data.ids import Id, Int32Array
from cerp.data.ordering import order
from cerp.data.splits import PARTS, Part, Splits
from cerp.distributed import rank
from cerp.embeddings.base import Embedding
from cerp.embeddings.cerp import CompositionalEmbedding
from cerp.errors import ConfigError, DataError
from cerp.evaluation import CONVENTIONS, Metrics, evaluate
from cerp.leak import id_leak
from cerp.methods import Context, Found
from cerp.methods.base import CHECKPOINT, packed, unpacked
from cerp.presets import preset
from cerp.recommender import Recommender
from cerp.run_folder import add_curves, enter
from cerp.runtime import Recommendation, Runtime
from cerp.shipping import (
    Graph,
    SizeLimit,
    as_shipped,
    bytes_beside_embedding,
    largest_limit,
    ship,
    smallest_embedding,
    within,
)
from cerp.stages import StageResult, score_memory, train

DEFAULT_BUDGET = "99%"
VALUES_UNDER_A_SIZE: tuple[ValuesCodec, ...] = ("fp16", "int8", "int4")
"""What is tried under a limit on bytes; fp32 would halve the number of values for nothing."""


@dataclass(eq=False)
class FittedModel:
    """One trained model, with what is known of it."""

    budget: str
    limit: int
    """The largest number of values that the budget allows."""
    recommender: Recommender
    splits: Splits
    """What it was trained on; after a refit, more than what selected it."""
    config: Config
    facts: dict[str, Any]
    """nnz, average dimension, overlap, bytes, epochs, seconds: ready for JSON."""
    metrics: dict[str, dict[str, Any]]
    """``metrics["test"]["ndcg@10"]``: valid and test, where they may be looked at."""
    encoding: Encoding = field(default_factory=Encoding)
    """How the model is written to a file, unless `save` is told otherwise."""
    judged: dict[str, Metrics] = field(default_factory=dict, repr=False)
    """The metrics with per-user values; empty for a model that was read from a run."""

    def recommend(self, user: Id, k: int = 10, **options: Any) -> list[Recommendation]:
        """The k best items for a user, as `cerp.load` of the saved model would give them."""
        return self._runtime.recommend(user, k, **options)

    def file(
        self,
        encoding: Encoding | None = None,
        *,
        graph: Graph = "edges",
        limit: SizeLimit | None = None,
        titles: list[str] | None = None,
    ) -> bytes:
        """The model file, in the model's own encoding or another one."""
        shipped = ship(
            self.recommender,
            self.splits,
            self.config.backbone,
            graph=graph,
            facts=self._file_facts(),
            titles=titles,
        )
        return within(shipped, encoding or self.encoding, limit or SizeLimit())

    def save(self, path: str | Path, encoding: Encoding | None = None, **options: Any) -> int:
        """Write the model file; the bytes it takes. Options are those of `file`."""
        data = self.file(encoding, **options)
        write_bytes(Path(path), data)
        return len(data)

    def summary(self) -> dict[str, Any]:
        """Budget, limit, facts and metrics."""
        return {"budget": self.budget, "limit": self.limit, **self.facts, **self.metrics}

    @cached_property
    def _runtime(self) -> Runtime:
        return Runtime(decode(self.file()))

    def _file_facts(self) -> dict[str, Any]:
        config = self.config
        return {
            "method": config.method,
            "budget": self.budget,
            "limit": self.limit,
            "hash": config.hash,
            "ordering": config.ordering,
            "seed": config.seed,
            "fingerprint": self.splits.fingerprint,
            "library": __version__,
            "conventions": CONVENTIONS,
            "metrics": {
                part: {name: found[name] for name in ("ndcg@10", "recall@10")}
                for part, found in self.metrics.items()
            },
        }


def fit(
    splits: Splits,
    budget: str | int | None = None,
    *,
    max_file_size: str | None = None,
    backbone: str = "lightgcn",
    method: str = "cerp",
    seed: int = 0,
    device: str = "cpu",
    output: str | Path | None = None,
    config: Config | None = None,
) -> FittedModel:
    """Order ids, prune, retrain, select on validation, and read the test part once.

    ``budget`` is a pruned share (``"99%"``, the default), a count of values, or
    bytes of the embedding (``"400KB"``); ``max_file_size`` (``"2MB"``) limits the
    whole model file, alone or beside a budget. ``config`` gives everything that the other arguments leave open; without it, the default
    preset does. With ``output``, a folder, the run can be resumed by the same call.
    """
    chosen = replace(
        config or preset("default", backbone, method),
        budgets=(str(budget or max_file_size or DEFAULT_BUDGET),),
        max_file_size=max_file_size,
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


class _Candidate(NamedTuple):
    """One way to meet a budget."""

    limit: int
    """In values."""
    encoding: Encoding
    size: SizeLimit


class _Trained(NamedTuple):
    """A candidate after training."""

    candidate: _Candidate
    recommender: Recommender
    result: StageResult
    valid: Metrics


class _Run:
    """What the stages of one run share."""

    def __init__(self, splits: Splits, config: Config, options: RunOptions) -> None:
        self.splits, self.config, self.options = splits, config, options
        self.method = methods.method(config.method)
        self.folder = options.folder
        self.budgets = ("full",) if config.method == "full" else config.budgets
        for budget in self.budgets:
            self._plain_limit(budget)  # a budget that cannot be is refused before a folder is made
        if self.folder:
            enter(self.folder, config, splits, resume=options.resume)

    def models(self) -> list[FittedModel]:
        """One model for each budget, in the order given."""
        positions = self._positions()
        candidates = {budget: self._candidates(budget, positions) for budget in self.budgets}
        limits = tuple(found.limit for entries in candidates.values() for found in entries)
        context = Context(self.splits, self.config, self.options, limits, positions)
        found = self._found(context)
        models = [self._model(context, budget, candidates[budget], found) for budget in candidates]
        if self.folder and rank() == 0:
            write_json(self.folder / "metrics.json", self._result(models))
            (self.folder / CHECKPOINT).unlink(missing_ok=True)
        by_budget = dict(zip(candidates, models, strict=True))
        return [by_budget[budget] for budget in self.budgets]

    def _result(self, models: list[FittedModel]) -> dict[str, Any]:
        # Native order may read the test set off the ids: its results say how much.
        leak = id_leak(self.splits).summary() if self.config.ordering == "native" else None
        return {
            "config": self.config.to_dict(),
            "fingerprint": self.splits.fingerprint,
            "version": __version__,
            "device": _device_name(torch.device(self.options.device)),
            "id_leak": leak,
            "models": [model.summary() for model in models],
        }

    def _plain_limit(self, budget: str) -> int | None:
        """The values that a budget allows; None where it limits bytes."""
        count, dim = self.splits.num_entities, self.config.dim
        if budget == "full":
            return count * dim
        parsed = Budget.parse(budget)
        return None if parsed.kept is None else parsed.limit(count, dim)

    def _positions(self) -> Int32Array | None:
        if not self.method.is_ordered:
            return None
        return order(self.splits.train, self.config.ordering, seed=self.config.seed)

    def _candidates(self, budget: str, positions: Int32Array | None) -> list[_Candidate]:
        """The encodings to be tried for a budget, each with the values it has room for."""
        limit = self._plain_limit(budget)
        whole = self.config.max_file_size
        size = SizeLimit(
            None if budget == "full" else Budget.parse(budget).size,
            None if whole is None else parse_size(whole),
        )
        if size == SizeLimit():
            assert limit is not None
            return [_Candidate(limit, Encoding(seen=self.config.keep_seen), size)]
        context = Context(self.splits, self.config, self.options, (1,), positions)
        most = self.splits.num_entities * self.config.dim if limit is None else limit
        encodings = [Encoding(values, seen=self.config.keep_seen) for values in VALUES_UNDER_A_SIZE]
        rooms = [self._room(context, size, encoding) for encoding in encodings]
        limits: list[int] = []
        for _ in range(2):  # the largest limit decides on the buckets, and those on all limits
            limits = [
                min(most, largest_limit(self.method, context, room, encoding.values))
                for encoding, room in zip(encodings, rooms, strict=True)
            ]
            context = context.with_limits(max(limits))
        return [
            _Candidate(limit, encoding, size)
            for limit, encoding in zip(limits, encodings, strict=True)
        ]

    def _room(self, context: Context, size: SizeLimit, encoding: Encoding) -> int:
        """The bytes that the embedding may take."""
        rooms = [] if size.embedding is None else [size.embedding]
        if size.file is not None:
            beside = bytes_beside_embedding(self.method, context, encoding)
            _, smallest = smallest_embedding(self.method, context, encoding.values)
            if beside + smallest > size.file:
                raise ConfigError(
                    f"a file of {size.file:,} bytes is too small: with values in "
                    f"{encoding.values} the smallest possible takes {beside + smallest:,}, of "
                    f"which {beside:,} are graph or seen items, backbone, ids and header"
                )
            rooms.append(size.file - beside)
        return min(rooms)

    def _found(self, context: Context) -> dict[int, Found]:
        """What the search found, from its stage or from the file that it left."""
        path = self.folder / "searched.safetensors" if self.folder else None
        if path and path.exists():
            return unpacked(*read_checkpoint(path))
        search = self.method.search(context)
        if path and rank() == 0:
            add_curves(path.parent, self.method.search_stage, search.history)
            write_checkpoint(path, *packed(search.found))
        return search.found

    def _model(
        self, context: Context, budget: str, candidates: list[_Candidate], found: dict[int, Found]
    ) -> FittedModel:
        path = self.folder / f"model-{budget}.safetensors" if self.folder else None
        if path and path.exists():
            return self._read_model(path, context, budget, candidates, found)
        started = time.monotonic()
        trained = [self._trained(context, budget, entry, found) for entry in candidates]
        best = max(trained, key=lambda entry: entry.valid.mean["ndcg@10"])
        recommender, splits = best.recommender, self.splits
        judged: dict[str, Metrics] = {}
        if self.config.refit:
            splits = self.splits.refit(self.config.refit)
            recommender = self._refitted(context, budget, best, found, splits)
        else:
            judged["valid"] = best.valid
        if len(splits.test):
            judged["test"] = self._judged(recommender, splits, "test")
        model = FittedModel(
            budget,
            best.candidate.limit,
            recommender,
            splits,
            self.config,
            _facts(recommender.embedding, best, found, time.monotonic() - started),
            {part: metrics.summary() for part, metrics in judged.items()},
            best.candidate.encoding,
            judged,
        )
        model.facts |= self._file_facts(model, best.candidate.size)
        if path and rank() == 0:
            write_checkpoint(path, recommender.state_dict(), model.summary())
        return model

    def _trained(
        self, context: Context, budget: str, candidate: _Candidate, found: dict[int, Found]
    ) -> _Trained:
        """A candidate trained to its best epoch, as its file would have it."""
        stage = f"train {budget}"
        if candidate.size != SizeLimit():
            stage += f" {candidate.encoding.values}"
        recommender, result = self._train(context, stage, candidate.limit, found)
        recommender = self._as_filed(recommender, self.splits, candidate)
        return _Trained(
            candidate, recommender, result, self._judged(recommender, self.splits, "valid")
        )

    def _refitted(
        self,
        context: Context,
        budget: str,
        best: _Trained,
        found: dict[int, Found],
        splits: Splits,
    ) -> Recommender:
        """The selected candidate, trained once more on more data for as many epochs."""
        context = replace(context, splits=splits)
        recommender, _ = self._train(
            context, f"refit {budget}", best.candidate.limit, found, best.result.best_epoch
        )
        return self._as_filed(recommender, splits, best.candidate)

    def _train(
        self,
        context: Context,
        stage: str,
        limit: int,
        found: dict[int, Found],
        epochs: int | None = None,
    ) -> tuple[Recommender, StageResult]:
        embedding = self.method.embedding(context, limit, found[limit])
        recommender = context.recommender(embedding)
        result = train(
            recommender,
            context.splits,
            self.config.train,
            seed=self.config.seed + 1,
            label=stage,
            options=self.options,
            hooks=self.method.hooks(context, embedding),
            epochs=epochs,
            checkpointing=context.checkpointing(stage),
        )
        if self.folder and rank() == 0:
            add_curves(self.folder, stage, result.history)
        return recommender, result

    def _as_filed(
        self, recommender: Recommender, splits: Splits, candidate: _Candidate
    ) -> Recommender:
        """The recommender with the values of its file, where the file rounds them."""
        if candidate.size == SizeLimit():
            return recommender
        shipped = ship(recommender, splits, self.config.backbone)
        return as_shipped(recommender, decode(within(shipped, candidate.encoding, candidate.size)))

    def _judged(self, recommender: Recommender, splits: Splits, part: Part) -> Metrics:
        memory = score_memory(recommender.device)
        return evaluate(recommender.scorer(), splits, on=part, memory=memory)

    def _file_facts(self, model: FittedModel, size: SizeLimit) -> dict[str, Any]:
        """The model file's sizes; the file itself, where the run has a folder."""
        try:
            data = model.file(limit=size)
        except ConfigError as error:
            return {"file": None, "why_no_file": str(error)}
        if self.folder and rank() == 0:
            write_bytes(self.folder / f"model-{model.budget}.cerp", data)
        return {
            "values": model.encoding.values,
            "embedding_bytes": embedding_bytes(section_bytes(data)),
            "file_bytes": len(data),
        }

    def _read_model(
        self,
        path: Path,
        context: Context,
        budget: str,
        candidates: list[_Candidate],
        found: dict[int, Found],
    ) -> FittedModel:
        """A model that an earlier call has finished."""
        tensors, summary = read_checkpoint(path)
        splits = self.splits.refit(self.config.refit) if self.config.refit else self.splits
        context = replace(context, splits=splits)
        chosen = next(entry for entry in candidates if entry.limit == summary["limit"])
        embedding = self.method.embedding(context, chosen.limit, found[chosen.limit])
        recommender = context.recommender(embedding)
        recommender.load_state_dict(tensors)
        recommender.eval()
        metrics: dict[str, dict[str, Any]] = {
            part: summary.pop(part) for part in PARTS if part in summary
        }
        facts = {name: value for name, value in summary.items() if name not in ("budget", "limit")}
        return FittedModel(
            budget,
            chosen.limit,
            recommender,
            splits,
            self.config,
            facts,
            metrics,
            chosen.encoding,
        )


def _facts(
    embedding: Embedding, best: _Trained, found: dict[int, Found], seconds: float
) -> dict[str, Any]:
    cost = embedding.cost()
    return {
        "nnz": embedding.nnz,
        "paper_count": cost.paper,
        "stored_count": cost.stored,
        **_shape_facts(embedding),
        "best_epoch": best.result.best_epoch,
        "best_valid_ndcg@10": best.result.best_score,
        "seconds": round(seconds, 2),
        "search": found[best.candidate.limit].facts or None,
    }


def _shape_facts(embedding: Embedding) -> dict[str, Any]:
    if not isinstance(embedding, CompositionalEmbedding):
        return {"avg_dim": embedding.cost().paper / embedding.num_embeddings, "overlap": None}
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
