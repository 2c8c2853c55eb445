from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cerp.errors import ConfigError
from cerp.models.embeddings.compositional import CompositionalEmbedding
from cerp.pruning.clocks import FreeClock, ScheduledClock, halfway_start
from cerp.training.optimizers import threshold_adam


def pruning_embedding(entities: int = 60) -> CompositionalEmbedding:
    generator = torch.Generator().manual_seed(0)
    embedding = CompositionalEmbedding(entities, 8, buckets=10, generator=generator)
    embedding.start_pruning()
    return embedding


def decayed(optimizer: torch.optim.Optimizer, threshold: torch.nn.Parameter) -> float:
    """The thresholds' mean after 50 steps in which the loss says nothing."""
    for _ in range(50):
        threshold.grad = torch.zeros_like(threshold)
        optimizer.step()
    return threshold.mean().item()


def test_coupled_decay_lifts_thresholds_by_the_learning_rate_per_step():
    threshold = torch.nn.Parameter(torch.full((3,), -100.0))
    optimizer = torch.optim.Adam([threshold], lr=0.1, weight_decay=1e-5)
    assert decayed(optimizer, threshold) == pytest.approx(-95, abs=0.2)


def test_decoupled_decay_leaves_thresholds_where_they_are():
    threshold = torch.nn.Parameter(torch.full((3,), -100.0))
    optimizer = torch.optim.AdamW([threshold], lr=0.1, weight_decay=1e-5)
    assert decayed(optimizer, threshold) == pytest.approx(-100, abs=0.01)


@pytest.mark.parametrize("steps", [50, 400, 3200])
def test_the_free_clock_meets_the_weights_in_the_wanted_steps(steps: int):
    clock = FreeClock(start=-100.0, typical_weight=0.034, steps=steps)
    threshold = torch.nn.Parameter(torch.full((1,), clock.start))
    optimizer = threshold_adam(clock, threshold)
    taken = 0
    while torch.sigmoid(threshold).item() < 0.034 and taken < 2 * steps:
        threshold.grad = torch.zeros_like(threshold)
        optimizer.step()
        taken += 1
    assert taken == pytest.approx(steps, rel=0.1)


def test_the_free_clock_by_hand():
    clock = FreeClock(start=-10.0, typical_weight=0.5, steps=20_000)
    assert clock.goal == 0
    assert clock.learning_rate == 10 / 20_000
    assert clock.betas == (0.9, 1 - 100 / 20_000)


def test_the_halfway_start_by_hand():
    # s* = logit(1/2) = 0, and s₁ = logit(1/2 / 4) = logit(1/8) = -ln 7
    assert halfway_start(0.5, 4) == pytest.approx(-2 * math.log(7))


@pytest.mark.parametrize("entries", [100, 47_000, 20_000_000])
@pytest.mark.parametrize("steps", [60, 3000])
def test_half_way_thresholds_are_at_the_smallest_weight(entries: int, steps: int):
    clock = FreeClock(start=halfway_start(0.034, entries), typical_weight=0.034, steps=steps)
    half = clock.start + clock.learning_rate * steps / 2
    assert 1 / (1 + math.exp(-half)) == pytest.approx(0.034 / entries)


@pytest.mark.parametrize(
    "bad", [{"typical_weight": 0.0}, {"typical_weight": 1.0}, {"start": 3.0}, {"steps": 0}]
)
def test_a_free_clock_that_cannot_run_is_refused(bad: dict[str, float]):
    with pytest.raises(ConfigError, match="thresholds"):
        FreeClock(**({"start": -10.0, "typical_weight": 0.1, "steps": 5} | bad))


def test_the_curve_by_hand():
    clock = ScheduledClock(entries=1000, limits=(200, 600), steps=10, dense_share=0.0)
    # 200 + 800 (1 - k/10)³
    assert [clock.wanted(step) for step in (0, 5, 10, 99)] == [1000, 300, 200, 200]


def test_nothing_is_pruned_in_the_dense_share():
    clock = ScheduledClock(entries=1000, limits=(200,), steps=10, dense_share=0.6)
    # x = (k - 6) / 4 from step 6 on: at k = 8, 200 + 800 / 8
    assert [clock.wanted(step) for step in (0, 6, 8, 10)] == [1000, 1000, 300, 200]


@given(st.integers(1, 5000), st.integers(1, 5000), st.integers(1, 300))
def test_the_curve_falls_from_all_entries_to_the_tightest_limit(
    entries: int, limit: int, steps: int
):
    clock = ScheduledClock(entries, (limit,), steps)
    curve = [clock.wanted(step) for step in range(steps + 1)]
    assert curve == sorted(curve, reverse=True)
    assert (curve[0], curve[-1]) == (entries, min(limit, entries))


@given(st.lists(st.integers(1, 1200), min_size=1, max_size=5, unique=True), st.integers(1, 60))
def test_every_limit_is_met_once_loosest_first(limits: list[int], steps: int):
    clock = ScheduledClock(1000, tuple(limits), steps)
    met = [limit for step in range(1, steps + 1) for limit in clock.due(step)]
    assert met == sorted(limits, reverse=True)


@pytest.mark.parametrize("batch_size", [4, 60])
@pytest.mark.parametrize("optimizer_class", [torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD])
def test_nnz_follows_the_curve_with_any_optimizer_and_batch_size(
    optimizer_class: Callable[..., torch.optim.Optimizer], batch_size: int
):
    embedding = pruning_embedding()
    optimizer = optimizer_class(embedding.parameters(), lr=0.01)
    ids = torch.arange(120) % 60
    steps = 2 * 120 // batch_size
    clock = ScheduledClock(embedding.weight.numel(), (20,), steps, every=1)
    for step in range(steps):
        clock.apply(embedding, step)
        assert embedding.nnz == pytest.approx(clock.wanted(step), abs=2)
        batch = ids[step * batch_size % 120 :][:batch_size]
        loss = (embedding(batch).sum(-1) - 1).square().mean()
        optimizer.zero_grad()
        (loss + 1e-3 * embedding.penalty(batch) / len(batch)).backward()
        optimizer.step()
    clock.apply(embedding, steps)
    assert embedding.nnz == pytest.approx(20, abs=2)


@pytest.mark.parametrize("size", [0.1, 10.0])
def test_the_thresholds_gradient_decides_which_entries_go(size: float):
    embedding = CompositionalEmbedding(60, 8, buckets=10)
    embedding.weight.data.copy_(torch.linspace(size, 1.1 * size, 160).view(20, 8))
    embedding.start_pruning(scale=-4.0)
    optimizer = torch.optim.SGD([embedding.threshold], lr=50.0)
    (-embedding.effective_weight()[3].sum()).backward()  # the loss wants row 3 to be large
    optimizer.step()
    ScheduledClock(160, (8,), steps=1).apply(embedding, 4)
    survivors = torch.count_nonzero(embedding.effective_weight(), dim=1)
    assert survivors[3] == 8
    assert survivors.sum() <= 9  # rounding may leave one more


@pytest.mark.parametrize(("largest", "ceiling"), [(0.0, 1.0), (0.05, 1.0), (4.0, 40.0)])
def test_the_ceiling_is_the_papers_until_weights_come_near_it(largest: float, ceiling: float):
    embedding = pruning_embedding()
    embedding.weight.data.fill_(-largest)
    ScheduledClock(160, (8,), steps=10).apply(embedding, 0)
    assert embedding.ceiling.item() == ceiling
    assert bool(embedding.shift.isfinite())


def test_between_shifts_nothing_is_touched():
    embedding = pruning_embedding()
    ScheduledClock(160, (8,), steps=10, every=4).apply(embedding, 3)
    assert embedding.shift.item() == 0


def test_a_clock_without_thresholds_is_refused():
    embedding = CompositionalEmbedding(60, 8, buckets=10)
    with pytest.raises(ConfigError, match="start_pruning"):
        ScheduledClock(160, (8,), steps=10).apply(embedding, 0)


@pytest.mark.parametrize("bad", [{"limits": ()}, {"limits": (0,)}, {"steps": 0}, {"every": 0}])
def test_a_schedule_that_cannot_run_is_refused(bad: dict[str, int]):
    with pytest.raises(ConfigError, match="pruning needs"):
        ScheduledClock(**({"entries": 9, "limits": (2,), "steps": 3} | bad))
