"""Batches by kernels give what plain lookups give; they are compiled on GPUs alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from cerp.data.synthetic import synthetic
from cerp.kernels import triton_there
from cerp.kernels.triton_there import work_on
from cerp.models import backbones
from cerp.models.backbones.summed_batch import summed_batch
from cerp.models.batch import Batch
from cerp.models.embeddings import codebook_rows
from cerp.models.embeddings.compositional import CompositionalEmbedding
from cerp.models.recommender import Recommender
from cerp.training.objective import Objective
from cerp.training.penalties import complementary
from embedding_contract import seeded

USERS, ITEMS, BATCH = 80, 60, 101


def model(backbone: str, state: str, padding_idx: int | None = None) -> Recommender:
    train = synthetic(USERS, ITEMS)
    embedding = CompositionalEmbedding(
        USERS + ITEMS, 32, padding_idx, buckets=20, generator=seeded()
    )
    if state == "pruning":
        embedding.start_pruning("uniform", scale=-4.0, generator=seeded(1))
    elif state == "masked":
        embedding.restrict(torch.rand(embedding.weight.shape, generator=seeded(1)) < 0.4)
    return Recommender(
        embedding, backbones.create(backbone, train, embedding_dim=32, generator=seeded(2))
    ).cuda()


def batch() -> Batch:
    users = torch.randint(USERS, (BATCH,), generator=seeded(3))
    items = torch.randint(ITEMS, (BATCH, 6), generator=seeded(4))
    return Batch(users.cuda(), items[:, 0].cuda(), items[:, 1:].contiguous().cuda())


def by_hand(*arguments: Any) -> torch.Tensor:
    """The usual penalty as one of a plug-in, which looks at vectors."""
    return complementary(*arguments)


def gradients(made: Recommender, objective: Objective) -> list[Any]:
    """The loss, and what comes back."""
    made.zero_grad()
    loss = objective(made, batch(), BATCH)
    loss.backward()
    return [loss.detach(), *(one.grad for one in made.parameters())]


@pytest.fixture
def device() -> torch.device:
    found = torch.empty(0, device="cuda").device
    assert work_on(found)
    return found


@pytest.mark.gpu
@pytest.mark.parametrize("penalty", [complementary, by_hand])
@pytest.mark.parametrize("gamma", [0.0, 0.3])
@pytest.mark.parametrize("state", ["dense", "pruning", "masked"])
@pytest.mark.parametrize("backbone", ["mf", "mlp"])
def test_losses_and_gradients_are_those_of_plain_lookups(
    backbone: str, state: str, gamma: float, penalty: Any, device: torch.device, monkeypatch
):
    made = model(backbone, state)
    objective = Objective(penalty=penalty, gamma=gamma, temperature=20.0)
    output = made(batch())
    assert output.complementary is not None
    found = gradients(made, objective)
    monkeypatch.setattr(triton_there, "_WORKING", {device: False})
    assert made(batch()).complementary is None
    for kernel, plain in zip(found, gradients(made, objective), strict=True):
        assert plain.any()
        torch.testing.assert_close(kernel, plain, rtol=1e-4, atol=1e-5)


@pytest.mark.gpu
def test_rows_that_are_not_kept_are_the_same(device: torch.device, monkeypatch):
    assert work_on(device)
    made = model("mf", "pruning")
    kept = made(batch()).scores
    monkeypatch.setattr(codebook_rows, "KEPT_ROWS", 0)
    assert torch.equal(made(batch()).scores, kept)


@pytest.mark.gpu
def test_a_padding_is_looked_up_plainly(device: torch.device):
    assert work_on(device)
    made, given = model("mf", "dense", padding_idx=3), batch()
    assert made(given).complementary is None


@pytest.mark.gpu
def test_a_batch_has_its_penalty_at_one_temperature(device: torch.device):
    assert work_on(device)
    penalty = model("mf", "pruning")(batch()).complementary
    assert torch.equal(penalty(20.0), penalty(20.0))
    with pytest.raises(RuntimeError, match="one temperature"):
        penalty(30.0)


def test_on_cpus_nothing_is_summed_by_kernels():
    embedding = CompositionalEmbedding(USERS + ITEMS, 32, buckets=20)
    assert summed_batch(embedding, torch.arange(9000), torch.zeros(9000, 1), 9000) is None
