"""Adam by torch's fused kernels, without `torch.optim`.

What `torch.optim` makes imports torch's compiler first: four seconds of CPU at the start of every
run, for nothing. Steps are those of ``torch.optim.Adam(fused=True)``, to the bit where that is
what takes them; where a run has kernels of its own, those do.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from cerp.kernels.triton_there import in_use

EPSILON = 1e-8
TILE = 65536
"""Values of a tile of torch's kernel: what has no more is moved by it, all at once."""


class Optimizer(Protocol):
    """What the training loop asks of an optimizer; those of torch have it."""

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """Parameters and their learning rate, ``lr``."""

    @property
    def state(self) -> MutableMapping[Any, Any]:
        """What is remembered of each parameter."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget gradients."""

    def step(self) -> Any:
        """Move every parameter that has a gradient."""

    def state_dict(self) -> dict[str, Any]:
        """What is remembered, by the number of the parameter."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""


class Adam:
    """Adam with coupled (L2) weight decay, or AdamW where decay is ``decoupled``.

    The learning rate and the step count lie on the parameters' device, so that a step can be
    recorded (see `cerp.training.cuda_graphs`).
    """

    def __init__(
        self,
        parameters: Sequence[nn.Parameter],
        *,
        learning_rate: float,
        weight_decay: float = 0.0,
        decoupled: bool = False,
        betas: tuple[float, float] = (0.9, 0.999),
    ) -> None:
        rate = torch.tensor(learning_rate, device=parameters[0].device)
        self.param_groups: list[dict[str, Any]] = [{"params": list(parameters), "lr": rate}]
        self.state: dict[nn.Parameter, dict[str, Tensor]] = {}
        self.weight_decay, self.decoupled, self.betas = weight_decay, decoupled, betas

    @property
    def parameters(self) -> list[nn.Parameter]:
        """What is moved."""
        found: list[nn.Parameter] = self.param_groups[0]["params"]
        return found

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget gradients; they are made anew."""
        for parameter in self.parameters:
            if set_to_none or parameter.grad is None:
                parameter.grad = None
            else:
                parameter.grad.zero_()

    @torch.no_grad()
    def step(self) -> None:
        """One kernel for all parameters of a type that have a gradient."""
        alike: dict[torch.dtype, list[tuple[nn.Parameter, Tensor]]] = {}
        for parameter in self.parameters:
            if parameter.grad is not None:
                alike.setdefault(parameter.dtype, []).append((parameter, parameter.grad))
        for moved in alike.values():
            self._move(moved)

    def _move(self, moved: list[tuple[nn.Parameter, Tensor]]) -> None:
        torch._foreach_add_([self._kept(parameter)["step"] for parameter, _ in moved], 1)
        by_kernels = [each for each in moved if _has_kernel(each[0])]
        by_torch = [each for each in moved if not _has_kernel(each[0])]
        if by_kernels:
            self._move_by_kernels(by_kernels)
        if by_torch:
            self._move_by_torch(by_torch)

    def _move_by_torch(self, moved: list[tuple[nn.Parameter, Tensor]]) -> None:
        kept = [self.state[parameter] for parameter, _ in moved]
        move = torch._fused_adamw_ if self.decoupled else torch._fused_adam_
        move(
            [parameter for parameter, _ in moved],
            [grad for _, grad in moved],
            [each["exp_avg"] for each in kept],
            [each["exp_avg_sq"] for each in kept],
            [],
            [each["step"] for each in kept],
            lr=self.param_groups[0]["lr"],
            beta1=self.betas[0],
            beta2=self.betas[1],
            weight_decay=self.weight_decay,
            eps=EPSILON,
            amsgrad=False,
            maximize=False,
        )

    def _move_by_kernels(self, moved: list[tuple[nn.Parameter, Tensor]]) -> None:
        """Two at a time: weights and their thresholds."""
        from cerp.kernels.adam import Moved, adam_step

        found = []
        for parameter, grad in moved:
            kept = self.state[parameter]
            found.append(Moved(parameter, grad, kept["exp_avg"], kept["exp_avg_sq"], kept["step"]))
        for place in range(0, len(found), 2):
            adam_step(
                found[place],
                found[place + 1] if place + 1 < len(found) else None,
                self.param_groups[0]["lr"],
                betas=self.betas,
                weight_decay=self.weight_decay,
                decoupled=self.decoupled,
                epsilon=EPSILON,
            )

    def _kept(self, parameter: nn.Parameter) -> dict[str, Tensor]:
        """Moments and steps of a parameter, zero at first; names as torch has them."""
        if parameter not in self.state:
            self.state[parameter] = {
                "step": torch.zeros((), dtype=torch.float32, device=parameter.device),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
        return self.state[parameter]

    def state_dict(self) -> dict[str, Any]:
        """What is remembered, by the number of the parameter."""
        numbers = {parameter: number for number, parameter in enumerate(self.parameters)}
        return {
            "state": {numbers[parameter]: kept for parameter, kept in self.state.items()},
            "param_groups": self.param_groups,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Remember what `state_dict` gave for the same parameters."""
        self.state = {
            self.parameters[number]: {
                name: value.to(self.parameters[number].device, copy=True)
                for name, value in kept.items()
            }
            for number, kept in state_dict["state"].items()
        }


def _has_kernel(parameter: nn.Parameter) -> bool:
    return (
        in_use(parameter.device)
        and parameter.dtype == torch.float32
        and parameter.numel() > TILE
        and parameter.is_contiguous()
    )
