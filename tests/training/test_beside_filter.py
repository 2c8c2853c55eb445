"""Vectors trained with the filter in their scores: pairs, gradient and ranking."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from cerp.config import Config, RunOptions
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic
from cerp.graph.edges import Edges
from cerp.graph.filter import Exponents, GraphFilter
from cerp.graph.mixture import Mixture
from cerp.graph.pair_shares import pair_shares
from cerp.models.batch import Batch
from cerp.models.embeddings.full import FullEmbedding
from cerp.models.recommender import Recommender
from cerp.runs.fit import fit_all
from cerp.training.beside_filter import EPSILON, START, BesideFilter, FilterPairs
from cerp.training.objective import Objective

EXPONENTS = Exponents(0.6, 0.7, 0.3)


@pytest.fixture(scope="module")
def splits() -> Splits:
    return synthetic(80, 50, 1200).split(seed=0)


@pytest.fixture(scope="module")
def model(splits: Splits) -> GraphFilter:
    return GraphFilter(Edges.of(splits.train), EXPONENTS)


@pytest.fixture
def pairs(model: GraphFilter) -> FilterPairs:
    shares = pair_shares(model)
    return FilterPairs(shares.keys, shares.values, model.num_items)


@pytest.fixture
def recommender(splits: Splits) -> Recommender:
    config = Config(method="full", backbone="mf", dim=4).to_dict()
    config["train"]["epochs"] = 1
    [fitted] = fit_all(splits, Config.from_dict(config), RunOptions(quiet=True))
    assert fitted.recommender is not None
    return fitted.recommender


def batch(num_items: int) -> Batch:
    generator = torch.Generator().manual_seed(0)
    users = torch.randint(80, (16,), generator=generator)
    items = torch.randint(num_items, (16, 4), generator=generator)
    return Batch(users, items[:, 0], items[:, 1:])


def test_pairs_by_hand():
    pairs = FilterPairs(np.array([1, 5]), np.array([0.5, 2.0], dtype=np.float16), num_items=3)
    log = [[math.log(EPSILON + share) for share in row] for row in ([0, 0.5, 0], [0, 0, 2])]
    users = torch.tensor([0, 1])
    torch.testing.assert_close(pairs.of_users(users), torch.tensor(log))
    items = torch.arange(3).expand(2, -1)
    torch.testing.assert_close(pairs(users[:, None], items), torch.tensor(log))


def test_a_pair_after_the_last_one_is_looked_up(pairs: FilterPairs):
    far = torch.tensor([10**9])
    torch.testing.assert_close(pairs(far, torch.tensor([0])), torch.tensor([math.log(EPSILON)]))


def test_scores_are_those_of_the_mixture(
    splits: Splits, model: GraphFilter, pairs: FilterPairs, recommender: Recommender
):
    users = np.unique(splits.train.user)
    mixture = Mixture(recommender.scorer(), model, START, EPSILON).score_all(users)
    ours = BesideFilter(recommender, pairs).scorer().score_all(users).numpy()
    # log(ε + x) moves by at most bound / ε where a pair is left out, and by 2^-11 by rounding.
    assert np.abs(ours - mixture).max() < START * 0.0101
    assert np.abs(ours - recommender.scorer().score_all(users).numpy()).max() > 1


def test_a_batch_is_scored_as_the_catalogue_is(pairs: FilterPairs, recommender: Recommender):
    beside, some = BesideFilter(recommender, pairs), batch(pairs.num_items)
    items = torch.cat([some.positives[:, None], some.negatives], dim=1)
    everything = beside.scorer().score_all(some.users.int().numpy())
    torch.testing.assert_close(beside(some).scores, everything.gather(1, items))


def test_the_gradient_of_b_is_that_of_finite_differences(
    pairs: FilterPairs, recommender: Recommender
):
    beside, some = BesideFilter(recommender, pairs), batch(pairs.num_items)
    objective = Objective()
    objective(beside, some, 16).backward()
    step, start = 1e-2, math.log(START)
    losses = []
    for value in (start + step, start - step):
        beside.log_beta.data.fill_(value)
        losses.append(objective(beside, some, 16).item())
    expected = (losses[0] - losses[1]) / (2 * step)
    assert abs(expected) > 1e-4
    assert float(beside.log_beta.grad) == pytest.approx(expected, rel=1e-3)


@pytest.mark.gpu
def test_pairs_are_looked_up_alike_on_a_gpu(pairs: FilterPairs):
    users, items = torch.arange(80), torch.arange(50)
    here = pairs.of_users(users)
    pairs.to("cuda")
    torch.testing.assert_close(pairs.of_users(users.cuda()).cpu(), here)
    looked_up = pairs(users.cuda()[:, None], items.cuda()[None])
    torch.testing.assert_close(looked_up.cpu(), here)


@pytest.mark.gpu
def test_recorded_steps_learn_the_same_beta_as_plain_ones(
    splits: Splits, monkeypatch: pytest.MonkeyPatch
):
    betas = []
    for is_captured in (True, False):
        monkeypatch.setattr(FullEmbedding, "capturable", is_captured)
        config = Config(method="full", backbone="mf", dim=4, mix="together")
        [fitted] = fit_all(splits, config, RunOptions(quiet=True, device="cuda"))
        betas.append(fitted.facts.search["mixture"]["learned_beta"])
    assert betas[0] != START
    assert betas[0] == pytest.approx(betas[1], rel=1e-3)
