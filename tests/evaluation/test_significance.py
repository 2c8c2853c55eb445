"""Differences of scorers over users and seeds, and Holm's correction."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest

from cerp.errors import ConfigError
from cerp.evaluation import significance
from cerp.evaluation.metrics import Metrics
from cerp.evaluation.significance import holm, paired_bootstrap


def of_values(values: npt.ArrayLike) -> Metrics:
    array = np.asarray(values, dtype=np.float64)
    users = np.arange(len(array), dtype=np.int32)
    return Metrics("test", users, {"ndcg@10": array}, coverage={}, head={}, tail={})


def test_a_constant_difference_has_no_spread() -> None:
    difference = paired_bootstrap(of_values([0.75, 0.5]), of_values([0.5, 0.25]), samples=100)
    assert (difference.low, difference.mean, difference.high) == (0.25, 0.25, 0.25)
    assert difference.is_clear


def test_the_interval_is_near_the_normal_one_for_many_users() -> None:
    values = np.random.default_rng(0).random(1000)
    difference = paired_bootstrap(of_values(values), of_values(np.zeros(1000)))
    half = 1.96 * values.std() / math.sqrt(1000)
    assert difference.low == pytest.approx(values.mean() - half, abs=0.05 * half)
    assert difference.high == pytest.approx(values.mean() + half, abs=0.05 * half)


def test_pairing_removes_what_both_share() -> None:
    shared = np.random.default_rng(0).random(200)
    difference = paired_bootstrap(of_values(shared + 0.001), of_values(shared), samples=100)
    assert difference.low == pytest.approx(0.001)


def test_the_interval_does_not_depend_on_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = of_values(np.arange(9)), of_values(np.zeros(9))
    whole = paired_bootstrap(first, second, samples=50)
    monkeypatch.setattr(significance, "BOOTSTRAP_DRAWS", 1)
    assert paired_bootstrap(first, second, samples=50) == whole


def test_different_users_cannot_be_paired() -> None:
    with pytest.raises(ConfigError, match="2 on test against 3 on test"):
        paired_bootstrap(of_values([0, 1]), of_values([0, 1, 1]))


def test_an_unknown_metric_is_refused_with_those_known() -> None:
    with pytest.raises(ConfigError, match=r"ndcg@7.*: ndcg@10"):
        paired_bootstrap(of_values([0]), of_values([0]), "ndcg@7")


# Seeds


def test_seeds_are_drawn_together_with_users() -> None:
    """Users are all alike, seeds are not: nothing but the seeds makes the interval wide."""
    first = [of_values(np.full(5, score)) for score in (0.1, 0.2, 0.3)]
    found = paired_bootstrap(first, of_values(np.full(5, 0.15)))
    # Two of three seeds: .1 twice in one draw of nine, .3 twice in one of nine.
    assert [found.low, found.high] == pytest.approx([-0.05, 0.15])
    assert found.mean == pytest.approx(0.05)
    assert found.seeds == (3, 1)
    # Below or at .15 are (.1, .1), (.1, .2) and (.2, .1): three of nine, on either side doubled.
    assert found.p_value == pytest.approx(2 / 3, abs=0.02)


def test_the_variance_over_seeds_is_that_of_their_mean() -> None:
    scores = np.array([0.11, 0.14, 0.12, 0.19])
    drawn = significance.resampled([of_values(np.full(3, one)) for one in scores], "ndcg@10")
    means = significance._seeds_drawn(drawn, np.random.default_rng(0))
    assert means.var() == pytest.approx(scores.var(ddof=1) / 4, rel=0.05)


def test_users_and_seeds_both_widen_the_interval() -> None:
    rng = np.random.default_rng(1)
    users = rng.normal(0.3, 0.1, 400)
    seeds = [of_values(users + shift) for shift in (-0.02, 0.0, 0.02)]
    other = of_values(np.full(400, 0.25))
    by_users = paired_bootstrap(seeds[1], other)
    by_both = paired_bootstrap(seeds, other)
    width = (by_both.high - by_both.low) / (by_users.high - by_users.low)
    # Variances add: .1² / 400 = .005² of users, .02² / 3 of seeds.
    assert width == pytest.approx(math.sqrt(1 + (0.02**2 / 3) / 0.005**2), rel=0.1)


def test_scorers_that_are_the_same_differ_in_nothing() -> None:
    values = np.random.default_rng(0).random((3, 50))
    seeds = [of_values(one) for one in values]
    found = paired_bootstrap(of_values(values[0]), of_values(values[0]))
    assert (found.low, found.high, found.p_value) == (0, 0, 1)
    assert not paired_bootstrap(seeds, seeds).is_clear


@pytest.mark.parametrize("shift", np.linspace(0.0, 0.1, 12))
def test_the_p_value_is_the_level_at_which_the_interval_begins_to_leave_zero_out(
    shift: float,
) -> None:
    rng = np.random.default_rng(3)
    first, second = of_values(rng.random(60) + shift), of_values(rng.random(60))
    p = paired_bootstrap(first, second, samples=999).p_value
    for level in (0.01, 0.05, 0.2, p):
        if level < 1:
            found = paired_bootstrap(first, second, samples=999, confidence=1 - level)
            assert found.is_clear == (p <= level)


def test_too_few_draws_for_a_confidence_are_refused() -> None:
    with pytest.raises(ConfigError, match="samples of 39 or more"):
        paired_bootstrap(of_values([0, 1]), of_values([0, 0]), samples=20)


# Holm's correction


def test_holm_worked_out_on_paper() -> None:
    # Sorted: .01 * 4 = .04, .02 * 3 = .06, .03 * 2 = .06 and .04 * 1 = .04, which may not be less.
    assert holm([0.03, 0.01, 0.04, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([0.05]) == [0.05]
    assert holm([]) == []


def test_holm_is_at_least_as_strict_as_none_and_at_most_as_bonferroni() -> None:
    values = np.random.default_rng(0).random(20) ** 3
    after = np.array(holm(values.tolist()))
    assert (after >= values).all()
    assert (after <= np.minimum(1, 20 * values) + 1e-12).all()
    assert (np.diff(after[np.argsort(values)]) >= 0).all()
