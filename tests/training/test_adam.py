"""Adam without `torch.optim` takes the steps of torch's."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from cerp.training.adam import Adam
from cerp.training.checkpoint import pack_optimizer, unpack_optimizer


def parameters() -> list[torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    drawn = [torch.randn(shape, generator=generator) for shape in ((40, 8), (3,), (5, 2))]
    made = [torch.nn.Parameter(each) for each in drawn]
    made[2].data = made[2].data.double()
    return made


def give_gradients(held: list[torch.nn.Parameter], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for number, parameter in enumerate(held):
        drawn = torch.randn(parameter.shape, generator=generator).to(parameter.dtype)
        parameter.grad = None if number == 1 and seed == 2 else drawn


@pytest.mark.parametrize("decoupled", [False, True])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_steps_are_those_of_torch_to_the_bit(decoupled: bool, weight_decay: float):
    ours, theirs = parameters(), parameters()
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    own = Adam(ours, learning_rate=0.01, weight_decay=weight_decay, decoupled=decoupled)
    torchs = kind(theirs, lr=torch.tensor(0.01), weight_decay=weight_decay, fused=True)
    for seed in range(5):
        for optimizer, held in ((own, ours), (torchs, theirs)):
            give_gradients(held, seed)
            optimizer.step()
    for one, other in zip(ours, theirs, strict=True):
        assert torch.equal(one, other)
        for name, value in torchs.state[other].items():
            assert torch.equal(own.state[one][name], value)


def test_a_packed_state_goes_on_to_the_same_end():
    straight, resumed = parameters(), parameters()
    first = Adam(straight, learning_rate=0.01)
    give_gradients(straight, 0)
    first.step()
    second = Adam(resumed, learning_rate=0.01)
    unpack_optimizer(second, pack_optimizer(first))
    for one, other in zip(straight, resumed, strict=True):
        other.data.copy_(one.data)
    for optimizer, held in ((first, straight), (second, resumed)):
        give_gradients(held, 1)
        optimizer.step()
    assert all(map(torch.equal, straight, resumed))


def test_gradients_are_forgotten():
    held = parameters()
    optimizer = Adam(held, learning_rate=0.01)
    give_gradients(held, 0)
    optimizer.zero_grad(set_to_none=False)
    assert not any(parameter.grad.any() for parameter in held)
    optimizer.zero_grad()
    assert all(parameter.grad is None for parameter in held)


def test_a_run_does_without_the_compiler():
    script = (
        "import sys, torch, cerp\n"
        "from cerp.data.synthetic import synthetic\n"
        "cerp.fit(synthetic(30, 20, 200), '90%', dim=4, epochs=1, prune_epochs=1, verbose=False)\n"
        "sys.exit('torch._dynamo' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
