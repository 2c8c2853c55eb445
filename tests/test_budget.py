from __future__ import annotations

import subprocess
import sys
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cerp.assignment.bucket_rule import bucket_count
from cerp.assignment.hashing import smallest_bucket_count
from cerp.budget import Budget, default_budget, parse_size
from cerp.errors import ConfigError

GOWALLA = 70_839
AMAZON = 30_330_000


@pytest.mark.parametrize(
    ("text", "limit"), [("90%", 906_739), ("95%", 453_369), ("99%", 90_673), (" 99.5 % ", 45_336)]
)
def test_a_pruned_share_limits_the_rest_of_the_table(text: str, limit: int):
    assert Budget.parse(text).limit(GOWALLA, 128) == limit


def test_shares_are_exact_where_floats_are_not():
    assert Budget.parse("90%").limit(10, 1000) == 1000  # (1 - 0.9) * 10_000 = 999.99... in floats


@given(st.integers(1, 9999), st.integers(1, 10**8), st.integers(1, 512))
def test_a_share_is_the_floor_of_the_exact_product(hundredths: int, entities: int, dim: int):
    exact = (10_000 - hundredths) * entities * dim // 10_000
    budget = Budget.parse(f"{hundredths // 100}.{hundredths % 100:02}%")
    if exact >= 2:
        assert budget.limit(entities, dim) == exact


@pytest.mark.parametrize("value", [90_673, "90673", Budget("90673", Fraction(90_673), "")])
def test_a_count_is_itself(value: Budget | str | int):
    budget = Budget.parse(value)
    assert budget.limit(GOWALLA, 128) == 90_673
    assert str(budget) == "90673"


@pytest.mark.parametrize("text", ["0%", "100%", "-5%", "250%"])
def test_a_share_out_of_range_is_refused_with_the_range(text: str):
    with pytest.raises(ConfigError, match="above 0% and below 100%"):
        Budget.parse(text)


@pytest.mark.parametrize("value", [1, 0, -3, "-3"])
def test_a_count_below_one_value_for_each_codebook_is_refused(value: str | int):
    with pytest.raises(ConfigError, match="smallest possible is 2"):
        Budget.parse(value)


@pytest.mark.parametrize("value", ["99.99%", 801])
def test_a_budget_that_does_not_fit_the_table_is_refused_with_the_range(value: str | int):
    with pytest.raises(ConfigError, match=r"from 2 \(one for each codebook\) to 800"):
        Budget.parse(value).limit(100, 8)


@pytest.mark.parametrize(
    ("text", "size"),
    [("400KB", 400_000), ("1.5 MB", 1_500_000), ("2MiB", 2 * 1024**2), ("90673B", 90_673)],
)
def test_a_size_is_a_number_of_bytes(text: str, size: int):
    budget = Budget.parse(text)
    assert (budget.size, parse_size(text)) == (size, size)


def test_a_size_does_not_say_how_many_values_it_has_room_for():
    with pytest.raises(ConfigError, match="is a number of bytes"):
        Budget.parse("400KB").limit(GOWALLA, 128)


@pytest.mark.parametrize("text", ["99%", "90673", "", "lots", "-3KB", "2TB"])
def test_what_is_not_a_size_is_refused_with_examples(text: str):
    with pytest.raises(ConfigError, match=r"--max-size .* is not a size: .*'400KB' or '2MB'"):
        parse_size(text, "--max-size")


def test_a_size_of_nothing_is_refused():
    with pytest.raises(ConfigError, match="budget '0KB' leaves no room at all"):
        Budget.parse("0KB")


@pytest.mark.parametrize("value", ["", "lots", "90,673", "1e5", "0.5", 0.99, "99%%", "٩٩%"])
def test_anything_else_is_refused_with_examples(value: str):
    with pytest.raises(ConfigError, match=r"'99%' nor a whole number"):
        Budget.parse(value)


@pytest.mark.parametrize(
    ("share", "least", "most"), [("90%", 4900, 5100), ("95%", 4500, 5000), ("99%", 3900, 4000)]
)
def test_buckets_for_gowalla(share: str, least: int, most: int):
    assert least <= bucket_count(Budget.parse(share).limit(GOWALLA, 128), GOWALLA, 128) <= most


def test_buckets_for_thirty_million_entities_stay_small():
    limit = Budget.parse("99.9%").limit(AMAZON, 128)
    assert 4 * limit < 2 * bucket_count(limit, AMAZON, 128) * 128 < 6 * limit


@given(st.integers(8, 10**8), st.integers(1, 512), st.floats(0, 1))
def test_buckets_hold_the_budget_and_tell_entities_apart(entities: int, dim: int, share: float):
    limit = max(2, int(share * entities * dim))
    buckets = bucket_count(limit, entities, dim)
    assert smallest_bucket_count(entities) <= buckets
    assert buckets <= max(smallest_bucket_count(entities), entities // 2)
    assert 2 * buckets * dim >= limit - dim  # an odd number of rows leaves one row short


def test_a_tighter_budget_never_has_more_buckets():
    counts = [
        bucket_count(GOWALLA * 128 * pruned // 1000, GOWALLA, 128) for pruned in range(1, 999)
    ]
    assert counts == sorted(counts)


def test_budgets_need_no_torch():
    check = "import sys, cerp.budget; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check]).returncode == 0


@pytest.mark.parametrize(
    ("entities", "budget"),
    # Of d = 128: 1% of 8,000 x 128 is 10,240; 5% of 1,600 x 128 is 10,240; then 10% and 20%.
    [(8_000, "99%"), (7_000, "95%"), (1_600, "95%"), (1_500, "90%"), (700, "80%"), (10, "80%")],
)
def test_the_default_budget_leaves_enough_values(entities: int, budget: str):
    assert default_budget(entities, 128) == budget
