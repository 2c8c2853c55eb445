"""Settings are seen to arrive where they matter: in the steps, the judging and the searches."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from cerp.config import Config, PruneConfig, RunOptions, TrainConfig
from cerp.data.ids import Ids
from cerp.data.interactions import Interactions
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic
from cerp.errors import ConfigError
from cerp.methods import method
from cerp.methods.base import Context, Search
from cerp.methods.pep import PrunableTable
from cerp.models import backbones
from cerp.models.backbones import BatchOutput, MatrixFactorization
from cerp.models.embeddings.base import Embedding
from cerp.models.embeddings.full import FullEmbedding
from cerp.models.recommender import Recommender
from cerp.training.stages import prune, train

QUIET = RunOptions(quiet=True)
NOTHING_LEARNED = 1e-30


def pairs(users: list[int], items: list[int], num_items: int) -> Interactions:
    num_users = max(users) + 1
    return Interactions.from_codes(
        users, items, users=Ids.range(num_users), items=Ids.range(num_items)
    )


def only_training(train_part: Interactions) -> Splits:
    nothing = train_part.subset(np.zeros(len(train_part), dtype=bool))
    return Splits(train_part, nothing, nothing)


def mf(embedding: Embedding, splits: Splits) -> Recommender:
    size = embedding.embedding_dim
    return Recommender(embedding, backbones.create("mf", splits.train, embedding_dim=size))


LONE_PAIR = only_training(pairs([0], [0], num_items=2))
"""One user, the item taken and the item left: every batch is the same, and so is its gradient."""


def two_steps(**settings: Any) -> torch.Tensor:
    """How far two steps of Adam at a rate of 0.001 move each value."""
    embedding = FullEmbedding(3, 2)
    first = torch.tensor([[1.0, -1.0], [0.8, 0.5], [-0.4, 0.9]])
    embedding.weight.data.copy_(first)
    config = TrainConfig(learning_rate=1e-3, negatives=1, **settings)
    train(mf(embedding, LONE_PAIR), LONE_PAIR, config, seed=0, label="t", options=QUIET, epochs=2)
    return (embedding.weight.detach() - first).abs()


def test_a_cosine_schedule_slows_the_steps_of_training_down():
    # A constant gradient moves every value by the rate: 1 and 1, or 1 and (1 + cos(π/2)) / 2.
    torch.testing.assert_close(two_steps(), torch.full((3, 2), 2e-3), rtol=0.01, atol=0)
    slowed = two_steps(schedule="cosine")
    torch.testing.assert_close(slowed, torch.full((3, 2), 1.5e-3), rtol=0.01, atol=0)


def test_training_clips_gradients_to_the_norm_it_is_given():
    # Adam's steps do not depend on the size of a gradient, unless it vanishes beside ε = 1e-8.
    assert float(two_steps(clip_norm=1e-12).max()) < 1e-3 * float(two_steps().min())


def test_pruning_clips_gradients_to_the_norm_it_is_given():
    def moved(clip_norm: float | None) -> float:
        embedding = PrunableTable(3, 4, generator=torch.Generator().manual_seed(0))
        first = embedding.weight.detach().clone()
        config = PruneConfig(mode="magnitude", epochs=2, negatives=1, clip_norm=clip_norm)
        prune(mf(embedding, LONE_PAIR), LONE_PAIR, config, [6], seed=0, options=QUIET)
        return float((embedding.weight.detach() - first).abs().max())

    assert moved(1e-12) < 1e-3 * moved(None)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("stage", ["train", "prune"])
def test_both_stages_compute_in_the_precision_they_are_given(stage: str, precision: Any):
    model, lowered = mf(PrunableTable(3, 4), LONE_PAIR), []
    model.register_forward_pre_hook(lambda *_: lowered.append(torch.is_autocast_enabled("cpu")))
    if stage == "train":
        config = TrainConfig(precision=precision)
        train(model, LONE_PAIR, config, seed=0, label="t", options=QUIET, epochs=2)
    else:
        halving = PruneConfig(epochs=2, precision=precision)
        prune(model, LONE_PAIR, halving, [6], seed=0, options=QUIET)
    assert lowered == [precision == "bfloat16"] * 2


def test_training_is_judged_on_as_many_validation_users_as_it_is_told():
    # Item 3 is held out of all; user 0 has it first, users 1 and 2 behind the 12 other new ones.
    # A fourth user has all items in training, so that all may be recommended.
    users, items = [0, 1, 2, *[3] * 14], [0, 1, 2, *range(14)]
    splits = only_training(pairs(users, items, num_items=14))
    held_out = Interactions.from_codes([0, 1, 2], [3] * 3, users=splits.users, items=splits.items)
    splits = replace(splits, valid=held_out)
    embedding = FullEmbedding(18, 2)
    embedding.weight.data.copy_(torch.tensor([[0.0, 1.0]]).expand(18, 2))
    embedding.weight.data[[0, 7]] = torch.tensor([1.0, 0.0])

    def score(users: int | None) -> float:
        config = TrainConfig(epochs=1, learning_rate=NOTHING_LEARNED, validation_users=users)
        result = train(mf(embedding, splits), splits, config, seed=0, label="t", options=QUIET)
        return result.best_score

    assert score(None) == pytest.approx(1 / 3)
    assert score(1) in (0.0, 1.0)
    assert score(2) in (0.0, 0.5)


def recall_and_ndcg() -> tuple[Splits, FullEmbedding]:
    """A user with two held-out items, at the ranks 1 and 4 of what they have not taken."""
    # Another user has all but one item in training, so that all may be recommended.
    part = pairs([0, *[1] * 5], [0, 1, 2, 3, 4, 5], num_items=6)
    held_out = Interactions.from_codes([0, 0], [1, 4], users=part.users, items=part.items)
    embedding = FullEmbedding(8, 1)
    embedding.weight.data.copy_(
        torch.tensor([[1.0], [1.0], [9.0], [8.0], [7.0], [6.0], [5.0], [4.0]])
    )
    return replace(only_training(part), valid=held_out), embedding


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("recall@3", 1 / 2),
        ("recall@4", 1.0),
        ("mrr@3", 1.0),
        ("ndcg@10", (1 + 1 / math.log2(5)) / (1 + 1 / math.log2(3))),
    ],
)
def test_training_selects_by_the_metric_that_is_chosen(metric: str, expected: float):
    splits, embedding = recall_and_ndcg()
    config = TrainConfig(epochs=1, learning_rate=NOTHING_LEARNED)
    model = mf(embedding, splits)
    result = train(model, splits, config, seed=0, label="t", options=QUIET, selection_metric=metric)
    assert result.best_score == pytest.approx(expected)
    assert result.selection_metric == metric
    assert result.history[0][f"valid_{metric}"] == result.best_score


def test_an_unknown_selection_metric_is_refused_before_a_step_is_taken():
    splits, embedding = recall_and_ndcg()
    first = embedding.weight.detach().clone()
    with pytest.raises(ConfigError, match="unknown metric 'coverage@10'; choose one of ndcg, re"):
        train(
            mf(embedding, splits),
            splits,
            TrainConfig(),
            seed=0,
            label="t",
            options=QUIET,
            selection_metric="coverage@10",
        )
    assert torch.equal(embedding.weight, first)


def test_scheduled_thresholds_start_within_one_of_each_other():
    splits = only_training(pairs(list(range(30)), list(range(30)), num_items=30))
    embedding = PrunableTable(60, 16, generator=torch.Generator().manual_seed(1))
    config = PruneConfig(
        epochs=40,
        threshold_start="uniform",
        learning_rate=NOTHING_LEARNED,
        threshold_learning_rate=NOTHING_LEARNED,
    )
    found, _ = prune(mf(embedding, splits), splits, config, [96], seed=0, options=QUIET)
    mask, size = found[96].tensors["mask"], embedding.weight.detach().abs()
    dropped, kept = float(size[~mask].max()), float(size[mask].min())
    # σ(S) of S in [-1, 0] differ by a factor of e at most, and so do a larger value that goes
    # and a smaller one that stays. That there are such is what a random start is for.
    assert dropped / math.e < kept < 0.9 * dropped


def searched(
    name: str,
    options: dict[str, Any] | None = None,
    *,
    prune: dict[str, Any] | None = None,
    train: dict[str, Any] | None = None,
    limits: tuple[int, ...] = (480,),
    selection_metric: str = "ndcg@10",
) -> Search:
    """A search over 60 entities of dimension 16: 960 values."""
    config = Config(
        backbone="mf",
        dim=16,
        selection_metric=selection_metric,
        prune=PruneConfig(**{"epochs": 2, "batch_size": 128} | (prune or {})),
        train=TrainConfig(batch_size=128, **(train or {})),
    )
    splits = synthetic(40, 20, 300).split(seed=0)
    return method(name, options).search(Context(splits, config, QUIET, limits))


def losses(search: Search) -> list[float]:
    return [row["loss"] for row in search.history]


@pytest.mark.parametrize(
    ("name", "options", "has_penalty"),
    [
        ("cerp", {}, True),
        ("pep", {}, False),
        ("magnitude", {"of": "table"}, False),
        ("magnitude", {"of": "codebooks"}, False),
    ],
)
def test_only_cerp_prunes_with_the_penalty(name: str, options: dict[str, str], has_penalty: bool):
    without, with_gamma = (
        searched(name, options, prune={"gamma": gamma}).found[480].tensors["weight"]
        for gamma in (0.0, 1.0)
    )
    assert torch.equal(without, with_gamma) != has_penalty


SHORT_SEARCHES: dict[str, dict[str, Any]] = {
    "esapn": {},
    "optembed": {"population": 2, "generations": 0},
}


@pytest.mark.parametrize("name", SHORT_SEARCHES)
def test_a_search_takes_the_epochs_of_pruning(name: str):
    search = searched(name, SHORT_SEARCHES[name], prune={"epochs": 3}, train={"epochs": 7})
    assert [row["epoch"] for row in search.history] == [1, 2, 3]


@pytest.mark.parametrize("name", SHORT_SEARCHES)
@pytest.mark.parametrize(
    "changed", [{"learning_rate": 0.1}, {"weight_decay": 0.1}, {"negatives": 1}], ids=str
)
def test_a_search_learns_by_the_settings_of_pruning_alone(name: str, changed: dict[str, Any]):
    usual = losses(searched(name, SHORT_SEARCHES[name]))
    assert losses(searched(name, SHORT_SEARCHES[name], train=changed)) == usual
    assert losses(searched(name, SHORT_SEARCHES[name], prune=changed)) != usual


@pytest.mark.parametrize("name", SHORT_SEARCHES)
def test_a_search_clips_gradients_to_the_norm_of_pruning(name: str):
    # A norm so small that Adam's steps vanish beside its ε: the loss stays where it starts.
    options = {"epochs": 3, "learning_rate": 0.1}
    clipped = losses(searched(name, SHORT_SEARCHES[name], prune=options | {"clip_norm": 1e-30}))
    free = losses(searched(name, SHORT_SEARCHES[name], prune=options))
    assert clipped[0] - clipped[-1] < 0.2 * (free[0] - free[-1])


@pytest.mark.parametrize("name", SHORT_SEARCHES)
def test_a_search_judges_by_the_metric_that_selects(name: str):
    facts = searched(name, SHORT_SEARCHES[name], selection_metric="hit_rate@5").found[480].facts
    assert "valid_ndcg@10_without_retraining" not in facts
    assert 0 <= facts["valid_hit_rate@5_without_retraining"] <= 1


class Shifted(MatrixFactorization):
    """A stranger's backbone, with a parameter whose name is like that of cerp's thresholds."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.my_threshold = torch.nn.Parameter(torch.ones(()))

    def forward(self, embedding: Embedding, users: Tensor, items: Tensor) -> BatchOutput:
        output = super().forward(embedding, users, items)
        return output._replace(scores=output.scores * self.my_threshold)


@pytest.mark.parametrize("mode", ["scheduled", "free", "magnitude"])
def test_pruning_trains_a_parameter_of_others_that_is_called_a_threshold(mode: Any):
    splits = only_training(pairs(list(range(9)), list(range(9)), num_items=9))
    embedding = PrunableTable(18, 4, generator=torch.Generator().manual_seed(0))
    model = Recommender(embedding, Shifted(splits.train, embedding_dim=4))
    config = PruneConfig(mode=mode, epochs=2, max_epochs=2)
    prune(model, splits, config, [36], seed=0, options=QUIET)
    assert model.backbone.my_threshold.item() != 1


def test_a_search_for_widths_judges_as_many_users_as_it_is_told():
    options = {"population": 2, "generations": 0, "judged_users": 1}
    score = searched("optembed", options).found[480].facts["valid_ndcg@10_without_retraining"]
    # Users have one held-out item at most: found at rank r, it is worth 1 / log2(1 + r).
    assert score in {0.0, *(1 / np.log2(1 + np.arange(1, 11)))}


def test_widths_of_entities_are_learned_for_the_loosest_budget():
    options = SHORT_SEARCHES["optembed"] | {"genes": "entity"}
    tight, loose, both = (
        losses(searched("optembed", options, limits=limits))
        for limits in ((120,), (480,), (120, 480))
    )
    assert both == loose != tight


@pytest.mark.parametrize("start", ["uniform", "normal", "long-tail", "xavier-uniform"])
def test_random_thresholds_are_drawn_apart_from_the_weights(start: str):
    still = {"learning_rate": NOTHING_LEARNED, "threshold_learning_rate": NOTHING_LEARNED}
    settings = {"epochs": 40, "threshold_start": start} | still
    kept = searched("pep", prune=settings, limits=(96,)).found[96].tensors["weight"]
    # Weights are negative as often as positive: of 96 that stay, 48, and four deviations are 20.
    assert abs(int((kept > 0).sum()) - 48) < 20
