from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cerp.errors import ConfigError, DataError
from cerp.methods.optembed.evolution import Plan, evolve
from cerp.methods.optembed.supernet import Genes, Supernet, surrogate
from cerp.methods.optembed.widths import EntityWidths, FieldWidths, tilted_shares
from embedding_contract import (
    ALL_IDS,
    BACKBONES,
    DIM,
    ENTITIES,
    USERS,
    EmbeddingContract,
    seeded,
)


def supernet(genes: Genes = "field", dim: int = DIM, **options: object) -> Supernet:
    return Supernet(
        ENTITIES, dim, num_users=USERS, genes=genes, generator=seeded(), **options
    ).eval()


class TestSupernet(EmbeddingContract):
    def build(self, padding_idx: int | None = None, seed: int = 0) -> Supernet:
        embedding = Supernet(
            ENTITIES, DIM, padding_idx, num_users=USERS, generator=seeded(seed)
        ).eval()
        embedding.row_thresholds.data.copy_(torch.tensor([0.5, 0.8]))
        return embedding

    def fresh(self, padding_idx: int | None = None) -> Supernet:
        return self.build(padding_idx, seed=99)

    @pytest.fixture
    def true_step(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The step function with its own gradient, 0; the made-up one has tests below."""
        monkeypatch.setattr("cerp.methods.optembed.supernet.surrogate", torch.zeros_like)

    @pytest.mark.usefixtures("true_step")
    def test_lookups_have_the_gradient_of_finite_differences(self):
        super().test_lookups_have_the_gradient_of_finite_differences()

    @pytest.mark.usefixtures("true_step")
    @pytest.mark.parametrize("backbone", BACKBONES)
    def test_a_training_step_on_every_backbone_lowers_the_loss(self, backbone: str):
        super().test_a_training_step_on_every_backbone_lowers_the_loss(backbone)


def test_the_surrogate_at_some_places():
    margins = torch.tensor([0.0, 0.2, 0.4, 0.7, 1.2])
    expected = torch.tensor([2.0, 1.2, 0.4, 0.4, 0.0])
    torch.testing.assert_close(surrogate(margins), expected)
    torch.testing.assert_close(surrogate(-margins), expected)


def test_gradients_pass_the_step_by_the_surrogate():
    embedding = supernet(dim=2)
    embedding.weight.data.fill_(0.5)
    embedding.weight.data[:2] = torch.tensor([[0.3, -0.4], [0.6, 0.7]])  # norms 0.7 and 1.3
    # The other norms are 1, so that their mean is 1.
    embedding.row_thresholds.data.fill_(0.5)
    embedding(torch.tensor(0)).backward(torch.tensor([1.0, 2.0]))
    # ê = m E with m = 1 and slope h(0.2) = 1.2; the gradient at m is 0.3 - 0.8 = -0.5,
    # at the norm and minus τ it is 1.2 · -0.5 = -0.6.
    torch.testing.assert_close(embedding.weight.grad[0], torch.tensor([1.0 - 0.6, 2.0 + 0.6]))
    torch.testing.assert_close(embedding.row_thresholds.grad, torch.tensor([0.6, 0.0]))


def test_rows_below_their_fields_threshold_are_dropped():
    embedding = supernet()
    norms = embedding.weight.detach().abs().sum(dim=1)
    norms = norms / norms.mean()
    limits = norms[:USERS].min().item(), norms[USERS:].median().item()
    embedding.row_thresholds.data.copy_(torch.tensor(limits))
    kept = [norms[k].item() > limits[k >= USERS] for k in range(ENTITIES)]
    assert (sum(kept[:USERS]), sum(kept[USERS:])) == (8, 7)
    assert embedding.kept_rows().tolist() == kept
    assert embedding.table().any(dim=1).tolist() == kept
    assert embedding.cost() == (sum(kept) * DIM,) * 2


def test_a_row_of_zeros_is_dropped_at_a_threshold_of_zero():
    embedding = supernet()
    embedding.weight.data[7] = 0
    assert embedding.kept_rows().logical_not().nonzero().tolist() == [[7]]


def test_thresholds_do_not_depend_on_the_scale_of_the_values():
    embedding = supernet()
    embedding.row_thresholds.data.fill_(1.0)
    kept, active = embedding.kept_rows(), embedding.active_share()
    embedding.weight.data.mul_(100)
    assert torch.equal(embedding.kept_rows(), kept)
    assert embedding.active_share() == active > 0


def test_the_padding_is_no_row():
    assert not supernet(padding_idx=3).kept_rows()[3]


@pytest.mark.parametrize("genes", ["field", "entity"])
def test_training_keeps_a_prefix_of_at_least_one_column(genes: Genes):
    embedding = supernet(genes).train()
    for vectors in (embedding.table(), embedding(ALL_IDS.repeat(40))):
        widths = (vectors != 0).sum(dim=1)
        assert torch.equal(vectors != 0, torch.arange(DIM) < widths[:, None])
        assert widths.min() >= 1
    assert widths.unique().tolist() == [1, 2, 3, 4, 5, 6]


def test_a_table_has_one_width_for_each_field_and_step():
    embedding, pairs = supernet().train(), set()
    for embedding.step in range(30):
        widths = (embedding.table() != 0).sum(dim=1)
        assert widths[:USERS].unique().numel() == widths[USERS:].unique().numel() == 1
        pairs.add((widths[0].item(), widths[-1].item()))
    assert len(pairs) > 10


def test_draws_depend_on_seed_and_step_alone():
    one, other = supernet(seed=1).train(), supernet(seed=1).train()
    one.step = other.step = 5
    first = one(ALL_IDS)
    assert torch.equal(first, one(ALL_IDS))
    assert torch.equal(first, other(ALL_IDS))
    other.step = 6
    assert not torch.equal(first, other(ALL_IDS))
    assert not torch.equal(first, supernet(seed=2).train()(ALL_IDS))


def test_evaluation_has_all_columns_unless_widths_are_tried():
    embedding = supernet()
    assert torch.equal(embedding.table(), embedding.weight)
    with embedding.trying(np.array([2, 5])):
        tried = embedding.table()
        assert torch.equal(embedding(ALL_IDS), tried)
        assert embedding.nnz == 9 * 2 + 14 * 5
    assert (tried != 0).sum(dim=1).tolist() == [2] * 9 + [5] * 14
    assert torch.equal(embedding.table(), embedding.weight)


def test_every_entity_can_have_its_own_width():
    embedding = supernet("entity")
    widths = np.arange(ENTITIES) % DIM + 1
    with embedding.trying(widths):
        assert (embedding.table() != 0).sum(dim=1).tolist() == widths.tolist()


def test_the_penalty_drives_the_thresholds_up():
    embedding = supernet()
    embedding.row_thresholds.data.copy_(torch.tensor([0.0, 1.0]))
    penalty = embedding.threshold_penalty()
    penalty.backward()
    assert penalty.item() == pytest.approx(1 + np.exp(-1))
    assert embedding.row_thresholds.grad.tolist() == pytest.approx([-1, -np.exp(-1)])


def test_the_active_share_is_that_of_rows_near_their_threshold():
    embedding = supernet()
    embedding.weight.data.fill_(2.0)
    embedding.row_thresholds.data.fill_(2.5)  # all rows are of the mean norm, 1.5 away from it
    assert embedding.active_share() == 0
    embedding.row_thresholds.data.zero_()
    embedding.weight.data[:USERS] = 0.1  # 0.08 of the mean norm, and 1.6 of it
    assert embedding.active_share() == pytest.approx(USERS / ENTITIES)


def test_a_mask_keeps_the_first_columns_of_the_rows_that_are_kept():
    embedding = supernet()
    embedding.weight.data[7] = 0
    expected = torch.ones(ENTITIES, DIM, dtype=torch.bool)
    expected[:USERS, 2:] = expected[USERS:, 5:] = expected[7] = False
    assert torch.equal(embedding.mask_of(np.array([2, 5])), expected)


SHORT = Plan(population=5, parents=4, crossovers=3, mutations=3, generations=2)


@settings(max_examples=20)
@given(st.integers(ENTITIES, ENTITIES * DIM), st.sampled_from(["field", "entity"]), st.data())
def test_what_evolution_finds_is_within_the_limit(limit: int, genes: Genes, data: st.DataObject):
    embedding = supernet(genes)
    embedding.weight.data[data.draw(st.lists(st.integers(0, 22), max_size=9))] = 0
    space, rng = embedding.search_space(limit), np.random.default_rng(0)
    found = evolve(space, lambda widths: float(widths.sum()), rng, SHORT)
    mask = embedding.mask_of(found.genes)
    assert int(mask.sum()) == space.count(found.genes) <= limit


def test_field_candidates_use_at_least_95_percent_where_they_can():
    # 100 users and 50 items: 100 D_u + 50 D_i from 1,140 to 1,200 is D_i = 23 or 24 - 2 D_u.
    space, rng = FieldWidths(np.array([100, 50]), 30, 1200), np.random.default_rng(0)
    drawn = {tuple(space.draw(rng).tolist()) for _ in range(600)}
    expected = {(u, i) for u in range(1, 31) for i in (23 - 2 * u, 24 - 2 * u) if i >= 1}
    assert drawn == expected
    pairs = [(u, i) for u in range(1, 31) for i in range(1, 31)]
    assert {pair for pair in pairs if space.fits(np.array(pair))} == expected


def test_where_no_candidate_is_near_any_that_fits_is_drawn():
    space = FieldWidths(np.array([100, 100]), 8, 290)
    assert space.draw(np.random.default_rng(0)).tolist() == [1, 1]


def test_entity_candidates_come_near_the_limit():
    kept = np.ones(5000, dtype=np.int64)
    space, rng = EntityWidths(kept, 128, 64_000), np.random.default_rng(0)
    counts = [space.count(space.draw(rng)) for _ in range(20)]
    assert max(counts) <= 64_000
    assert min(counts) > 0.9 * 64_000


@pytest.mark.parametrize("mean", [1.28, 12.8, 64.5, 100.0])
def test_tilted_shares_have_their_mean_and_a_constant_ratio(mean: float):
    shares = tilted_shares(128, mean)
    assert shares.sum() == pytest.approx(1)
    assert shares @ np.arange(1, 129) == pytest.approx(mean)
    np.testing.assert_allclose(shares[1:] / shares[:-1], shares[1] / shares[0], rtol=1e-6)


def test_shares_at_and_beyond_the_ends():
    np.testing.assert_allclose(tilted_shares(4, None), 0.25)
    np.testing.assert_allclose(tilted_shares(4, 0.5), [1, 0, 0, 0], atol=1e-9)
    np.testing.assert_allclose(tilted_shares(4, 9.0), [0, 0, 0, 1], atol=1e-9)
    assert tilted_shares(1, 1.0).tolist() == [1.0]


def test_entities_train_at_the_widths_that_the_limit_allows():
    embedding = Supernet.for_limit(
        4000, 64, 4000 * 8, num_users=9, genes="entity", generator=seeded()
    ).train()
    assert (embedding.table() != 0).sum().item() == pytest.approx(4000 * 8, rel=0.05)


def test_what_cannot_be_is_refused():
    with pytest.raises(ConfigError, match=r"keeps 23 rows.* at least 23"):
        supernet().search_space(22)
    with pytest.raises(ConfigError, match="choose field or entity"):
        supernet("row")
    for widths in ([1, 2, 3], [0, 2], [1, DIM + 1]):
        with pytest.raises(DataError, match="2 numbers from 1 to 6, one for each field"):
            supernet().mask_of(np.array(widths))
