"""One run: what its stages share, and how each leaves its file or finds it.

order ids -> search once for all budgets -> train what each may keep -> select
on validation -> read the test part once.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch

from cerp import methods
from cerp._version import __version__
from cerp.artifact import decode, embedding_bytes, section_bytes
from cerp.assignment.hashing import Hash
from cerp.assignment.ordering import order
from cerp.config import Config, RunOptions
from cerp.data.ids import Int32Array
from cerp.data.splits import PARTS, Part, Splits
from cerp.errors import ConfigError, DataError
from cerp.evaluation.evaluate import DEFAULT_KS, evaluate
from cerp.evaluation.id_leak import id_leak
from cerp.evaluation.metrics import Metrics, cutoff_of
from cerp.export.to_arrays import SizeLimit, as_shipped, ship, within
from cerp.files import write_bytes
from cerp.methods import Context, Found
from cerp.models import backbones
from cerp.models.embeddings.base import Embedding
from cerp.models.recommender import Recommender
from cerp.runs.fitted_model import FittedModel
from cerp.runs.folder import SEARCHED, add_curves, model_file, trained_file
from cerp.sizing.precision_plan import FULL, Candidate, find_candidates
from cerp.training.checkpoint import read_checkpoint, write_checkpoint
from cerp.training.distributed import rank
from cerp.training.losses import LOSSES
from cerp.training.penalties import PENALTIES
from cerp.training.search_result import pack, unpack
from cerp.training.stages import StageResult, score_memory, train


class _Trained(NamedTuple):
    """A candidate after training."""

    candidate: Candidate
    recommender: Recommender
    result: StageResult
    valid: Metrics


class Run:
    """The stages of one run, and what they share."""

    def __init__(self, splits: Splits, config: Config, options: RunOptions) -> None:
        """Refuses, if at all, before anything is trained or written."""
        self.splits, self.config, self.options = splits, config, options
        self.method = methods.method(config.method, config.method_options)
        self.folder = options.folder
        self.budgets = (FULL,) if config.method == "full" else config.budgets
        backbones.check(config.backbone, config.backbone_options)
        _ = LOSSES[config.loss], PENALTIES[config.prune.penalty]  # refused before training
        cutoff_of(config.selection_metric)
        if config.buckets is not None:
            Hash(config.hashing, splits.num_entities, config.buckets)  # refuses what it cannot hash
        if not len(splits.valid):
            raise DataError(
                "the validation part is empty, so that no epoch can be selected; split with a "
                "larger share for validation, or keep users with more interactions (--k-core 3)"
            )
        start = Context(splits, config, options, (), self._positions())
        self.candidates = {
            budget: find_candidates(self.method, start, budget) for budget in self.budgets
        }
        limits = (found.limit for entries in self.candidates.values() for found in entries)
        self.context = start.with_limits(*limits)

    def models(self) -> list[FittedModel]:
        """One model for each budget, in the order given."""
        found = self._found(self.context)
        return [
            self._model(self.context, budget, candidates, found)
            for budget, candidates in self.candidates.items()
        ]

    def missing_files(self) -> list[str]:
        """What a finished run has in its folder and this one has not."""
        assert self.folder is not None
        names = (SEARCHED, *(model_file(budget) for budget in self.budgets))
        return [name for name in names if not (self.folder / name).exists()]

    def result(self, models: list[FittedModel]) -> dict[str, Any]:
        """What ``metrics.json`` holds."""
        # Native order may read the test set off the ids: its results say how much.
        leak = _leak_of(self.splits) if self.config.ordering == "native" else None
        return {
            "config": self.config.to_dict(),
            "fingerprint": self.splits.fingerprint,
            "version": __version__,
            "device": _device_name(torch.device(self.options.device)),
            "id_leak": leak,
            "models": [model.summary() for model in models],
        }

    def _positions(self) -> Int32Array | None:
        if not self.method.is_ordered:
            return None
        return order(self.splits.train, self.config.ordering, seed=self.config.seed)

    def _found(self, context: Context) -> dict[int, Found]:
        """What the search found, from its stage or from the file that it left."""
        path = self.folder / SEARCHED if self.folder else None
        if path and path.exists():
            return unpack(*read_checkpoint(path))
        started = time.monotonic()
        search = self.method.search(context)
        seconds = round(time.monotonic() - started, 2)
        found = {
            limit: entry._replace(facts={**entry.facts, "seconds": seconds})
            for limit, entry in search.found.items()
        }
        if path and rank() == 0:
            add_curves(path.parent, self.method.search_stage, search.history)
            write_checkpoint(path, *pack(found))
        return found

    def _model(
        self, context: Context, budget: str, candidates: list[Candidate], found: dict[int, Found]
    ) -> FittedModel:
        path = self.folder / model_file(budget) if self.folder else None
        if path and path.exists():
            return self._read_model(path, context, budget, candidates, found)
        started = time.monotonic()
        trained = self._trained(context, budget, candidates, found)
        best = max(trained, key=lambda entry: entry.valid.mean[self.config.selection_metric])
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
            best.candidate.size,
            judged,
        )
        model.facts |= self._file_facts(model)
        if path and rank() == 0:
            write_checkpoint(path, recommender.state_dict(), model.summary())
            for stage in (*(_stage(budget, entry) for entry in candidates), _refit_stage(budget)):
                (path.parent / trained_file(stage)).unlink(missing_ok=True)
        return model

    def _trained(
        self, context: Context, budget: str, candidates: list[Candidate], found: dict[int, Found]
    ) -> list[_Trained]:
        """Every candidate trained to its best epoch, as its file would have it."""
        by_limit: dict[int, tuple[Recommender, StageResult]] = {}
        trained = []
        for entry in candidates:
            if entry.limit not in by_limit:
                stage = _stage(budget, entry)
                by_limit[entry.limit] = self._train(context, stage, entry.limit, found)
            recommender, result = by_limit[entry.limit]
            filed = self._as_filed(recommender, self.splits, entry)
            judged = self._judged(filed, self.splits, "valid")
            trained.append(_Trained(entry, filed, result, judged))
        return trained

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
            context, _refit_stage(budget), best.candidate.limit, found, best.result.best_epoch
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
        path = self.folder / trained_file(stage) if self.folder else None
        if path and path.exists():
            tensors, facts = read_checkpoint(path)
            recommender.load_state_dict(tensors)
            return recommender.eval(), StageResult(**facts)
        result = train(
            recommender,
            context.splits,
            self.config.train,
            seed=self.config.seed + 1,
            label=stage,
            options=self.options,
            loss=self.config.loss,
            selection_metric=self.config.selection_metric,
            hooks=self.method.hooks(context, recommender),
            epochs=epochs,
            checkpointing=context.checkpointing(stage),
        )
        if path and rank() == 0:
            add_curves(path.parent, stage, result.history)
            write_checkpoint(path, recommender.state_dict(), result._asdict())
        return recommender, result

    def _as_filed(
        self, recommender: Recommender, splits: Splits, candidate: Candidate
    ) -> Recommender:
        """The recommender with the values of its file, where the file rounds them."""
        if candidate.size == SizeLimit() and candidate.encoding.values == "fp32":
            return recommender
        shipped = ship(recommender, splits, self.config.backbone)
        return as_shipped(recommender, decode(within(shipped, candidate.encoding, candidate.size)))

    def _judged(self, recommender: Recommender, splits: Splits, part: Part) -> Metrics:
        memory = score_memory(recommender.device)
        ks = {*DEFAULT_KS, cutoff_of(self.config.selection_metric)}
        return evaluate(recommender.scorer(), splits, on=part, ks=sorted(ks), memory=memory)

    def _file_facts(self, model: FittedModel) -> dict[str, Any]:
        """The model file's sizes; the file itself, where the run has a folder."""
        try:
            data = model.file()
        except ConfigError as error:
            return {"why_no_file": str(error)}
        if self.folder and rank() == 0:
            write_bytes(self.folder / f"model-{model.budget}.cerp", data)
        return {
            "embedding_bytes": embedding_bytes(section_bytes(data)),
            "file_bytes": len(data),
        }

    def _read_model(
        self,
        path: Path,
        context: Context,
        budget: str,
        candidates: list[Candidate],
        found: dict[int, Found],
    ) -> FittedModel:
        """A model that an earlier call has finished."""
        tensors, summary = read_checkpoint(path)
        splits = self.splits.refit(self.config.refit) if self.config.refit else self.splits
        context = replace(context, splits=splits)
        chosen = next(
            entry
            for entry in candidates
            if (entry.limit, entry.encoding.values) == (summary["limit"], summary["values"])
        )
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
            chosen.size,
        )


def _stage(budget: str, candidate: Candidate) -> str:
    """What the training of a candidate is called."""
    if candidate.size == SizeLimit():
        return f"train {budget}"
    return f"train {budget} {candidate.encoding.values}"


def _refit_stage(budget: str) -> str:
    return f"refit {budget}"


@lru_cache(maxsize=1)
def _leak_of(splits: Splits) -> dict[str, Any]:
    """Kept, because runs of one process mostly have the same data: Gowalla takes 20 seconds."""
    return id_leak(splits).summary()


def _facts(
    embedding: Embedding, best: _Trained, found: dict[int, Found], seconds: float
) -> dict[str, Any]:
    cost = embedding.cost()
    search = dict(found[best.candidate.limit].facts)
    search_seconds = search.pop("seconds", 0.0)  # earlier versions did not measure it
    return {
        "nnz": embedding.nnz,
        "paper_count": cost.paper,
        "stored_count": cost.stored,
        **dict.fromkeys(("buckets", "empty_entities", "empty_rows")),
        **embedding.facts(),
        "best_epoch": best.result.best_epoch,
        "best_valid_ndcg@10": best.result.best_score,
        "seconds": round(search_seconds + seconds, 2),
        "search": search or None,
        "values": best.candidate.encoding.values,
        "selection_metric": "ndcg@10",
    }


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
