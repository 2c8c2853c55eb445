"""Several kinds of model for one file size: what is tried, chosen, left out and resumed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import cerp
from cerp.artifact import decode
from cerp.config import Progress
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic
from cerp.errors import BudgetError, ConfigError
from cerp.portfolio import fit_to_size as module
from cerp.portfolio.choice import Tried, best_of, reason
from cerp.portfolio.members import MEMBERS, members_of
from cerp.portfolio.watching import Clock, Watch, parse_duration
from cerp.runs.fit import fit_all, load_run

SMALL: dict[str, Any] = {"dim": 8, "epochs": 2, "prune_epochs": 1, "verbose": False}
PORTFOLIO = ["filter", "mf", "lightgcn", "mixture"]


@pytest.fixture(scope="module")
def splits() -> Splits:
    return synthetic(300, 200, 6000).split(seed=0)


@pytest.fixture(scope="module")
def found(splits: Splits, tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("portfolio") / "run"
    choice = cerp.fit_to_size(splits, "15KB", portfolio=PORTFOLIO, output=folder, **SMALL)
    return folder, choice


def figures(path: Path) -> dict[str, Any]:
    [model] = json.loads((path / "metrics.json").read_text())["models"]
    return model


def test_the_best_on_validation_is_chosen_and_all_that_fit_are_within_the_size(found):
    _, choice = found
    assert [one.name for one in choice.tried] == PORTFOLIO
    fitting = {one.name: one for one in choice.tried if one.why_not is None}
    assert fitting[choice.winner].valid == max(one.valid for one in fitting.values())
    assert all(one.file_bytes <= 15_000 for one in fitting.values())
    assert choice.model.facts.file_bytes == fitting[choice.winner].file_bytes


def test_only_the_winner_is_judged_on_the_test_part(found):
    folder, choice = found
    assert "test" in choice.model.metrics
    for run in (folder / "tried").iterdir():
        if (run / "metrics.json").exists():
            assert "test" not in figures(run), run
            assert figures(run)["valid"]["ndcg@10"] > 0


def test_the_folder_is_a_run_like_any_other(found, splits: Splits):
    folder, choice = found
    [model] = load_run(folder, splits)
    assert model.metrics == choice.model.metrics
    assert (folder / f"model-{model.budget}.cerp").read_bytes() == model.file()
    assert figures(folder)["test"] == choice.model.metrics["test"]


def test_a_finished_portfolio_is_read_and_nothing_is_trained(found, splits: Splits, monkeypatch):
    folder, choice = found
    monkeypatch.setattr(module._Portfolio, "_all_tried", None)
    again = cerp.fit_to_size(
        splits, "15KB", portfolio=PORTFOLIO, output=folder, resume=True, **SMALL
    )
    assert (again.winner, again.why, again.tried) == (choice.winner, choice.why, choice.tried)
    assert again.model.metrics == choice.model.metrics


def test_an_unfinished_portfolio_keeps_its_finished_members(splits: Splits, tmp_path, monkeypatch):
    names = ["filter", "lightgcn"]
    real, asked = fit_all, []

    def interrupted(splits, config, options):
        asked.append(options.folder.name)
        if config.method == "cerp" and len(asked) == 2:
            raise KeyboardInterrupt
        return real(splits, config, options)

    monkeypatch.setattr(module, "fit_all", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cerp.fit_to_size(splits, "15KB", portfolio=names, output=tmp_path / "run", **SMALL)
    before = (tmp_path / "run" / "tried" / "filter" / "searched.safetensors").stat().st_mtime_ns
    choice = cerp.fit_to_size(
        splits, "15KB", portfolio=names, output=tmp_path / "run", resume=True, **SMALL
    )
    after = (tmp_path / "run" / "tried" / "filter" / "searched.safetensors").stat().st_mtime_ns
    assert (before, [one.name for one in choice.tried]) == (after, names)
    assert asked == ["filter", "lightgcn", "filter", "lightgcn", "run"]


def test_other_questions_are_refused_in_the_same_folder(found, splits: Splits):
    folder, _ = found
    with pytest.raises(ConfigError, match="resume=True to go on"):
        cerp.fit_to_size(splits, "15KB", portfolio=PORTFOLIO, output=folder, **SMALL)
    with pytest.raises(ConfigError, match="max_file_size: '16KB' against '15KB'"):
        cerp.fit_to_size(splits, "16KB", portfolio=PORTFOLIO, output=folder, resume=True, **SMALL)


def test_what_cannot_fit_is_named_with_its_smallest_size(splits: Splits):
    with pytest.raises(BudgetError, match=r"nothing was found for a file of 1KB: filter: .* take"):
        cerp.fit_to_size(splits, "1KB", portfolio=["filter", "lightgcn"], **SMALL)


def test_a_mixture_takes_the_vectors_of_the_member_before_it(found):
    folder, _ = found
    vectors, mixture = (figures(folder / "tried" / name) for name in ("lightgcn", "mixture"))
    parts = mixture["search"]["mixture"]["valid_ndcg@10"]
    assert parts["vectors"] == pytest.approx(vectors["valid"]["ndcg@10"], rel=1e-6)
    assert mixture["valid"]["ndcg@10"] >= vectors["valid"]["ndcg@10"]


def test_a_scaled_svd_beside_the_filter_leaves_the_graph_its_bytes(splits: Splits):
    choice = cerp.fit_to_size(splits, "12KB", portfolio=["svd", "svd-mixture"], verbose=False)
    vectors, mixture = choice.tried
    assert all(one.file_bytes and one.file_bytes <= 12_000 for one in (vectors, mixture))
    small = cerp.fit_to_size(splits, "5KB", portfolio=["svd", "svd-mixture"], verbose=False)
    assert small.winner == "svd"
    assert "too small for svd here: with the fewest values" in small.tried[1].why_not


def test_nothing_is_started_after_the_time_limit(splits: Splits, monkeypatch):
    monkeypatch.setattr(Clock, "is_over", property(lambda clock: bool(done)))
    done: list[str] = []
    real = module._Portfolio._tried

    def tried(self, member, best):
        result = real(self, member, best)
        done.append(member.name)
        return result

    monkeypatch.setattr(module._Portfolio, "_tried", tried)
    choice = cerp.fit_to_size(
        splits, "15KB", portfolio=["filter", "lightgcn"], time_limit="10m", **SMALL
    )
    assert (choice.winner, done) == ("filter", ["filter"])
    assert choice.tried[1].why_not == "not started: the time limit of 10m was over"


def test_training_is_stopped_at_the_time_limit_and_where_it_is_clearly_behind():
    over, ample = Clock("1s", 0.0), Clock(None, None)
    assert Watch(over, None)(Progress(0.1, None)) == "stopped at the time limit of 1s"
    watch = Watch(ample, best=0.2)
    assert watch(Progress(0.1, 0.01)) is None  # too early to tell
    assert watch(Progress(0.5, None)) is None  # while pruning nothing is judged
    assert watch(Progress(0.25, 0.161)) is None  # 80% of 0.2 and a little
    assert "0.1500 is below 80% of the best, 0.2000" in str(watch(Progress(0.25, 0.15)))


def test_a_stopped_training_is_a_reason_and_no_failure(splits: Splits, monkeypatch):
    monkeypatch.setattr(Watch, "__call__", lambda watch, progress: "told so")
    choice = cerp.fit_to_size(splits, "15KB", portfolio=["filter", "lightgcn"], **SMALL)
    assert choice.tried[1].why_not == "told so"


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("10m", 600), ("1.5h", 5400)])
def test_durations(text: str, seconds: float):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["10", "0s", "-1m", "ten", "1d"])
def test_what_is_no_duration_is_refused(text: str):
    with pytest.raises(ConfigError, match="is no time; write one such as"):
        parse_duration(text)


def test_of_equals_the_smaller_is_chosen():
    large, small = Tried("a", 200, valid=0.5), Tried("b", 100, valid=0.5)
    worse = Tried("c", 10, valid=0.4)
    assert best_of([large, small, worse], "1KB") is small
    assert reason(small, [large, small, worse], "ndcg@10").endswith(
        "0.5000, as a, and takes fewer bytes"
    )
    assert reason(large, [large, worse], "ndcg@10").endswith("next is c with 0.4000")


def test_members_are_tried_in_one_order_and_unknown_ones_are_refused():
    assert [one.name for one in members_of(["mixture,filter"])] == ["filter", "mixture"]
    assert members_of(None) == list(MEMBERS)
    with pytest.raises(ConfigError, match="no 'x' in the portfolio; choose among filter, "):
        members_of(["x"])


def test_a_setting_that_names_a_kind_of_model_is_refused(splits: Splits):
    with pytest.raises(ConfigError, match="method says what kind of model is trained"):
        cerp.fit_to_size(splits, "15KB", method="filter")


def test_titles_stay_in_a_file_of_limited_size_where_they_fit(splits: Splits):
    items = splits.items.values.tolist()
    titles = {item: hashlib.sha256(str(item).encode()).hexdigest() for item in items}
    titled = replace(splits, train=replace(splits.train, titles=titles))
    sizes = {"small": "5KB", "large": "40KB"}
    found = {
        name: decode(
            cerp.fit_to_size(titled, size, portfolio=["filter"], verbose=False).model.file()
        )
        for name, size in sizes.items()
    }
    assert found["small"].titles is None
    assert found["large"].titles == [titles[item] for item in items]


def test_overwriting_removes_the_portfolio_that_was_there(splits: Splits, tmp_path: Path):
    first = cerp.fit_to_size(splits, "15KB", portfolio=["filter"], output=tmp_path, **SMALL)
    with pytest.raises(ConfigError, match="holds another portfolio"):
        cerp.fit_to_size(splits, "14KB", portfolio=["filter"], output=tmp_path, **SMALL)
    second = cerp.fit_to_size(
        splits, "14KB", portfolio=["filter"], output=tmp_path, overwrite=True, **SMALL
    )
    assert second.model.metrics == first.model.metrics
