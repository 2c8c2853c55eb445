"""The objective: which loss and which penalty, and that what is not asked for is not computed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from cerp.config import Config, PruneConfig, RunOptions, TrainConfig
from cerp.data.synthetic import synthetic
from cerp.errors import ConfigError
from cerp.methods import method
from cerp.methods.base import Context
from cerp.models import backbones
from cerp.models.backbones import BatchOutput, BatchVectors
from cerp.models.batch import Batch
from cerp.models.embeddings.compositional import CompositionalEmbedding
from cerp.models.recommender import Recommender
from cerp.runs.fit import fit_all
from cerp.training.losses import LOSSES, bpr
from cerp.training.objective import Objective
from cerp.training.penalties import PENALTIES
from cerp.training.search_result import Found

SPLITS = synthetic(40, 20, 300).split(seed=0)
BATCH = Batch(torch.tensor([1, 1, 7]), torch.tensor([2, 3, 2]), torch.tensor([[0], [4], [0]]))
QUIET = RunOptions(quiet=True)
ALL_BACKBONES = ["lightgcn", "mf", "mlp"]


def recommender(backbone: str) -> Recommender:
    generator = torch.Generator().manual_seed(0)
    embedding = CompositionalEmbedding(60, 8, buckets=12, generator=generator)
    embedding.start_pruning(scale=-3.0)
    scored = backbones.create(backbone, SPLITS.train, embedding_dim=8, generator=generator)
    return Recommender(embedding, scored)


def config_of(**settings: Any) -> Config:
    return Config(
        **{"backbone": "mf", "budgets": ("60%",), "dim": 16} | settings,
        prune=PruneConfig(epochs=1, batch_size=128),
        train=TrainConfig(epochs=2, evaluate_every=1, batch_size=128),
    )


@pytest.fixture
def losses(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is forgotten after it."""
    monkeypatch.setattr(LOSSES, "_parts", dict(LOSSES._parts))


@pytest.fixture
def hinge(losses: None) -> str:
    """A loss of others: ``Σ relu(1 + y⁻ − y⁺)``."""
    LOSSES.add("hinge", lambda scores: (1 + scores[:, 1:] - scores[:, :1]).relu().sum())
    return "hinge"


@pytest.fixture
def seven(losses: None) -> str:
    """A loss that is 7 for every positive, whatever the scores."""
    LOSSES.add("seven", lambda scores: 0 * scores.sum() + 7 * len(scores))
    return "seven"


@pytest.mark.parametrize("backbone", ALL_BACKBONES)
def test_without_gamma_no_vectors_are_asked_for(backbone: str):
    model = recommender(backbone)

    def refusing() -> BatchVectors:
        raise AssertionError("nobody needs the vectors")

    def no_penalty(temperature: float) -> torch.Tensor:
        raise AssertionError("nobody needs the vectors' penalty")

    given: BatchOutput = model(BATCH)
    shorter = None if given.complementary is None else no_penalty
    output = given._replace(vectors=refusing, complementary=shorter)
    assert Objective().of_output(output) == bpr(output.scores)
    with pytest.raises(AssertionError, match="nobody needs"):
        Objective(gamma=0.1).of_output(output)


@pytest.mark.parametrize("backbone", ALL_BACKBONES)
def test_a_backbone_counts_nothing_before_it_is_asked(
    backbone: str, monkeypatch: pytest.MonkeyPatch
):
    model, counted = recommender(backbone), []
    for place, name in [
        (backbones.mf, "gathered"),
        (backbones.mlp, "gathered"),
        (backbones.LightGCN, "_node_counts"),
    ]:
        monkeypatch.setattr(place, name, lambda *_: counted.append(1))
    Objective()(model, BATCH, 3).backward()
    assert counted == []


@pytest.mark.parametrize("backbone", ALL_BACKBONES)
def test_gradients_are_those_of_the_formula(backbone: str):
    model = recommender(backbone)
    weight = model.embedding.weight

    def gradient(loss: Tensor) -> Tensor:
        (found,) = torch.autograd.grad(loss, weight)
        return found

    # User 1 occurs twice and counts once; items 2 and 0 were drawn twice each.
    users, items = torch.tensor([1, 7]), torch.tensor([2, 2, 3, 0, 0, 4]) + 40
    vectors = model.embedding(torch.cat([users, items]))
    ranking = bpr(model(BATCH).scores)
    expected = gradient((ranking - 0.2 * torch.tanh(3 * vectors).square().sum()) / 3)
    found = gradient(Objective(gamma=0.2, temperature=3.0)(model, BATCH, 3))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


def test_a_penalty_by_name_is_what_pruning_adds(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(PENALTIES, "_parts", dict(PENALTIES._parts))
    seen: list[float] = []

    @PENALTIES.register("shrinking")
    def shrinking(vectors: BatchVectors, temperature: float) -> Tensor:
        seen.append(temperature)
        return sum((block.square().sum() for block in vectors.blocks), torch.zeros(()))

    config = config_of()
    config = replace(config, prune=replace(config.prune, penalty="shrinking", temperature=7.0))
    fit_all(SPLITS, config, QUIET)
    assert set(seen) == {7.0}


def test_a_backbone_that_shows_no_vectors_cannot_be_penalised():
    output = BatchOutput(torch.zeros(2, 3, requires_grad=True))
    assert Objective().of_output(output).item() == pytest.approx(4 * torch.log(torch.tensor(2.0)))
    with pytest.raises(ConfigError, match="gamma=0"):
        Objective(gamma=0.1).of_output(output)


@pytest.mark.parametrize("name", ["full", "cerp", "pep", "autoemb", "esapn", "optembed"])
def test_every_method_trains_with_the_loss_that_is_chosen(name: str, hinge: str):
    options = {"population": 2, "generations": 0} if name == "optembed" else {}

    def weights(loss: str) -> list[Tensor]:
        config = config_of(method=name, method_options=options, loss=loss)
        (model,) = fit_all(SPLITS, config, QUIET)
        assert all(value.isfinite().all() for value in model.recommender.state_dict().values())
        return list(model.recommender.parameters())

    assert not all(map(torch.equal, weights("bpr"), weights(hinge)))


@pytest.mark.parametrize("name", ["cerp", "esapn", "optembed"])
def test_searches_minimise_the_loss_that_is_chosen(name: str, seven: str):
    own = {"population": 2, "generations": 0, "threshold_penalty": 1e-6}
    options = own if name == "optembed" else {}
    config = config_of(loss=seven)
    config = replace(config, prune=replace(config.prune, gamma=0.0))
    search = method(name, options).search(Context(SPLITS, config, QUIET, (480,)))
    # Twice the weight of its penalty on row thresholds, at most, is OptEmbed's own.
    assert [row["loss"] for row in search.history] == [pytest.approx(7, abs=1e-5)]


def test_autoembs_controllers_learn_from_the_loss_that_is_chosen(seven: str):
    context = Context(SPLITS, config_of(loss=seven), QUIET, (480,))
    autoemb = method("autoemb")
    model = context.recommender(autoemb.embedding(context, 480, Found({}, {})))
    side_step = autoemb.hooks(context, model).side_step
    assert side_step is not None
    assert side_step.loss(0).item() == pytest.approx(7)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "log-loss"}, "unknown loss 'log-loss'; choose one of bpr"),
        ({"selection_metric": "ndgc@10"}, "unknown metric 'ndgc@10'; choose one of ndcg, recall"),
        ({"selection_metric": "ndcg"}, "with a cut-off, such as ndcg@10"),
    ],
)
def test_what_is_not_there_is_refused_before_anything_is_trained(
    settings: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Recommender, "forward", None)
    with pytest.raises(ConfigError, match=message):
        fit_all(SPLITS, config_of(**settings), QUIET)


def test_an_unknown_penalty_is_refused_before_anything_is_trained():
    config = config_of()
    with pytest.raises(ConfigError, match="unknown penalty 'x'; choose one of complementary"):
        fit_all(SPLITS, replace(config, prune=replace(config.prune, penalty="x")), QUIET)
