"""What every embedding must do; test classes inherit it and say how to build theirs."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.func import functional_call

from cerp.data.ids import Ids
from cerp.data.interactions import Interactions
from cerp.errors import ConfigError
from cerp.models import backbones
from cerp.models.batch import Batch
from cerp.models.embeddings.base import Embedding
from cerp.models.recommender import Recommender
from cerp.training.losses import bpr

ENTITIES, DIM = 23, 6
ALL_IDS = torch.arange(ENTITIES)

USERS, ITEMS = 9, 14
TRAIN = Interactions.from_codes(
    np.arange(27) % USERS, np.arange(27) * 5 % ITEMS, users=Ids.range(USERS), items=Ids.range(ITEMS)
)
DEGREES = np.concatenate([np.bincount(TRAIN.user), np.bincount(TRAIN.item)])
BATCH = Batch(
    torch.tensor([2, 0, 2, 7]),
    torch.tensor([10, 0, 13, 7]),
    torch.tensor([[4, 1], [5, 9], [0, 5], [3, 3]]),
)
BACKBONES = {"lightgcn": {"layers": 2}, "mf": {}, "mlp": {"reference_dim": 8}}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def gradients(embedding: Embedding) -> list[Tensor]:
    return [entry.grad for entry in embedding.parameters() if entry.grad is not None]


def recommender(embedding: Embedding, backbone: str) -> Recommender:
    options = {"embedding_dim": embedding.embedding_dim, **BACKBONES[backbone]}
    return Recommender(embedding, backbones.create(backbone, TRAIN, generator=seeded(1), **options))


class EmbeddingContract:
    def build(self, padding_idx: int | None = None, seed: int = 0) -> Embedding:
        """In evaluation where training differs from it: there a vector may depend on its batch."""
        raise NotImplementedError

    def fresh(self, padding_idx: int | None = None) -> Embedding:
        """What a saved state is loaded into: never pruned, other numbers."""
        raise NotImplementedError

    @pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3), (2, 1, 3)])
    def test_ids_of_any_shape_give_vectors_of_that_shape(self, shape: tuple[int, ...]):
        embedding = self.build()
        vectors = embedding(torch.zeros(shape, dtype=torch.long))
        assert vectors.shape == (*shape, embedding.embedding_dim)

    def test_table_and_lookups_agree(self):
        embedding = self.build()
        torch.testing.assert_close(embedding.table(), embedding(ALL_IDS))

    @pytest.mark.parametrize("padding_idx", [None, 3])
    def test_many_lookups_give_what_single_ones_do(self, padding_idx: int | None):
        embedding = self.build(padding_idx)
        torch.testing.assert_close(embedding.lookup()(ALL_IDS), embedding(ALL_IDS))

    @pytest.mark.parametrize("padding_idx", [None, 3])
    def test_blocks_are_columns_of_the_table_with_its_rows_in_order(self, padding_idx: int | None):
        embedding = self.build(padding_idx)
        blocks = embedding.table_blocks(ALL_IDS.flip(0), 4)
        assert max(block.shape[1] for block in blocks) <= 4
        torch.testing.assert_close(torch.cat(blocks, dim=1), embedding.table().flip(0))

    def test_table_and_lookups_have_the_same_gradient(self):
        by_table, by_lookup = self.build(), self.build()
        incoming = torch.randn(ENTITIES, by_table.embedding_dim, generator=seeded())
        by_table.table().backward(incoming)
        by_lookup(ALL_IDS).backward(incoming)
        for one, other in zip(by_table.parameters(), by_lookup.parameters(), strict=True):
            torch.testing.assert_close(one.grad, other.grad)

    def test_lookups_have_the_gradient_of_finite_differences(self):
        embedding = self.build().double()
        learned = {
            name: parameter.detach().clone().requires_grad_()
            for name, parameter in embedding.named_parameters()
            if name in self.smooth(embedding)
        }

        def look_up(*values: Tensor) -> Tensor:
            state = dict(zip(learned, values, strict=True))
            vectors: Tensor = functional_call(embedding, state, (torch.tensor([0, 22, 7, 0]),))
            return vectors

        assert torch.autograd.gradcheck(look_up, tuple(learned.values()), fast_mode=True)

    def smooth(self, embedding: Embedding) -> set[str]:
        """The parameters in which vectors have a true gradient: all, unless a method differs."""
        return {name for name, _ in embedding.named_parameters()}

    @pytest.mark.parametrize("backbone", BACKBONES)
    def test_a_training_step_on_every_backbone_lowers_the_loss(self, backbone: str):
        model = recommender(self.build().train(), backbone)
        loss = bpr(model(BATCH).scores)
        loss.backward()
        found = gradients(model.embedding)
        assert all(torch.isfinite(gradient).all() for gradient in found)
        assert any(gradient.any() for gradient in found)
        # So short a step that the loss falls by half of its first-order change at least.
        squared = float(sum(gradient.double().square().sum() for gradient in found))
        rate = 1e-3 * loss.item() / squared
        torch.optim.SGD(model.embedding.parameters(), lr=rate).step()
        assert (loss - bpr(model(BATCH).scores)).item() > 0.5 * rate * squared

    def test_int32_ids_are_as_good_as_int64(self):
        embedding = self.build()
        assert torch.equal(embedding(ALL_IDS.int()), embedding(ALL_IDS))

    @pytest.mark.parametrize("outside", [-1, ENTITIES, ENTITIES + 1, -ENTITIES])
    def test_an_id_out_of_range_is_refused(self, outside: int):
        with pytest.raises(IndexError):
            self.build()(torch.tensor([0, outside]))

    @pytest.mark.parametrize("padding_idx", [3, 3 - ENTITIES])
    def test_the_padding_is_zero_and_learns_nothing(self, padding_idx: int):
        embedding = self.build(padding_idx)
        for vectors in (embedding(ALL_IDS), embedding.table()):
            assert vectors[3].count_nonzero() == 0
            assert vectors.count_nonzero() > 0
            vectors[3].sum().backward()
            assert not any(gradient.any() for gradient in gradients(embedding))

    def test_a_padding_outside_the_table_is_refused(self):
        with pytest.raises(ConfigError, match="padding_idx 23"):
            self.fresh(padding_idx=ENTITIES)

    def test_sparsity_is_the_share_of_the_full_table_that_is_not_stored(self):
        embedding = self.build()
        assert embedding.sparsity == 1 - embedding.nnz / (ENTITIES * embedding.embedding_dim)

    def test_the_count_that_budgets_limit_is_the_papers(self):
        embedding = self.build()
        assert embedding.cost().paper_count == embedding.nnz

    def test_the_same_seed_gives_the_same_vectors(self):
        assert torch.equal(self.build(seed=5).table(), self.build(seed=5).table())
        assert not torch.equal(self.build(seed=5).table(), self.build(seed=6).table())

    def test_a_fresh_embedding_takes_over_a_saved_state(self):
        saved, loaded = self.build(), self.fresh()
        loaded.load_state_dict(saved.state_dict())
        assert torch.equal(loaded.table(), saved.table())
        assert loaded.nnz == saved.nnz
        assert loaded.state_dict().keys() == saved.state_dict().keys()

    def test_a_used_embedding_goes_back_to_a_saved_state(self):
        saved = self.fresh()
        used = self.build()
        used.table()
        used.load_state_dict(saved.state_dict())
        assert torch.equal(used.table(), saved.table())

    def test_a_copy_is_independent(self):
        embedding = self.build()
        before = embedding.table().detach().clone()
        twin = copy.deepcopy(embedding)
        for parameter in twin.parameters():
            parameter.data.mul_(2)
        assert torch.equal(embedding.table(), before)
        assert not torch.equal(twin.table(), before)

    def test_it_computes_in_double_precision_after_a_cast(self):
        embedding = self.build()
        single = embedding.table().detach().clone()
        double = embedding.double().table()
        assert double.dtype == torch.float64
        torch.testing.assert_close(double.float(), single)

    @pytest.mark.gpu
    def test_vectors_are_the_same_on_the_gpu(self):
        embedding = self.build()
        expected = embedding.table().detach().clone()
        moved = embedding.cuda()
        torch.testing.assert_close(moved.table().cpu(), expected)
        torch.testing.assert_close(moved(ALL_IDS.cuda()).cpu(), expected)
