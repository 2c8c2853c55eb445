"""Kernels give what torch's own operations give; they are compiled on GPUs alone."""

from __future__ import annotations

import pytest
import torch

from cerp.kernels import triton_there
from cerp.kernels.triton_there import MANY, in_use, pay_off, work_on
from cerp.models.backbones.sum_penalty import penalty_of_sums
from cerp.models.embeddings.composition import Composition
from cerp.pruning.functional import pruning_penalty, soft_threshold
from cerp.training.adam import TILE, Adam
from cerp.training.losses import bpr

GPU = torch.device("cuda")


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(GPU)


def with_and_without(monkeypatch, work):
    """What something gives with kernels, and without."""
    device = torch.empty(0, device=GPU).device
    assert work_on(device)
    found = work()
    monkeypatch.setattr(triton_there, "_WORKING", {device: False})
    return zip(found, work(), strict=True)


def test_cpus_have_no_kernels():
    assert not work_on(torch.device("cpu"))
    assert not in_use(torch.device("cpu"))
    assert not pay_off(torch.device("cpu"), MANY)


@pytest.mark.gpu
def test_a_large_batch_has_kernels_compiled_and_others_then_use_them(monkeypatch):
    monkeypatch.setattr(triton_there, "_WORKING", {})
    device = torch.empty(0, device=GPU).device
    assert not pay_off(device, MANY - 1)
    assert not in_use(device)
    assert pay_off(device, MANY)
    assert in_use(device)
    assert pay_off(device, 1)
    torch.use_deterministic_algorithms(True)
    try:
        assert not pay_off(device, MANY)  # sums come in any order
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.gpu
def test_soft_thresholds_and_their_gradients(monkeypatch):
    def work():
        weight = (normal(300, 64) * 0.01).requires_grad_()
        threshold = (normal(300, 64, seed=1) - 6).requires_grad_()
        most, shift = torch.tensor([1.3, 1.0], device=GPU).unbind(0)
        pruned = soft_threshold(weight, threshold, most, shift)
        pruned.backward(normal(300, 64, seed=2))
        return [pruned.detach(), weight.grad, threshold.grad]

    for kernel, plain in with_and_without(monkeypatch, work):
        assert 0 < plain.count_nonzero() < plain.numel()
        torch.testing.assert_close(kernel, plain, rtol=1e-5, atol=1e-8)


@pytest.mark.gpu
@pytest.mark.parametrize("decoupled", [False, True])
def test_steps_of_adam(decoupled: bool, monkeypatch):
    def work() -> list[torch.Tensor]:
        # By kernels two of them at once and one alone; the smallest by torch.
        shapes = [(TILE + 5,), (2 * TILE, 2), (TILE + 1,), (5,)]
        held = [torch.nn.Parameter(normal(*shape, seed=len(shape))) for shape in shapes]
        optimizer = Adam(held, learning_rate=0.01, weight_decay=0.1, decoupled=decoupled)
        for step in range(100):
            for parameter in held:
                parameter.grad = normal(*parameter.shape, seed=step)
            optimizer.step()
        return [*(one.detach() for one in held), optimizer.state[held[1]]["exp_avg_sq"]]

    for kernel, plain in with_and_without(monkeypatch, work):
        torch.testing.assert_close(kernel, plain, rtol=1e-4, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("books", [2, 8])
def test_penalty_of_sums_of_rows(books: int):
    rows = torch.randint(30, (books, 1001), generator=torch.Generator().manual_seed(0)).to(GPU)
    composition = Composition.of(list(rows), 30)
    counts = torch.arange(1001, device=GPU) % 3 * 1.0
    weights = [(normal(30, 64) * 0.01).requires_grad_() for _ in range(2)]
    kernel = penalty_of_sums(weights[0], composition, counts, 50.0)
    table = composition.table(weights[1])
    plain = pruning_penalty(table, temperature=50.0, weight=counts)
    torch.testing.assert_close(kernel, plain)
    for penalty in (kernel, plain):
        (2 * penalty).backward()
    torch.testing.assert_close(weights[0].grad, weights[1].grad, rtol=1e-4, atol=1e-3)


@pytest.mark.gpu
@pytest.mark.parametrize("negatives", [1, 5])
def test_the_loss_and_its_gradient(negatives: int, monkeypatch):
    def work():
        scores = (normal(1001, 1 + negatives) * 10).requires_grad_()
        loss = bpr(scores)
        (3 * loss).backward()
        return [loss.detach(), scores.grad]

    for kernel, plain in with_and_without(monkeypatch, work):
        torch.testing.assert_close(kernel, plain, rtol=1e-4, atol=1e-5)
