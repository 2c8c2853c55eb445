"""The training loop: the only place that steps an optimizer.

One loop serves every method, backbone and stage. What differs between stages
comes in as an `Objective` (the loss) and a `StageHooks` (what happens around
steps and epochs). The state of a loop is tensors and plain facts, complete
after every step, so a run that was killed goes on from its last checkpoint to
the very same end.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from cerp.callbacks import Callback
from cerp.choices import ComputePrecision
from cerp.config import Progress
from cerp.errors import StoppedError, TrainingError
from cerp.models.batch import Batch
from cerp.models.recommender import Recommender
from cerp.naming import prefixed, under
from cerp.progress import progress
from cerp.training.adam import Optimizer
from cerp.training.checkpoint import (
    pack_optimizer,
    read_checkpoint,
    unpack_optimizer,
    write_checkpoint,
)
from cerp.training.distributed import add_up_gradients, from_first, rank, world_size
from cerp.training.interruption import interruption_noted
from cerp.training.objective import Objective
from cerp.training.recorded_steps import RecordedSteps
from cerp.training.sampling import Sampler

FINITE_CHECK_EVERY = 64
"""Steps between two looks at whether the loss is finite; each look makes a GPU wait."""


@dataclass(frozen=True, eq=False)
class SideStep:
    """A step of another kind, such as on validation data, before every step of the loop.

    Between side steps the optimizer's parameters have no gradient, so that the
    loop's own optimizers, which may hold them too, pass over them.
    """

    loss: Callable[[int], Tensor]
    """Of the step that it comes before, counted from the start of the stage."""
    optimizer: Optimizer


class StageHooks:
    """What a stage does around the steps of the loop; this one does nothing."""

    side_step: SideStep | None = None

    def objective(self, usual: Objective, epoch: int) -> Objective:
        """What an epoch minimises, given what the loop minimises unless told otherwise."""
        return usual

    def replaced_weights(self, step: int) -> bool:
        """Called before every step; True where weights were replaced by others than an optimizer's.

        Optimizers then forget their moments, which were those of other weights.
        """
        return False

    def before_step(self, step: int) -> None:
        """Called before every step, counted from the start of the stage."""

    def after_step(self, step: int) -> bool:
        """Called after every step; True ends the stage."""
        return False

    def after_epoch(self, epoch: int) -> dict[str, float]:
        """Called after every epoch; what it returns goes into the curves."""
        return {}

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and facts to be saved with the loop."""
        return {}, {}

    def load_state(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """The inverse of `state`."""


@dataclass(frozen=True)
class EarlyStopping:
    """Judge every few epochs, keep the weights of the best, stop when it does not come back."""

    judge: Callable[[], float]
    """How good the model is as it is; higher is better."""
    every: int
    patience: int
    metric: str = "ndcg@10"
    """What the judge measures on validation; the curves have it as ``valid_<metric>``."""


@dataclass(frozen=True)
class Checkpointing:
    """Where a loop saves itself, and how often."""

    path: Path
    stage: str
    """Goes into the file; a checkpoint of another stage is not this loop's."""
    seconds: float


class Loop:
    """Epochs of steps over one model, resumable after every step."""

    def __init__(
        self,
        model: Recommender,
        sampler: Sampler,
        optimizers: list[Optimizer],
        *,
        epochs: int,
        hooks: StageHooks,
        label: str,
        objective: Objective | None = None,
        early_stopping: EarlyStopping | None = None,
        cosine: bool = False,
        clip_norm: float | None = None,
        precision: ComputePrecision = "float32",
        checkpointing: Checkpointing | None = None,
        quiet: bool = False,
        watch: Callable[[Progress], str | None] | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.watch = watch
        self.model, self.sampler, self.optimizers = model, sampler, optimizers
        self.epochs, self.hooks, self.label = epochs, hooks, label
        self.objective = Objective() if objective is None else objective
        self.early_stopping, self.checkpointing = early_stopping, checkpointing
        self.cosine, self.clip_norm, self.quiet = cosine, clip_norm, quiet
        self.precision = precision
        self.base_rates = [
            [float(group["lr"]) for group in optimizer.param_groups] for optimizer in optimizers
        ]
        self.rank, self.world = rank(), world_size()
        self.callbacks = callbacks if self.rank == 0 else ()
        self.losses = torch.zeros(len(sampler), device=sampler.device)
        self.history: list[dict[str, float]] = []
        self.finished = False
        self.best: tuple[float, int] = (-math.inf, 0)
        """The judge's best score and the epoch it was reached in (1 is the first)."""
        self.best_weights: dict[str, Tensor] = {}
        self.stale = 0
        self._last_saved = time.monotonic()
        self._current: tuple[Objective, Callable[[Batch], Tensor]] | None = None
        self._recorded: RecordedSteps | None = None

    def run(self) -> None:
        """Train to the end, from where the checkpoint stands if there is one.

        Afterwards the model has the weights of the best epoch, where epochs
        were judged.
        """
        self._resume()
        for callback in self.callbacks:
            callback.on_stage(self.label)
        self.model.train()
        total = self.epochs * len(self.sampler)
        with (
            interruption_noted() as interrupted,
            progress(self.label, total, quiet=self.quiet or self.rank > 0) as bar,
        ):
            bar.advance(self._steps_done())
            while not self.finished and self.sampler.epoch < self.epochs:
                epoch, position = self.sampler.epoch, self.sampler.step
                self.take_step(self.sampler.next_batch(), epoch, position)
                if self.sampler.epoch > epoch:
                    self._end_epoch(epoch)
                bar.advance(1, self._note())
                if interrupted() or self._save_is_due():
                    self._save()
                if interrupted():
                    break
                self._stop_if_told()
        if self.sampler.step:
            self._end_within_epoch()
        self._current = self._recorded = None  # frees what a recorded step holds on the device
        if self.best_weights:
            self.model.load_state_dict(self.best_weights)
        self.model.eval()

    def _stop_if_told(self) -> None:
        if self.watch is None or self.finished or self.sampler.epoch == self.epochs:
            return
        score = self.best[0] if self.best_weights else None
        share = self._steps_done() / (self.epochs * len(self.sampler))
        if (why := self.watch(Progress(share, score))) is not None:
            self._save()
            raise StoppedError(why)

    def _steps_done(self) -> int:
        return self.sampler.epoch * len(self.sampler) + self.sampler.step

    def take_step(self, batch: Batch, epoch: int, position: int) -> None:
        """One optimizer step, with what the stage does around it."""
        step = epoch * len(self.sampler) + position
        if self.hooks.replaced_weights(step):
            for optimizer in self.optimizers:
                optimizer.state.clear()
        self.hooks.before_step(step)
        self._take_side_step(step)
        self._set_rates(step)
        objective = self.hooks.objective(self.objective, epoch)
        self.losses[position] = self._update(objective, epoch, position)(batch)
        if position % FINITE_CHECK_EVERY == FINITE_CHECK_EVERY - 1:
            self._refuse_divergence(epoch, position + 1)
        self.finished = self.hooks.after_step(step)

    def _take_side_step(self, step: int) -> None:
        side = self.hooks.side_step
        if side is None:
            return
        side.loss(step).backward()  # type: ignore[no-untyped-call]
        side.optimizer.step()
        side.optimizer.zero_grad(set_to_none=True)

    def _update(self, objective: Objective, epoch: int, step: int) -> Callable[[Batch], Tensor]:
        """The step for an objective: recorded where that is possible, plain elsewhere."""
        if self.world > 1:
            return partial(self._plain_update, objective, size=self.sampler.size_at(epoch, step))
        if self._current is None or self._current[0] != objective:
            update: Callable[[Batch], Tensor] = partial(self._plain_update, objective)
            if self.model.can_be_captured:
                self._recorded = self._recorded or RecordedSteps(
                    self._plain_update, self.sampler.device
                )
                update = self._recorded.of(objective)
            self._current = (objective, update)
        return self._current[1]

    def _plain_update(self, objective: Objective, batch: Batch, size: int | None = None) -> Tensor:
        """Loss, gradients and one step of each optimizer.

        ``size`` is that of the global batch; None: the batch is all of it.
        """
        loss = self._loss(objective, batch, len(batch.users) if size is None else size)
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]
        if self.world > 1:
            add_up_gradients(self.model.parameters())
        if self.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip_norm)
        for optimizer in self.optimizers:
            optimizer.step()
        return loss.detach()

    def _loss(self, objective: Objective, batch: Batch, size: int) -> Tensor:
        """Zero, with no gradient, where no row of a small batch falls to this process."""
        if not len(batch.users):
            return torch.zeros((), device=self.sampler.device)
        with torch.autocast(
            self.sampler.device.type,
            torch.bfloat16,
            enabled=self.precision == "bfloat16",
            cache_enabled=False,  # a recorded step has to cast weights anew in every replay
        ):
            return objective(self.model, batch, size)

    def _set_rates(self, step: int) -> None:
        if not self.cosine:
            return
        share = 0.5 * (1 + math.cos(math.pi * step / (self.epochs * len(self.sampler))))
        for optimizer, rates in zip(self.optimizers, self.base_rates, strict=True):
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                # In place: a recorded step reads the rate where it lies.
                group["lr"].fill_(rate * share)

    def _refuse_divergence(self, epoch: int, count: int) -> None:
        bad = ~torch.isfinite(self.losses[:count])
        if bool(bad.any()):
            step = epoch * len(self.sampler) + int(bad.int().argmax())
            raise TrainingError(
                f"{self.label}: the loss is not finite at step {step} (epoch {epoch + 1}); "
                "lower the learning rate, or limit the gradient's norm (clip_norm)"
            )

    def _end_epoch(self, epoch: int) -> None:
        self._refuse_divergence(epoch, len(self.losses))
        losses = self.losses.clone()
        if self.world > 1:
            dist.all_reduce(losses)
        row = {"epoch": epoch + 1, "loss": float(losses.mean()), **self.hooks.after_epoch(epoch)}
        stopping = self.early_stopping
        if stopping and ((epoch + 1) % stopping.every == 0 or epoch + 1 == self.epochs):
            self.model.eval()
            score = from_first(stopping.judge(), self.sampler.device)
            row[f"valid_{stopping.metric}"] = score
            self.model.train()
            self._remember(score, epoch + 1, stopping.patience)
        self._tell(row)

    def _end_within_epoch(self) -> None:
        """The row of an epoch that the stage did not need to the end."""
        epoch, steps = self.sampler.epoch, self.sampler.step
        self._refuse_divergence(epoch, steps)
        losses = self.losses[:steps].clone()
        if self.world > 1:
            dist.all_reduce(losses)
        row = {"epoch": epoch + steps / len(self.sampler), "loss": float(losses.mean())}
        self._tell({**row, **self.hooks.after_epoch(epoch)})

    def _tell(self, row: dict[str, float]) -> None:
        self.history.append(row)
        figures = {name: value for name, value in row.items() if name != "epoch"}
        for callback in self.callbacks:
            callback.on_epoch(self.label, row["epoch"], figures)

    def _remember(self, score: float, epoch: int, patience: int) -> None:
        if score > self.best[0]:
            self.best, self.stale = (score, epoch), 0
            self.best_weights = {
                name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()
            }
        else:
            self.stale += 1
            self.finished = self.finished or self.stale >= patience

    def _note(self) -> str:
        if not self.history:
            return ""
        shown = {name: value for name, value in self.history[-1].items() if name != "epoch"}
        return f"epoch {len(self.history)} " + " ".join(
            f"{name} {value:.4g}" for name, value in shown.items()
        )

    def _all_optimizers(self) -> list[Optimizer]:
        side = self.hooks.side_step
        return self.optimizers if side is None else [*self.optimizers, side.optimizer]

    def _save_is_due(self) -> bool:
        checkpointing = self.checkpointing
        return (
            checkpointing is not None
            and time.monotonic() - self._last_saved >= checkpointing.seconds
        )

    def _save(self) -> None:
        if self.checkpointing is None or self.rank > 0:
            return
        hook_tensors, hook_facts = self.hooks.state()
        tensors = {
            **prefixed("model", self.model.state_dict(), by="/"),
            **prefixed("best", self.best_weights, by="/"),
            **prefixed("hooks", hook_tensors, by="/"),
            "losses": self.losses,
        }
        for index, optimizer in enumerate(self._all_optimizers()):
            tensors |= prefixed(f"optimizer{index}", pack_optimizer(optimizer), by="/")
        facts = {
            "stage": self.checkpointing.stage,
            "sampler": self.sampler.state_dict(),
            "hooks": hook_facts,
            "history": self.history,
            "best": self.best if self.best_weights else None,
            "stale": self.stale,
            "finished": self.finished,
        }
        write_checkpoint(self.checkpointing.path, tensors, facts)
        self._last_saved = time.monotonic()

    def _resume(self) -> None:
        if self.checkpointing is None or not self.checkpointing.path.exists():
            return
        tensors, facts = read_checkpoint(self.checkpointing.path)
        if facts["stage"] != self.checkpointing.stage:
            return
        tensors = {name: tensor.to(self.sampler.device) for name, tensor in tensors.items()}
        self.hooks.load_state(under("hooks", tensors, by="/"), facts["hooks"])
        self.model.load_state_dict(under("model", tensors, by="/"))
        for index, optimizer in enumerate(self._all_optimizers()):
            unpack_optimizer(optimizer, under(f"optimizer{index}", tensors, by="/"))
        self.sampler.load_state_dict(facts["sampler"])
        self.losses = tensors["losses"]
        self.history, self.stale = facts["history"], facts["stale"]
        self.finished = facts["finished"]
        self.best_weights = under("best", tensors, by="/")
        if facts["best"]:
            self.best = (facts["best"][0], facts["best"][1])
