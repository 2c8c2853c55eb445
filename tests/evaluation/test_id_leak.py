from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from cerp.data.ids import Ids
from cerp.data.interactions import Interactions
from cerp.data.splits import Splits
from cerp.errors import ConfigError
from cerp.evaluation.baselines import ItemWindow, UserWindow
from cerp.evaluation.id_leak import WindowScores, id_leak

CLIQUE = 8


def cliques(rng: np.random.Generator, *, count: int = 60) -> npt.NDArray[np.int64]:
    """User and item columns: eight users with consecutive codes share each eight items.

    The items of a clique are scattered over the catalogue, so that only the
    numbering of the users tells anything.
    """
    items = rng.permutation(count * CLIQUE).reshape(count, CLIQUE)
    user = np.arange(count * CLIQUE).repeat(CLIQUE)
    return np.stack([user, items[user // CLIQUE, np.tile(np.arange(CLIQUE), count * CLIQUE)]])


def split_of(user: npt.NDArray[np.int64], item: npt.NDArray[np.int64]) -> Splits:
    return Interactions.from_ids(user, item).split(seed=0)


def test_consecutive_users_with_the_same_taste_are_warned_about() -> None:
    report = id_leak(split_of(*cliques(np.random.default_rng(0))))
    assert report.user_window.native > 0.5 > report.user_window.shuffled
    assert [warning[:22] for warning in report.warnings] == ["the numbering of users"]


def test_consecutive_items_with_the_same_users_are_warned_about() -> None:
    user, item = cliques(np.random.default_rng(0))
    report = id_leak(split_of(user=item, item=user))
    assert report.item_window.native > 0.5 > report.item_window.shuffled
    assert [warning[:22] for warning in report.warnings] == ["the numbering of items"]


def test_shuffled_numbers_are_not_warned_about() -> None:
    rng = np.random.default_rng(0)
    user, item = cliques(rng)
    report = id_leak(split_of(rng.permutation(480)[user], item))
    assert report.warnings == []


def test_of_very_many_users_a_sample_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cerp.evaluation.id_leak.MOST_SCORES", 480 * 100)  # 480 items
    monkeypatch.setattr("cerp.evaluation.id_leak.LEAST_SAMPLE", 10)
    report = id_leak(split_of(*cliques(np.random.default_rng(0))))
    assert (report.users, report.users_with_truth) == (100, 480)
    assert [warning[:22] for warning in report.warnings] == ["the numbering of users"]


def test_progress_says_which_of_the_four_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("cerp.evaluation.evaluate.LONG", 0)
    id_leak(split_of(*cliques(np.random.default_rng(0))), quiet=False)
    lines = [f"nearby ids, {place} of 4: 100%" for place in (1, 2, 3, 4)]
    assert capsys.readouterr().err.splitlines() == lines


def test_a_warning_says_the_figures_and_what_to_do() -> None:
    report = id_leak(split_of(*cliques(np.random.default_rng(0))))
    (warning,) = report.warnings
    assert f"{report.user_window.native:.4f}" in warning
    assert f"{report.user_window.shuffled:.4f}" in warning
    assert "do not use native order" in warning


@pytest.mark.parametrize(
    ("native", "shuffled", "error", "leaks"),
    [
        (0.0153, 0.0003, 0.0004, True),  # gowalla's items
        (0.0097, 0.0065, 0.0005, False),  # gowalla's users: popularity, not the numbering
        (0.1142, 0.0014, 0.0013, True),  # amazon-beauty's users
        (0.0040, 0.0000, 0.0001, False),  # sure, but too small to matter
        (0.0400, 0.0000, 0.0200, False),  # large, but on too few users to be sure
    ],
)
def test_only_what_is_clearly_higher_leaks(
    native: float, shuffled: float, error: float, leaks: bool
) -> None:
    assert WindowScores(native, shuffled, error).leaks is leaks


def test_the_item_window_counts_nearby_items_but_not_the_item_itself() -> None:
    train = trained([(0, 2), (0, 3), (1, 0)], users=2, items=6)
    scores = ItemWindow(train, window=2).score_all(np.array([1, 0], dtype=np.int32))
    assert scores.tolist() == [[0, 1, 1, 0, 0, 0], [1, 2, 1, 1, 2, 1]]


def test_the_user_window_counts_nearby_users_but_not_the_user() -> None:
    train = trained([(0, 0), (1, 0), (1, 1), (2, 2), (3, 0)], users=4, items=3)
    scores = UserWindow(train, window=1).score_all(np.array([1, 3], dtype=np.int32))
    assert scores.tolist() == [[1, 0, 1], [0, 0, 1]]


def trained(pairs: list[tuple[int, int]], *, users: int, items: int) -> Interactions:
    user, item = zip(*pairs, strict=True)
    return Interactions.from_codes(user, item, users=Ids.range(users), items=Ids.range(items))


def test_the_window_must_be_positive() -> None:
    with pytest.raises(ConfigError, match="window"):
        id_leak(split_of(*cliques(np.random.default_rng(0), count=2)), window=0)


@pytest.mark.slow
def test_the_items_of_lastfm_leak_and_its_users_do_not(
    shared_data: Callable[[str], Path],
) -> None:
    report = id_leak(Splits.load(shared_data("lastfm")))
    assert report.item_window.native == pytest.approx(0.0224, abs=5e-5)
    assert report.item_window.leaks
    assert not report.user_window.leaks


@pytest.mark.parametrize(("native", "leaks"), [(0.0151, True), (0.0149, False)])
def test_a_leak_is_more_than_twice_the_shuffled_score_and_a_margin(native: float, leaks: bool):
    # 2 * .005 + .005 = .015, the margin being larger than three standard errors.
    assert WindowScores(native, shuffled=0.005, standard_error=0.001).leaks == leaks


def test_on_few_users_the_margin_is_three_standard_errors():
    # 2 * .005 + 3 * .01 = .04
    assert not WindowScores(0.039, shuffled=0.005, standard_error=0.01).leaks
    assert WindowScores(0.041, shuffled=0.005, standard_error=0.01).leaks
