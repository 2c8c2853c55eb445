"""Lookups by kernels give what plain lookups give; they are compiled on GPUs alone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
import torch

from cerp.kernels import triton_there
from cerp.kernels.triton_there import MANY, work_on
from cerp.models.embeddings import codebook_rows, compositional, kernel_sums
from cerp.models.embeddings.compositional import CompositionalEmbedding
from cerp.models.embeddings.kernel_sums import takes
from embedding_contract import seeded

ENTITIES = 700
KINDS: dict[str, Callable[..., CompositionalEmbedding]] = {
    "hash": lambda dim: CompositionalEmbedding(ENTITIES, dim, buckets=60, generator=seeded()),
    "padding": lambda dim: CompositionalEmbedding(ENTITIES, dim, 3, buckets=60, generator=seeded()),
    "codes": lambda dim: CompositionalEmbedding(
        ENTITIES,
        dim,
        codes=np.random.default_rng(0).integers(0, 40, (ENTITIES, 5)),
        buckets=40,
        generator=seeded(),
    ),
}


def in_state(state: str, embedding: CompositionalEmbedding) -> CompositionalEmbedding:
    if state == "pruning":
        embedding.start_pruning("uniform", scale=-4.0, generator=seeded(1))
        embedding.shift.fill_(0.5)
        embedding.ceiling.fill_(1.2)
    elif state == "masked":
        embedding.restrict(torch.rand(embedding.weight.shape, generator=seeded(1)) < 0.4)
    return embedding.cuda()


def gradients(embedding: CompositionalEmbedding, ids: torch.Tensor) -> list[torch.Tensor]:
    """Vectors of ids, and what comes back to weights and thresholds."""
    embedding.zero_grad()
    vectors = embedding(ids)
    vectors.backward(torch.randn(vectors.shape, generator=seeded(2)).cuda())
    return [vectors.detach(), *(one.grad for one in embedding.parameters())]


@pytest.fixture
def kernels() -> None:
    assert work_on(torch.empty(0, device="cuda").device)


def plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_there, "_WORKING", {torch.empty(0, device="cuda").device: False})


def test_on_cpus_lookups_are_plain():
    assert not takes(KINDS["hash"](8).weight, torch.zeros(MANY, dtype=torch.long))


@pytest.mark.gpu
@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("most_pruned", [0, kernel_sums.MOST_PRUNED])
@pytest.mark.parametrize("kept", [0, codebook_rows.KEPT_ROWS])
@pytest.mark.parametrize("dim", [32, 20])
@pytest.mark.parametrize("state", ["dense", "pruning", "masked"])
@pytest.mark.parametrize("kind", list(KINDS))
def test_vectors_and_gradients_are_those_of_plain_lookups(
    kind: str,
    state: str,
    dim: int,
    kept: int,
    most_pruned: int,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(codebook_rows, "KEPT_ROWS", kept)
    monkeypatch.setattr(compositional, "MOST_PRUNED", most_pruned)
    embedding = in_state(state, KINDS[kind](dim))
    ids = torch.randint(ENTITIES, (50, 6), generator=seeded()).cuda()
    ids[0] = 3
    found = gradients(embedding, ids)
    assert takes(embedding.weight, ids)
    plainly(monkeypatch)
    for kernel, plain in zip(found, gradients(embedding, ids), strict=True):
        assert plain.any()
        torch.testing.assert_close(kernel, plain, rtol=1e-4, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.usefixtures("kernels")
def test_ids_may_be_of_32_bits_strided_few_or_none():
    embedding = in_state("pruning", KINDS["hash"](16))
    every = embedding(torch.arange(ENTITIES, device="cuda"))
    strided = torch.arange(ENTITIES, device="cuda")[5::3]
    for ids in (strided, strided.int(), strided[:1], strided[:0], strided[0]):
        assert torch.equal(embedding(ids), every[ids.long()])


@pytest.mark.gpu
@pytest.mark.usefixtures("kernels")
def test_what_kernels_are_not_for_is_looked_up_plainly():
    ids = torch.arange(9, device="cuda")
    half = in_state("pruning", KINDS["hash"](16).to(torch.bfloat16))
    assert not takes(half.weight, ids)
    assert half(ids).dtype == torch.bfloat16
    single = in_state("dense", KINDS["hash"](16))
    assert not takes(single.weight, ids.to(torch.int16))
    assert torch.equal(single(ids.to(torch.int16)), single(ids))


@pytest.mark.gpu
@pytest.mark.usefixtures("kernels")
def test_gradients_are_accumulated_and_not_made_without_need():
    embedding = in_state("pruning", KINDS["codes"](16))
    ids = torch.arange(40, device="cuda")
    for _ in range(2):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            vectors = embedding(ids)
        assert vectors.dtype == torch.float32
        vectors.sum().backward()
    twice = embedding.weight.grad.clone()
    embedding.zero_grad()
    embedding(ids).sum().backward()
    torch.testing.assert_close(twice, 2 * embedding.weight.grad)
    with torch.no_grad():
        assert not embedding(ids).requires_grad
    embedding.weight.requires_grad_(False)
    embedding.zero_grad()
    embedding(ids).sum().backward()
    assert embedding.weight.grad is None
    assert embedding.threshold.grad.any()


@pytest.mark.gpu
@pytest.mark.usefixtures("kernels")
def test_a_second_derivative_is_refused():
    embedding = in_state("pruning", KINDS["hash"](16))
    vectors = embedding(torch.arange(40, device="cuda"))
    (first,) = torch.autograd.grad(vectors.square().sum(), embedding.weight, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


@pytest.mark.gpu
@pytest.mark.usefixtures("kernels")
def test_a_recorded_lookup_reads_what_lies_there():
    embedding = in_state("pruning", KINDS["hash"](16))
    ids, others = torch.arange(90, device="cuda").split(45)
    ids = ids.clone()

    def looked_up(ids: torch.Tensor) -> list[torch.Tensor]:
        # Without what leads back: torch warns of a way that was begun on the stream of a recording.
        vectors = embedding(ids)
        found = torch.autograd.grad(vectors.sum(), list(embedding.parameters()))
        return [vectors.detach(), *found]

    looked_up(ids)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = looked_up(ids)
    ids.copy_(others)
    graph.replay()
    for replayed, expected in zip(recorded, looked_up(others), strict=True):
        torch.testing.assert_close(replayed, expected)


OUT_OF_RANGE = """
import torch
from cerp.kernels.triton_there import MANY
from cerp.models.embeddings import codebook_rows
from cerp.models.embeddings.compositional import CompositionalEmbedding
from cerp.models.embeddings.kernel_sums import takes
codebook_rows.KEPT_ROWS = {kept}
embedding = CompositionalEmbedding(700, 16, buckets=60).cuda()
ids = torch.zeros(MANY, dtype=torch.long, device="cuda")
embedding(ids)
torch.cuda.synchronize()
print("in range", takes(embedding.weight, ids))
ids[5] = {outside}
embedding(ids)
torch.cuda.synchronize()
print("not refused")
"""


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize("kept", [0, 700])
@pytest.mark.parametrize("outside", [-1, 700])
def test_ids_out_of_range_are_refused(outside: int, kept: int):
    script = OUT_OF_RANGE.format(outside=outside, kept=kept)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["in range True"]
    assert "device-side assert" in done.stderr
