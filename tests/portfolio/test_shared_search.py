"""The search for the graph filter: one for all members of a portfolio, with the same results."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cerp
from cerp.config import Config, RunOptions
from cerp.data.splits import Splits
from cerp.errors import DataError
from cerp.graph import filter_search
from cerp.graph.filter import Exponents
from cerp.graph.filter_search import FilterSearch
from cerp.graph.search import FoundExponents, Trial
from cerp.graph.search_sharpening import FoundSharpening, SharpeningTrial
from cerp.graph.sharpening import Sharpening
from cerp.portfolio import fit_to_size as module
from cerp.portfolio.choice import Choice, Tried, best_of, tried_model
from cerp.portfolio.members import members_of
from cerp.runs.fit import fit_all
from cerp.runs.planning import make_plan, pipeline
from cerp.runs.sealed import write_sealed
from cerp.runs.shared_filter import EXPONENTS, SHARPENING, SharedFilterSearch
from small_graphs import splits_of

SEARCHES = ("search_exponents", "search_sharpening")
FILTERS = ["filter", "sharp-filter", "neighbours", "svd-mixture"]
SMALL: dict[str, Any] = {"dim": 8, "epochs": 1, "prune_epochs": 1}
QUIET = RunOptions(quiet=True)


@pytest.fixture(scope="module")
def splits() -> Splits:
    return splits_of(0)


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each search was made."""
    made: Counter[str] = Counter()

    def counted(name: str, search: Callable[..., Any]) -> Callable[..., Any]:
        def asked(*given: Any, **named: Any) -> Any:
            made[name] += 1
            return search(*given, **named)

        return asked

    for name in SEARCHES:
        monkeypatch.setattr(filter_search, name, counted(name, getattr(filter_search, name)))
    return made


def tried_by(splits: Splits, names: list[str], output: Path | None, **named: Any) -> Choice:
    return cerp.fit_to_size(
        splits, "12KB", portfolio=names, output=output, verbose=False, **SMALL, **named
    )


def figures_of(tried: list[Tried]) -> list[Tried]:
    """Without seconds, and without bytes: the file of the winner has the test part's figures."""
    return [replace(one, seconds=0.0, file_bytes=None) for one in tried]


# A portfolio


@pytest.mark.parametrize("has_folder", [True, False])
def test_members_search_once(splits: Splits, searches, tmp_path: Path, *, has_folder: bool):
    names = [*FILTERS, "lightgcn", "mixture", "full"]
    choice = tried_by(splits, names, tmp_path / "run" if has_folder else None)
    assert [one.name for one in choice.tried if one.why_not is None] == names
    assert searches == dict.fromkeys(SEARCHES, 1)


def test_members_are_what_they_are_where_each_searches_for_itself(
    splits: Splits, searches, tmp_path: Path
):
    choice = tried_by(splits, FILTERS, tmp_path)
    assert searches == dict.fromkeys(SEARCHES, 1)
    options = replace(QUIET, reads_test=False)
    alone = {
        member.name: fit_all(splits, member.config("12KB", SMALL), options)[0]
        for member in members_of(FILTERS)
    }
    assert searches == {"search_exponents": 1 + 4, "search_sharpening": 1 + 2}
    tried = [tried_model(name, model.facts) for name, model in alone.items()]
    assert figures_of(choice.tried) == figures_of(tried)
    assert choice.winner == best_of(tried, "12KB").name
    files = {path.parent.name: path.read_bytes() for path in tmp_path.glob("tried/*/model-*.cerp")}
    assert files == {name: model.file() for name, model in alone.items()}


def test_a_resumed_portfolio_reads_what_was_found_before(
    splits: Splits, searches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    real = fit_all

    def interrupted(splits: Splits, config: Config, options: RunOptions) -> Any:
        if config.method == "sharp-filter":
            raise KeyboardInterrupt
        return real(splits, config, options)

    names = ["filter", "sharp-filter"]
    monkeypatch.setattr(module, "fit_all", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tried_by(splits, names, tmp_path)
    assert searches == {"search_exponents": 1}
    monkeypatch.setattr(module, "fit_all", real)
    choice = tried_by(splits, names, tmp_path, resume=True)
    assert searches == dict.fromkeys(SEARCHES, 1)
    assert figures_of(choice.tried) == figures_of(tried_by(splits, names, None).tried)


def test_overwriting_removes_what_was_found(splits: Splits, searches, tmp_path: Path):
    tried_by(splits, ["filter"], tmp_path)
    assert (tmp_path / "tried" / "shared" / EXPONENTS).exists()
    tried_by(splits, ["neighbours"], tmp_path, overwrite=True)
    assert searches["search_exponents"] == 2


# Runs


def test_runs_that_stand_alone_search_for_themselves(splits: Splits, searches, tmp_path: Path):
    for name in ("first", "second"):
        options = replace(QUIET, folder=tmp_path / name)
        fit_all(splits, Config(method="sharp-filter"), options)
        assert not list(tmp_path.rglob(EXPONENTS))
    assert searches == dict.fromkeys(SEARCHES, 2)


def test_a_refit_has_the_filter_that_validation_chose(splits: Splits):
    config = Config(method="filter", refit="train+valid")
    stages = pipeline(make_plan(splits, config, QUIET), splits, QUIET)
    assert stages.final_context.splits is not splits
    assert stages.final_context.filter_search is stages.context.filter_search
    assert stages.context.filter_search.splits is splits


# What is kept


def shared(splits: Splits, folder: Path, metric: str = "ndcg@10", seed: int = 0) -> FilterSearch:
    return SharedFilterSearch(splits, metric, seed, True, folder)


def test_the_same_question_is_answered_from_the_folder(splits: Splits, searches, tmp_path: Path):
    first, second = shared(splits, tmp_path), shared(splits_of(0), tmp_path)
    assert (first.sharpened, first.plain) == (second.sharpened, second.plain)
    assert searches == dict.fromkeys(SEARCHES, 1)
    assert len(first.plain.trials) > 5
    assert len(first.sharpened.trials) > 5


@pytest.mark.parametrize(
    ("metric", "seed", "data_seed"), [("recall@5", 0, 0), ("ndcg@10", 1, 0), ("ndcg@10", 0, 1)]
)
def test_another_question_is_asked_anew(
    splits: Splits, searches, tmp_path: Path, metric: str, seed: int, data_seed: int
):
    assert shared(splits, tmp_path).sharpened.metric == "ndcg@10"
    other = splits_of(data_seed)
    found = shared(other, tmp_path, metric, seed)
    alone = FilterSearch(other, metric, seed, quiet=True)
    assert found.sharpened.exponents == alone.sharpened.exponents
    assert (found.plain.score, found.plain.metric) == (alone.plain.score, metric)
    assert searches == dict.fromkeys(SEARCHES, 3)


def damaged(path: Path) -> None:
    path.write_text(path.read_text().replace("ndcg@10", "ndcg@11"))


def without_answer(path: Path) -> None:
    question = json.loads(path.read_text())["question"]
    write_sealed(path, {"question": question, "found": {"score": 1.0}})


@pytest.mark.parametrize(
    ("change", "words"),
    [(damaged, "not as it was written"), (without_answer, "remove it, and it is searched again")],
)
@pytest.mark.parametrize("name", [EXPONENTS, SHARPENING])
def test_what_was_changed_is_refused(
    splits: Splits, tmp_path: Path, name: str, change: Callable[[Path], None], words: str
):
    assert shared(splits, tmp_path).sharpened
    change(tmp_path / name)
    search = shared(splits, tmp_path)
    with pytest.raises(DataError, match=words):
        _ = (search.plain, search.sharpened)


EXPONENT = st.integers(0, 48).map(lambda count: count / 32)
NUMBER = st.floats(0, 1000)
EXPONENTS_FOUND = st.builds(Exponents, EXPONENT, EXPONENT, EXPONENT)
SHARPENINGS = st.builds(Sharpening, EXPONENT, NUMBER, st.integers(1, 2))
USERS = st.integers(1, 20_000)


@settings(max_examples=25)
@given(
    plain=st.builds(
        FoundExponents,
        EXPONENTS_FOUND,
        NUMBER,
        st.just("ndcg@10"),
        st.lists(st.builds(Trial, EXPONENTS_FOUND, NUMBER, USERS, NUMBER)).map(tuple),
        NUMBER,
    ),
    sharpened=st.builds(
        FoundSharpening,
        EXPONENTS_FOUND,
        st.none() | SHARPENINGS,
        *(NUMBER, NUMBER, st.just("ndcg@10")),
        st.lists(
            st.builds(SharpeningTrial, EXPONENTS_FOUND, SHARPENINGS, NUMBER, USERS, NUMBER)
        ).map(tuple),
        NUMBER,
    ),
)
def test_what_is_read_is_what_was_found_to_the_bit(
    splits: Splits, plain: FoundExponents, sharpened: FoundSharpening
):
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(filter_search, "search_exponents", lambda *_, **__: plain)
        patch.setattr(filter_search, "search_sharpening", lambda *_, **__: sharpened)
        first, second = shared(splits, Path(folder)), shared(splits, Path(folder))
        assert (first.plain, first.sharpened) == (plain, sharpened)
        patch.undo()
        assert (second.plain, second.sharpened) == (plain, sharpened)
