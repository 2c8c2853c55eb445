"""What embeddings with prunable weights share: thresholds, masks, and exact projection."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from cerp.budget import Budget
from cerp.choices import ThresholdStart
from cerp.errors import ConfigError, DataError
from cerp.models.embeddings.base import Embedding
from cerp.models.embeddings.packing import packed_bits, unpacked_bits
from cerp.pruning.functional import margin, soft_threshold, top_mask
from cerp.pruning.thresholds import initial_threshold


class PrunableEmbedding(Embedding):
    """An embedding whose ``weight`` is pruned entry by entry, in one of three states.

    - dense: Ŵ = W;
    - pruning (after `start_pruning`): Ŵ = sign(W)·relu(|W| − ceiling·σ(S + shift)), where
      shift = 0 and ceiling = 1 as in the paper unless `ScheduledClock` sets them;
    - masked (after `project`, `freeze` or `restrict`): Ŵ = W·mask, and the mask only ever
      shrinks.

    Subclasses make ``weight`` and say what its rows are.
    """

    weight: nn.Parameter
    threshold: nn.Parameter | None
    shift: Tensor
    ceiling: Tensor
    mask: Tensor | None

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx)
        single = torch.promote_types(torch.get_default_dtype(), torch.float32)
        self.register_parameter("threshold", None)
        self.register_buffer("shift", torch.zeros((), dtype=single))
        self.register_buffer("ceiling", torch.ones((), dtype=single))
        self.register_buffer("mask", None)

    @property
    def num_rows(self) -> int:
        """How many rows the weights have."""
        return len(self.weight)

    @property
    def state(self) -> str:
        """``dense``, ``pruning`` or ``masked``."""
        if self.threshold is not None:
            return "pruning"
        return "dense" if self.mask is None else "masked"

    def effective_weight(self) -> Tensor:
        """Ŵ: the weights as lookups see them."""
        self._refuse_stale_wrapper()
        if self.threshold is not None:
            return soft_threshold(self.weight, self.threshold, self.ceiling, self.shift)
        return self.weight if self.mask is None else self.weight * _numbers(self.mask)

    def effective_rows(self, rows: Tensor) -> Tensor:
        """Some rows of Ŵ, at the price of those alone."""
        self._refuse_stale_wrapper()
        weight = F.embedding(rows, self.weight)
        if self.threshold is not None:
            threshold = F.embedding(rows, self.threshold)
            return soft_threshold(weight, threshold, self.ceiling, self.shift)
        return weight if self.mask is None else weight * F.embedding(rows, _numbers(self.mask))

    def start_pruning(
        self,
        init: ThresholdStart = "ones",
        *,
        scale: float = -100.0,
        generator: torch.Generator | None = None,
    ) -> None:
        """Give every entry a learnable threshold (see `cerp.pruning.thresholds.initial_threshold`).

        ``threshold`` is a new parameter, of 32 bits at least: make optimizers, and wrappers such
        as ``DistributedDataParallel``, after this call.
        """
        if self.threshold is not None or self.mask is not None:
            raise ConfigError("pruning starts once, from dense weights; these are pruned already")
        weight = self.weight.detach()
        single = weight.to(torch.promote_types(weight.dtype, torch.float32))
        start = initial_threshold(init, single, scale, generator)
        self.threshold = nn.Parameter(start)
        self.shift.zero_()

    @torch.no_grad()
    def stored_mask(self) -> Tensor:
        """The entries that are stored: all; while pruning, the non-zero ones; then the mask.

        A masked entry is stored also where its value is zero, as after rounding.
        """
        if self.threshold is not None:
            return self.effective_weight() != 0
        return torch.ones_like(self.weight, dtype=torch.bool) if self.mask is None else self.mask

    @property
    @torch.no_grad()
    def nnz(self) -> int:
        """How many entries are stored."""
        if self.state == "dense":
            return self.weight.numel()
        return int(torch.count_nonzero(self.stored_mask()))

    @torch.no_grad()
    def mask_for(self, budget: Budget | str | int) -> Tensor:
        """The entries that `project` would keep: the top t by ``|W| − ceiling·σ(S + shift)``."""
        limit = Budget.parse(budget).limit(self.num_embeddings, self.embedding_dim)
        if not torch.isfinite(self.weight).all():
            raise DataError("the weights hold NaN or infinity; they cannot be ranked for pruning")
        if self.threshold is not None:
            return top_mask(margin(self.weight, self.threshold + self.shift, self.ceiling), limit)
        if self.mask is None:
            return top_mask(self.weight.abs(), limit)
        return top_mask(self.weight.abs().masked_fill(~self.mask, -1.0), limit) & self.mask

    def project(self, budget: Budget | str | int) -> Tensor:
        """Keep at most t entries from now on, at their soft-thresholded values; drop thresholds.

        Where fewer than t entries are non-zero, those nearest to surviving are
        kept at 0 and may grow again. Returns the mask.
        """
        return self.restrict(self.mask_for(budget))

    @torch.no_grad()
    def freeze(self) -> Tensor:
        """Keep from now on just the entries that are non-zero now; drop thresholds.

        Masked weights keep their mask. Returns the mask.
        """
        return self.restrict(self.effective_weight() != 0 if self.mask is None else self.mask)

    @torch.no_grad()
    def restrict(self, mask: Tensor) -> Tensor:
        """Keep from now on just the entries of a mask; drop thresholds. Returns the mask."""
        if mask.shape != self.weight.shape:
            raise DataError(
                f"the mask has shape {tuple(mask.shape)}, the weights {tuple(self.weight.shape)}"
            )
        mask = mask.to(self.weight.device)
        mask = mask if self.mask is None else mask & self.mask
        self.weight.copy_(self.effective_weight() * mask)
        self.threshold, self.mask = None, mask
        self.shift.zero_()
        return mask

    @torch.no_grad()
    def rewind(self, initial_weight: Tensor) -> None:
        """``W = initial · mask``: the surviving entries back at their first values."""
        if self.mask is None:
            raise ConfigError("only masked weights can be rewound; call project() or freeze()")
        if initial_weight.shape != self.weight.shape:
            raise DataError(
                f"the initial weights have shape {tuple(initial_weight.shape)}, "
                f"these have {tuple(self.weight.shape)}"
            )
        if not torch.isfinite(initial_weight).all():
            raise DataError("the initial weights hold NaN or infinity")
        self.weight.copy_(initial_weight.to(self.weight.device) * self.mask)

    def _refuse_stale_wrapper(self) -> None:
        """Refuse a data-parallel wrapper that was made before the thresholds were there.

        It would average the gradients of the weights alone: the thresholds of the processes,
        and so their masks, would come apart without a word.
        """
        if self.threshold is None or torch.compiler.is_compiling():
            return
        wrapper = getattr(DistributedDataParallel, "_active_ddp_module", None)
        if wrapper is None:
            return
        if not any(known is self.threshold for known in wrapper._module_parameters):
            raise ConfigError(
                "the model was wrapped in DistributedDataParallel before start_pruning(), so that "
                "processes would not share the gradients of thresholds; wrap the model after "
                "start_pruning(), and once more after project() or freeze()"
            )

    def _apply(self, fn: Any, recurse: bool = True) -> PrunableEmbedding:
        """Casts and moves; what thresholds are made of stays at 32 bits or more."""
        kept = {
            name: value.data
            for name in ("threshold", "shift", "ceiling")
            if (value := getattr(self, name)) is not None
        }
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, value in kept.items():
            moved = getattr(self, name)
            if torch.finfo(moved.dtype).bits < 32:
                moved.data = value.to(moved.device, torch.float32)
        return self

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Of masked weights the stored values, in order, and the mask as bits."""
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self.mask is not None and not keep_vars:
            destination[prefix + "weight"] = self.weight.detach()[self.mask]
            destination[prefix + "mask"] = packed_bits(self.mask)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Take over the state, dense, pruning or masked, of what is loaded."""
        if prefix + "threshold" not in state_dict:
            self.threshold = None
        elif self.threshold is None:
            single = torch.promote_types(self.weight.dtype, torch.float32)
            self.threshold = nn.Parameter(torch.empty_like(self.weight, dtype=single))
        if prefix + "mask" not in state_dict:
            self.mask = None
        else:
            self._unpack(state_dict, prefix)
            if self.mask is None:
                self.mask = torch.empty_like(self.weight, dtype=torch.bool)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def _unpack(self, state_dict: dict[str, Any], prefix: str) -> None:
        """Mask and weights as they were before `_save_to_state_dict`; older states are whole."""
        bits, values = state_dict[prefix + "mask"], state_dict.get(prefix + "weight")
        if bits.dtype != torch.uint8 or values is None:
            return
        mask = unpacked_bits(bits, self.weight.shape)
        if mask is None or values.shape != (int(mask.sum()),):
            return  # of another size, which torch then says
        weight = torch.zeros(mask.shape, dtype=values.dtype, device=values.device)
        weight[mask.to(values.device)] = values
        state_dict[prefix + "mask"], state_dict[prefix + "weight"] = mask, weight


def _numbers(mask: Tensor) -> Tensor:
    """A mask as zeros and ones, in its own memory: products with booleans take thrice as long."""
    return mask.view(torch.uint8)
