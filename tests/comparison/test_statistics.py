"""Which differences of a table hold, and the t-test over seeds beside them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_1samp, ttest_ind

from cerp.comparison.statistics import Judged, corrected, marks, t_test
from cerp.evaluation.metrics import Metrics

USERS = 100


def judged(scores: np.ndarray, seeds: int = 3, *, is_random: bool = True) -> Judged:
    users = np.arange(USERS, dtype=np.int32)
    one = Metrics("test", users, {"ndcg@10": scores}, {}, {}, {})
    return Judged((one,) * seeds, is_random)


LOW, HIGH = judged(np.full(USERS, 0.1)), judged(np.full(USERS, 0.2))
# Half of the users win what the other half lose.
MIXED = judged(0.1 + 0.05 * (-1.0) ** np.arange(USERS))


def test_a_mark_needs_a_difference_that_users_agree_on():
    found = marks({"up": (HIGH, LOW), "down": (LOW, HIGH), "mixed": (MIXED, LOW)})
    assert found == {"up": "better", "down": "worse", "mixed": "not clear"}


def test_a_mark_needs_a_difference_that_seeds_agree_on():
    (low,), (high,) = LOW.seeds[:1], HIGH.seeds[:1]
    # One seed of three is as bad as the other method: two of three draws that way is one in nine.
    wavering = Judged((high, high, low))
    assert marks({"one": (wavering, LOW)}) == {"one": "not clear"}


def test_what_is_trained_needs_three_seeds_and_what_is_not_needs_none():
    few, fixed = judged(np.full(USERS, 0.3), 2), judged(np.full(USERS, 0.3), 1, is_random=False)
    found = marks({"few": (few, LOW), "against few": (LOW, few), "fixed": (fixed, LOW)})
    assert found == {"few": "too few seeds", "against few": "too few seeds", "fixed": "better"}


def test_the_correction_is_over_all_that_a_table_compares():
    alone = corrected({"a": (0.1, 0.03)})
    # .03 * 2 is above .05, and what comes after it is not clear either.
    both = corrected({"a": (0.1, 0.03), "b": (-0.1, 0.04)})
    assert alone == {"a": "better"}
    assert both == {"a": "not clear", "b": "not clear"}
    assert corrected({"a": (0.1, 0.02), "b": (-0.1, 0.04)}) == {"a": "better", "b": "worse"}


@pytest.mark.parametrize("sizes", [(3, 3), (5, 3), (2, 2)])
def test_the_t_test_is_that_of_scipy(sizes: tuple[int, int]):
    rng = np.random.default_rng(0)
    first, second = (rng.normal(0.1, 0.01 * (one + 1), size) for one, size in enumerate(sizes))
    expected = ttest_ind(first, second, equal_var=False).pvalue
    assert t_test(first.tolist(), second.tolist()) == pytest.approx(expected, rel=1e-12)


def test_what_no_seed_changes_is_a_known_number_for_the_t_test():
    values = [0.10, 0.12, 0.11]
    assert t_test(values, 0.09) == pytest.approx(ttest_1samp(values, 0.09).pvalue)
    assert t_test(0.09, values) == pytest.approx(ttest_1samp(values, 0.09).pvalue)


def test_there_is_no_t_test_where_seeds_say_nothing_of_their_spread():
    assert t_test([0.1], [0.2]) is None
    assert t_test([0.1, 0.2, 0.3], [0.4]) is None
    assert t_test(0.1, 0.2) is None
    assert t_test([0.1, 0.1], [0.2, 0.2]) is None
