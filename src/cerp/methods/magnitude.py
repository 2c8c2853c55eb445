"""Magnitude pruning: what learned thresholds have to beat."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Literal, get_args

import torch

from cerp.assignment.codes import Codes
from cerp.choices import PruneMode
from cerp.config import PruneConfig, TrainConfig
from cerp.errors import ConfigError
from cerp.methods.base import Context, Search
from cerp.methods.cerp import Cerp
from cerp.methods.pep import Pep, PrunableTable
from cerp.methods.pruned import Pruned
from cerp.models.embeddings.full import FullEmbedding
from cerp.models.embeddings.prunable import PrunableEmbedding
from cerp.models.recommender import Recommender
from cerp.presets import teacher_preset
from cerp.training.search_result import Found
from cerp.training.stages import StageResult, train

PrunedWeights = Literal["table", "codebooks"]
Pace = Literal["at once", "gradual"]


class Magnitude(Pruned):
    """The largest entries after plain training, which goes on from there.

    ``of`` says of what: a full ``table``, or CERP's ``codebooks``, which shows
    what its thresholds and its penalty are worth.

    ``dense_epochs`` trains what is pruned as a full-size model is trained best (decoupled decay, a
    rate that falls, the best epoch on validation) for at most so many epochs; None: for the epochs
    of pruning, by its settings. ``dense_training`` has entries of `TrainConfig` for data where
    full size is trained best in another way. ``pace`` is ``at once``, when that is over, or
    ``gradual``: then training goes on for the epochs of pruning, in which the number of entries
    falls along the curve of `cerp.pruning.clocks.ScheduledClock` (Zhu and Gupta, 2017).
    """

    def __init__(
        self,
        of: PrunedWeights = "table",
        dense_epochs: int | None = None,
        pace: Pace = "at once",
        dense_training: dict[str, Any] | None = None,
    ) -> None:
        if of not in get_args(PrunedWeights):
            raise ConfigError(f"magnitude pruning of {of!r}: choose table or codebooks")
        if pace not in get_args(Pace):
            raise ConfigError(f"magnitude pruning {pace!r}: choose 'at once' or gradual")
        if dense_epochs is not None and not (isinstance(dense_epochs, int) and dense_epochs > 0):
            raise ConfigError(f"dense_epochs must be a number from 1, got {dense_epochs!r}")
        if dense_training and dense_epochs is None:
            raise ConfigError(
                "dense_training needs dense_epochs: without, no full table is trained"
            )
        unknown = set(dense_training or {}) - {entry.name for entry in fields(TrainConfig)}
        if unknown:
            raise ConfigError(f"dense_training has no entry {', '.join(sorted(unknown))}")
        TrainConfig(**(dense_training or {}))  # refuses values that make no sense
        self._dense_epochs, self._pace = dense_epochs, pace
        self._dense_training = dense_training or {}
        self._dense: Pruned = Pep() if of == "table" else Cerp()
        self.is_ordered, self.learns_rows = self._dense.is_ordered, self._dense.learns_rows

    def codes(self, context: Context) -> Codes | None:
        """Those of the codebooks, if it prunes codebooks."""
        return self._dense.codes(context)

    def fresh(self, context: Context) -> PrunableEmbedding:
        """The full table, or the codebooks; a table that is trained to its end starts as such."""
        embedding = self._dense.fresh(context)
        if self._dense_epochs is not None and isinstance(embedding, PrunableTable):
            full = FullEmbedding(
                embedding.num_embeddings, embedding.embedding_dim, generator=context.generator()
            )
            embedding.weight.data.copy_(full.weight)
        return embedding

    def pruning(self, context: Context) -> PruneConfig:
        """No thresholds and no penalty."""
        mode: PruneMode = "magnitude" if self._pace == "at once" else "gradual"
        return replace(context.config.prune, mode=mode)

    def search(self, context: Context) -> Search:
        """Masks and values for each limit."""
        if self._dense_epochs is None:
            return super().search(context)
        model, result = self._trained(context, self._dense_epochs)
        told = {"dense_epoch": result.best_epoch, "dense_valid": result.best_score}
        if self._pace == "gradual":
            found, history = self.pruned(context, model)
        else:
            found, history = self._largest(context, model, result), []
        found = {limit: one._replace(facts=one.facts | told) for limit, one in found.items()}
        return Search(found, [*result.history, *history])

    def _trained(self, context: Context, epochs: int) -> tuple[Recommender, StageResult]:
        """The dense model in its best epoch."""
        config, model = context.config, context.recommender(self.fresh(context))
        settings = teacher_preset(config.backbone, config.dim, config.seed).train
        result = train(
            model,
            context.splits,
            replace(settings, **self._dense_training, epochs=epochs),
            seed=config.seed + 5,  # batches of its own
            label="dense",
            options=context.options,
            loss=config.loss,
            selection_metric=config.selection_metric,
            teacher=context.teacher,
            checkpointing=context.checkpointing("dense"),
        )
        return model, result

    @torch.no_grad()
    def _largest(
        self, context: Context, model: Recommender, result: StageResult
    ) -> dict[int, Found]:
        """The largest entries for each limit, at their values; the facts are those of pruning."""
        embedding = model.embedding
        assert isinstance(embedding, PrunableEmbedding)
        facts = {
            "epoch": result.best_epoch,
            "reached": True,
            "reached_sparsity": embedding.sparsity,
            "magnitude_jaccard": 1.0,
        }
        found = {}
        for limit in dict.fromkeys(context.limits):
            mask = embedding.mask_for(limit)
            found[limit] = Found({"weight": embedding.weight * mask, "mask": mask}, facts)
        return found
