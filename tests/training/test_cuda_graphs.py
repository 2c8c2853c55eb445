"""Steps recorded as CUDA graphs do what plain steps do."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from cerp.data.synthetic import synthetic
from cerp.kernels import tiles, triton_there
from cerp.kernels.triton_there import work_on
from cerp.models import backbones
from cerp.models.backbones import LightGCN
from cerp.models.batch import Batch
from cerp.models.embeddings.compositional import CompositionalEmbedding
from cerp.models.embeddings.full import FullEmbedding
from cerp.models.recommender import Recommender
from cerp.training.adam import Adam
from cerp.training.cuda_graphs import in_a_row
from cerp.training.loop import Loop, StageHooks
from cerp.training.objective import Objective
from cerp.training.sampling import Sampler


class Halving(StageHooks):
    """A new objective in every epoch, so that each is recorded anew."""

    def objective(self, usual: Objective, epoch: int) -> Objective:
        return replace(usual, gamma=1e-3 * 0.5**epoch)


def trained(
    backbone: str, *, is_pruning: bool, is_captured: bool, device: str, is_dense: bool = False
) -> torch.Tensor:
    splits = synthetic(300, 200, 5000).split(seed=0)
    seeded = torch.Generator().manual_seed(0)
    embedding: FullEmbedding | CompositionalEmbedding = FullEmbedding(500, 16, generator=seeded)
    if is_pruning:
        embedding = CompositionalEmbedding(500, 16, buckets=60, generator=seeded)
        embedding.start_pruning(scale=-6.0)
    model = Recommender(
        embedding,
        backbones.create(backbone, splits.train, embedding_dim=16, generator=seeded),
    ).to(device)
    model.embedding.capturable = is_captured  # type: ignore[misc]
    if isinstance(model.backbone, LightGCN):
        model.backbone.dense_on = device if is_dense else "nowhere"  # type: ignore[misc]
    sampler = Sampler(splits.train, batch_size=256, seed=1, device=device)
    optimizer = Adam(list(model.parameters()), learning_rate=1e-3)
    Loop(model, sampler, [optimizer], epochs=2, hooks=Halving(), label="", quiet=True).run()
    if isinstance(model.backbone, LightGCN):
        assert (model.backbone._dense is not None) == is_dense
    return model.embedding.table().detach()


@pytest.mark.gpu
@pytest.mark.parametrize("is_pruning", [False, True])
@pytest.mark.parametrize("backbone", ["mf", "mlp", "lightgcn"])
def test_recorded_steps_learn_what_plain_steps_learn(
    backbone: str, is_pruning: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(triton_there, "_WORKING", {torch.empty(0, device="cuda").device: False})
    recorded, plain = (
        trained(backbone, is_pruning=is_pruning, is_captured=is_captured, device="cuda")
        for is_captured in (True, False)
    )
    # cuSPARSE's products, which LightGCN uses, differ in the last bits from run to run.
    torch.testing.assert_close(recorded, plain, rtol=0, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("is_pruning", [False, True])
@pytest.mark.parametrize("backbone", ["mf", "mlp"])
def test_steps_by_kernels_learn_what_plain_steps_learn(
    backbone: str, is_pruning: bool, monkeypatch: pytest.MonkeyPatch
):
    device = torch.empty(0, device="cuda").device
    assert work_on(device)
    by_kernels, recorded = (
        trained(backbone, is_pruning=is_pruning, is_captured=is_captured, device="cuda")
        for is_captured in (False, True)
    )
    monkeypatch.setattr(triton_there, "_WORKING", {device: False})
    plain = trained(backbone, is_pruning=is_pruning, is_captured=False, device="cuda")
    # Sums come in another order, and Adam moves a value as far for a small gradient as for a large.
    assert (by_kernels - plain).norm() < 1e-3 * plain.norm()
    assert (recorded - plain).norm() < 1e-3 * plain.norm()


@pytest.mark.gpu
@pytest.mark.parametrize("fewest_columns", [0, 10**9])  # by Triton's kernels, and without
def test_a_dense_matrix_in_the_place_of_propagation_is_recorded_too(
    fewest_columns: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tiles, "FEWEST_COLUMNS", fewest_columns)
    recorded, plain, sparse = (
        trained("lightgcn", is_pruning=True, is_captured=captured, device="cuda", is_dense=dense)
        for captured, dense in ((True, True), (False, True), (True, False))
    )
    # Half precision: sums of another order are now and then rounded to the next number.
    assert (recorded - plain).norm() < 1e-3 * plain.norm()
    assert (recorded - sparse).norm() < 1e-2 * sparse.norm()


def test_training_with_a_dense_matrix_comes_to_what_propagation_comes_to():
    dense, sparse = (
        trained("lightgcn", is_pruning=True, is_captured=False, device="cpu", is_dense=dense)
        for dense in (True, False)
    )
    assert (dense - sparse).norm() < 1e-2 * sparse.norm()


def test_batches_in_one_piece_of_memory_are_copied_at_once():
    whole = torch.arange(30)
    users, positives, negatives = whole[2:].split([4, 4, 20])
    together = in_a_row(Batch(users, positives, negatives.view(4, 5)))
    assert torch.equal(together, whole[2:])
    assert in_a_row(Batch(users, positives.clone(), negatives.view(4, 5))) is None
    assert in_a_row(Batch(positives, users, negatives.view(4, 5))) is None
    assert in_a_row(Batch(users, positives, negatives.view(5, 4).T)) is None


def test_nothing_is_recorded_on_a_cpu():
    recorded, plain = (
        trained("lightgcn", is_pruning=True, is_captured=is_captured, device="cpu")
        for is_captured in (True, False)
    )
    assert torch.equal(recorded, plain)
