"""The MLP by kernels gives what its layers give; kernels are compiled on GPUs alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from cerp.data.synthetic import synthetic
from cerp.kernels import triton_there
from cerp.kernels.triton_there import work_on
from cerp.models.backbones import MLP
from cerp.models.backbones.kernel_tower import takes, takes_widths
from cerp.models.embeddings.full import FullEmbedding
from embedding_contract import seeded

USERS, ITEMS = 80, 60


def made(hidden: tuple[int, ...], device: str) -> tuple[FullEmbedding, MLP]:
    mlp = MLP(synthetic(USERS, ITEMS), embedding_dim=16, generator=seeded(), hidden=hidden)
    for number, parameter in enumerate(mlp.parameters()):
        if parameter.ndim == 1:  # biases are zero at first
            parameter.data.normal_(generator=seeded(number))
    return FullEmbedding(USERS + ITEMS, 16, generator=seeded()).to(device), mlp.to(device)


def gradients(embedding: FullEmbedding, mlp: MLP) -> list[Any]:
    embedding.zero_grad()
    mlp.zero_grad()
    users = torch.randint(USERS, (101,), generator=seeded(1)).cuda()
    items = torch.randint(ITEMS, (101, 6), generator=seeded(2)).cuda()
    scores = mlp(embedding, users, items).scores
    scores.backward(torch.randn(101, 6, generator=seeded(3)).to(scores))
    return [scores.detach(), *(one.grad for one in (*embedding.parameters(), *mlp.parameters()))]


def test_widths_are_whole_tiles():
    assert takes_widths([128, 64, 32])
    assert takes_widths([96, 24, 8])
    assert not takes_widths([100, 64, 32])
    assert not takes_widths([128, 64, 24])
    assert not takes_widths([512, 1024, 2048])


def test_on_cpus_layers_are_taken_one_by_one():
    _, mlp = made((32, 16), "cpu")
    assert not takes(torch.zeros(9000, 16), [mlp.first, *mlp.rest])


@pytest.mark.gpu
@pytest.mark.parametrize("hidden", [(128, 64, 32), (96, 24, 8), (16,)])
def test_scores_and_gradients_are_those_of_the_layers(hidden: tuple[int, ...], monkeypatch):
    device = torch.empty(0, device="cuda").device
    assert work_on(device)
    embedding, mlp = made(hidden, "cuda")
    assert takes(embedding.weight, [mlp.first, *mlp.rest])
    found = gradients(embedding, mlp)
    monkeypatch.setattr(triton_there, "_WORKING", {device: False})
    for kernel, plain in zip(found, gradients(embedding, mlp), strict=True):
        assert plain.any()
        torch.testing.assert_close(kernel, plain, rtol=1e-4, atol=1e-4)


@pytest.mark.gpu
def test_lower_precision_takes_the_layers_one_by_one():
    assert work_on(torch.empty(0, device="cuda").device)
    embedding, mlp = made((32, 16), "cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert not takes(embedding.weight, [mlp.first, *mlp.rest])
        assert gradients(embedding, mlp)[0].dtype == torch.bfloat16
