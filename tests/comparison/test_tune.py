from __future__ import annotations

import errno
import json
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from optuna.study import Study
from typer.testing import CliRunner

from cerp.cli import app
from cerp.cli.options import refuse_unclear_budgets
from cerp.comparison import tuning_search
from cerp.comparison.tune import tune
from cerp.comparison.tuned import BestSettings, read_tuned
from cerp.comparison.tuning_journal import drop_half_line
from cerp.comparison.tuning_search import EXTENSIONS, Question, TuningSearch
from cerp.config import Config, RunOptions
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic
from cerp.errors import ConfigError, MissingExtra, OutputError, TrainingError
from cerp.locks import claimed

QUESTION = Question("ud", "mf", "75%", epochs=1, settings={"dim": 8})
ASKED = {"method": "ud", "backbone": "mf", "budget": "75%", "epochs": 1, "dim": 8, "trials": 6}


def search(splits: Splits, folder: Path, **changed: Any) -> BestSettings:
    return tune(splits, output=folder, device="cpu", verbose=False, **{**ASKED, **changed})


@pytest.fixture(scope="module")
def splits() -> Splits:
    return synthetic(60, 40, 600).split(seed=0)


def near_4e3(config: Config) -> float:
    return 1 - abs(math.log(config.train.learning_rate / 4e-3)) / 10 - config.train.weight_decay


class Training:
    """Stands in for fit_all: the metric is best at a learning rate of 4e-3, without decay."""

    def __init__(self) -> None:
        self.configs: list[Config] = []
        self.folders: list[str] = []
        self.fail_at: dict[int, BaseException] = {}
        self.metric = "ndcg@10"
        self.score: Callable[[Config], float] = near_4e3
        self.best_epoch: Callable[[Config], int] = lambda config: 0

    def __call__(self, splits: Splits, config: Config, options: RunOptions) -> list[Any]:
        assert len(splits.test) == 0
        assert options.folder is not None
        self.configs.append(config)
        self.folders.append(options.folder.name)
        if failure := self.fail_at.get(len(self.configs)):
            raise failure
        facts = SimpleNamespace(best_epoch=self.best_epoch(config))
        return [SimpleNamespace(metrics={"valid": {self.metric: self.score(config)}}, facts=facts)]

    @property
    def points(self) -> list[tuple[float, float]]:
        return [(one.train.learning_rate, one.train.weight_decay) for one in self.configs]


@pytest.fixture
def training(monkeypatch) -> Training:
    stand_in = Training()
    monkeypatch.setattr(tuning_search, "fit_all", stand_in)
    return stand_in


def test_the_preset_is_tried_first_and_the_best_is_kept(splits, training, tmp_path: Path):
    best = search(splits, tmp_path)
    assert len(training.points) == len(set(training.points)) == 6
    first = training.configs[0].train
    assert (first.learning_rate, first.weight_decay, first.schedule) == (5e-3, 0.0, "constant")
    assert best.valid == max(map(near_4e3, training.configs))
    assert len(best.trials) == 6
    written = json.loads((tmp_path / "best.json").read_text())
    assert written == best.to_json()
    assert written["valid_ndcg@10"] == best.valid
    assert read_tuned(tmp_path / "best.json").settings == best.settings == {"dim": 8, **best.found}


def test_every_search_tries_what_was_best_for_others(splits, training, tmp_path: Path):
    search(splits, tmp_path)
    told = [
        (one.train.optimizer, one.train.learning_rate, one.train.weight_decay, one.train.schedule)
        for one in training.configs[1:4]
    ]
    assert told == [
        ("adamw", 5e-3, 0.04, "cosine"),
        ("adamw", 5e-3, 0.08, "cosine"),
        ("adam", 1e-2, 1e-7, "constant"),
    ]


def test_a_preset_that_is_such_a_start_is_tried_once(splits, training, tmp_path: Path):
    search(splits, tmp_path, method="cerp-learned", trials=4)
    rates = [(one.train.learning_rate, one.train.weight_decay) for one in training.configs]
    assert rates[:3] == [(5e-3, 0.08), (5e-3, 0.04), (1e-2, 1e-7)]
    assert len(rates) == len(set(rates)) == 4


def test_decay_is_none_or_coupled_or_decoupled(splits, training, tmp_path: Path):
    search(splits, tmp_path, trials=12)
    decays = [(one.train.optimizer, one.train.weight_decay) for one in training.configs]
    assert ("adam", 0.0) in decays
    assert any(name == "adam" and 1e-7 <= decay <= 1e-4 for name, decay in decays)
    assert all(1e-2 <= decay <= 0.3 for name, decay in decays if name == "adamw")
    assert {name for name, _ in decays} == {"adam", "adamw"}
    # Pruning, where a method has it, decays alike.
    assert all(one.prune.optimizer == one.train.optimizer for one in training.configs)


def test_a_winner_at_the_edge_is_tried_further_out(splits, training, tmp_path: Path):
    # Decay does harm, so that the rate is all that can be at an edge.
    training.score = lambda config: (
        1 - abs(math.log(config.train.learning_rate / 0.2)) - 1e4 * config.train.weight_decay
    )
    best = search(splits, tmp_path, trials=20)
    rates = [rate for rate, _ in training.points]
    assert max(rates[:20]) <= 3e-2
    # 3e-2 times 3, and times 3 once more; that is beyond 0.2, and worse than before.
    assert rates[20:] == pytest.approx([0.09, 0.27, 0.81][: len(rates) - 20])
    assert best.found["train"]["learning_rate"] == pytest.approx(0.27)
    assert best.at_edge == ()  # the next one was tried
    assert len(search(splits, tmp_path, trials=20).trials) == len(rates)


def test_a_winner_that_was_still_rising_is_trained_for_longer(splits, training, tmp_path: Path):
    training.best_epoch = lambda config: min(config.train.epochs, 3)
    training.score = lambda config: near_4e3(config) + min(config.train.epochs, 3)
    best = search(splits, tmp_path)
    assert [one.train.epochs for one in training.configs] == [1, 1, 1, 1, 1, 1, 2, 4]
    assert best.found["train"]["epochs"] == 4
    assert not best.is_cut_short
    assert [trial.best_epoch for trial in best.trials][-2:] == [2, 3]


def test_a_search_may_leave_all_trials_their_epochs(splits, training, tmp_path: Path):
    training.best_epoch = lambda config: config.train.epochs
    best = search(splits, tmp_path, longer=False)
    assert {one.train.epochs for one in training.configs} == {1}
    assert best.is_cut_short


def test_no_method_has_more_trials_beyond_its_edges_than_another(splits, training, tmp_path: Path):
    training.score = lambda config: config.train.learning_rate
    training.best_epoch = lambda config: config.train.epochs
    best = search(splits, tmp_path)
    # Those of a trial's epochs, and of its rate: two doublings, and as often three times the rate.
    assert len(best.trials) == 6 + EXTENSIONS
    assert max(one.train.epochs for one in training.configs) <= 4
    assert best.is_cut_short
    assert best.at_edge == ("train.learning_rate",)


def test_trials_keep_a_file_size_and_what_was_found_does_not(splits, training, tmp_path: Path):
    best = search(splits, tmp_path, budget=None, max_file_size="9KB")
    limits = {(config.budgets, config.max_file_size) for config in training.configs}
    assert limits == {(("9KB",), "9KB")}
    assert best.settings == {"dim": 8, **best.found}
    with pytest.raises(ConfigError, match="max_file_size: '8KB' against '9KB'"):
        search(splits, tmp_path, budget="9KB", max_file_size="8KB")


def test_a_finished_search_trains_nothing_more(splits, training, tmp_path: Path):
    first = search(splits, tmp_path)
    assert search(splits, tmp_path) == first
    assert len(training.points) == 6


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), MemoryError()])
def test_an_interrupted_trial_goes_on_in_its_folder(splits, training, failure, tmp_path: Path):
    training.fail_at = {3: failure}
    with pytest.raises(type(failure)):
        search(splits, tmp_path)
    search(splits, tmp_path)
    assert len(training.points) == 7
    interrupted = training.points[2]
    again = training.points.index(interrupted, 3)
    assert training.folders[again] == training.folders[2]
    assert len(set(training.points)) == 6


def test_an_interrupted_search_ends_as_one_that_was_not(splits, training, tmp_path: Path):
    whole = search(splits, tmp_path / "whole", trials=4)
    training.fail_at = {len(training.configs) + 2: KeyboardInterrupt()}
    with pytest.raises(KeyboardInterrupt):
        search(splits, tmp_path / "interrupted", trials=4)
    assert search(splits, tmp_path / "interrupted", trials=4) == whole


def test_a_trial_that_died_half_drawn_is_drawn_as_it_was(splits, training, tmp_path: Path):
    whole = search(splits, tmp_path / "whole", trials=3)
    begun = TuningSearch(splits, QUESTION, tmp_path / "died", 3, "cpu")
    begun.study.ask().suggest_float("train.learning_rate", 1e-4, 1e-1, log=True)
    assert search(splits, tmp_path / "died", trials=3) == whole


def test_a_disk_that_fails_is_named(splits, training, monkeypatch, tmp_path: Path):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(TuningSearch, "claim", full)
    with pytest.raises(OutputError, match="No space left"):
        search(splits, tmp_path)


def test_a_trial_whose_process_died_is_taken_over(splits, training, tmp_path: Path):
    dead = TuningSearch(splits, QUESTION, tmp_path, 6, "cpu").claim()
    os.utime(tmp_path / "trials" / f"{dead.number}.alive", (0, 0))
    assert len(search(splits, tmp_path).trials) == 6
    assert str(dead.number) in training.folders


def test_a_search_goes_on_after_a_disk_that_took_half_an_entry(splits, training, tmp_path: Path):
    whole = search(splits, tmp_path / "whole", trials=3)
    training.fail_at = {len(training.configs) + 2: KeyboardInterrupt()}
    with pytest.raises(KeyboardInterrupt):
        search(splits, tmp_path / "full", trials=3)
    with (tmp_path / "full" / "study.log").open("a") as journal:
        journal.write('{"op_code": 4, "worker_id": "half')
    assert search(splits, tmp_path / "full", trials=3) == whole


def test_a_disk_that_fails_after_the_last_word_of_a_trial_is_named(
    splits, training, monkeypatch, tmp_path: Path
):
    tell = Study.tell

    def told(study: Study, *given: Any, **options: Any) -> None:
        tell(study, *given, **options)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(Study, "tell", told)
        with pytest.raises(OutputError, match="Input/output error"):
            search(splits, tmp_path)
    assert len(search(splits, tmp_path).trials) == 6


@pytest.mark.parametrize("lock_file", ["claim.lock", "study.log.lock"])
def test_a_disk_that_fails_when_a_lock_is_given_back_is_named(
    splits, training, monkeypatch, tmp_path: Path, lock_file: str
):
    rename = os.rename

    def full(source: str, target: str) -> None:
        if str(source).endswith(lock_file):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        rename(source, target)

    monkeypatch.setattr(os, "rename", full)
    with pytest.raises(OutputError, match="No space left"):
        search(splits, tmp_path)


@pytest.mark.parametrize("left", [b"", b"half", b"one\n", b"one\nhalf", b"one\n" + b"x" * 5000])
def test_half_a_line_is_dropped(tmp_path: Path, left: bytes):
    path = tmp_path / "lines"
    path.write_bytes(left)
    drop_half_line(path)
    assert path.read_bytes() == left[: left.rfind(b"\n") + 1]


@pytest.mark.parametrize("hours", [-2, 2])
def test_a_clock_that_was_set_brings_no_trial_to_a_halt(
    splits, training, tmp_path: Path, hours: int
):
    dead = TuningSearch(splits, QUESTION, tmp_path, 6, "cpu").claim()
    seen = time.time() + 3600 * hours
    os.utime(tmp_path / "trials" / f"{dead.number}.alive", (seen, seen))
    assert len(search(splits, tmp_path).trials) == 6
    assert str(dead.number) in training.folders


@pytest.mark.parametrize("hours", [-2, 2])
def test_a_trial_at_work_is_not_taken_over_when_the_clock_is_set(
    splits, training, tmp_path: Path, hours: int
):
    first = TuningSearch(splits, QUESTION, tmp_path, 1, "cpu")
    trial = first.claim()
    seen = time.time() + 3600 * hours
    with claimed(tmp_path / "trials" / str(trial.number), ()):
        os.utime(tmp_path / "trials" / f"{trial.number}.alive", (seen, seen))
        assert first._requeue_dead() == 1
    assert first._requeue_dead() == 0


def test_two_processes_share_the_trials(splits, training, tmp_path: Path):
    first = TuningSearch(splits, QUESTION, tmp_path, 6, "cpu")
    second = TuningSearch(splits, QUESTION, tmp_path, 6, "cpu")
    started = [search.claim() for _ in range(3) for search in (first, second)]
    points = [tuple(trial.params.values()) for trial in started]
    assert len(set(points)) == 6
    for trial in started:
        first.run(trial)
    assert (first.claim(), second.claim()) == (None, None)


def test_who_finds_nothing_to_start_waits_for_what_runs_elsewhere(
    splits, training, tmp_path: Path, monkeypatch
):
    mine = TuningSearch(splits, QUESTION, tmp_path, 1, "cpu")
    theirs = mine.claim()
    other = TuningSearch(splits, QUESTION, tmp_path, 1, "cpu")
    monkeypatch.setattr("time.sleep", lambda _: mine.run(theirs))
    assert other.claim() is None
    assert len(other.best().trials) == 1


def test_settings_that_diverge_are_noted_and_not_chosen(splits, training, tmp_path: Path):
    training.fail_at = {1: TrainingError("the loss is not finite")}
    best = search(splits, tmp_path)
    errors = [trial.error for trial in best.trials]
    assert errors == ["the loss is not finite", None, None, None, None, None]
    assert best.valid == max(map(near_4e3, training.configs[1:]))


def test_a_search_in_which_all_diverge_says_so(splits, training, tmp_path: Path):
    training.fail_at = dict.fromkeys(range(1, 7), TrainingError("the loss is not finite"))
    with pytest.raises(TrainingError, match=r"none of the 6 trials .* the loss is not finite"):
        search(splits, tmp_path)


def test_a_longer_search_goes_on_in_the_methods_own_space(splits, training, tmp_path: Path):
    search(splits, tmp_path, method="cerp")
    best = search(splits, tmp_path, method="cerp", trials=9)
    assert len(best.trials) == 9
    drawn = [trial.settings for trial in best.trials[1:]]
    assert all(1e-5 <= settings["prune.gamma"] <= 1e-1 for settings in drawn)
    assert {settings["rewind"] for settings in drawn} == {"pruned", "initial"}
    assert len({settings["train.learning_rate"] for settings in drawn}) == 8
    assert training.configs[-1].prune.gamma == drawn[-1]["prune.gamma"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"epochs": 2}, "holds another search; it differs in epochs: 2 against 1"),
        ({"method": "udd"}, "unknown method 'udd'"),
    ],
)
def test_another_search_in_the_folder_or_an_unknown_method_is_refused(
    splits, training, tmp_path: Path, changed: dict[str, Any], message: str
):
    search(splits, tmp_path)
    with pytest.raises(ConfigError, match=message):
        search(splits, tmp_path, **changed)


@pytest.mark.parametrize(
    ("trials", "changes", "message"),
    [
        (0, {}, "at least 1 trial, got trials=0"),
        (6, {"budget": "lots"}, "budget 'lots' cannot be: it is neither"),
        (6, {"epochs": 0}, "epochs is 0; it must be above 0"),
    ],
)
def test_an_impossible_search_leaves_no_folder(splits, trials, changes, message, tmp_path: Path):
    with pytest.raises(ConfigError, match=message):
        search(splits, tmp_path / "out", trials=trials, **changes)
    assert not (tmp_path / "out").exists()


def test_a_count_that_may_lack_its_percent_sign_is_refused_with_both_readings():
    refuse_unclear_budgets(["90%", "100", "90values"])
    with pytest.raises(ConfigError, match=r"write --budget 90% .*, or --budget 90values"):
        refuse_unclear_budgets(["90"])


def test_the_verb_trains_for_real_and_prints_the_trials(splits, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(tuning_search, "EXTENSIONS", 0)
    splits.save(tmp_path / "data")
    options = "--method ud --backbone mf --budget 75% --dim 8 --epochs 1 --trials 2"
    command = ["tune", str(tmp_path / "data"), *options.split(), "-o", str(tmp_path / "out")]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.split()[:3] == ["valid", "ndcg@10", "train.learning_rate"]
    best = json.loads((tmp_path / "out" / "best.json").read_text())
    assert 0 < best["valid_ndcg@10"] == max(trial["valid_ndcg@10"] for trial in best["trials"])


def test_the_selection_metric_of_a_method_is_what_is_searched_for(splits, training, tmp_path: Path):
    question = QUESTION._replace(settings={"dim": 8, "selection_metric": "recall@20"})
    found = TuningSearch(splits, question, tmp_path, 1, "cpu")
    training.metric = "recall@20"
    found.run(found.claim())
    best = found.best()
    assert (best.metric, best.valid) == ("recall@20", best.to_json()["valid_recall@20"])


def test_best_settings_say_what_was_found():
    best = BestSettings("ud", "mf", {"dim": 8}, valid=0.25, trials=())
    assert repr(best) == "BestSettings(ud on mf: {'dim': 8})\n  valid ndcg@10 0.2500"


def test_without_optuna_the_extra_is_named(tmp_path: Path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    monkeypatch.delitem(sys.modules, "cerp.comparison.tuning_search")
    result = CliRunner().invoke(app, ["tune", "synthetic", "-o", str(tmp_path)])
    assert isinstance(result.exception, MissingExtra)
    assert "pip install 'cerp[tune]'" in str(result.exception)
