"""A search for settings that several processes share; the test part is never read.

Trials stand in an Optuna journal on disk, so that several processes, or machines
with a common folder, share one search. A running trial shows that it is alive
by touching a file; one that has stopped doing so is taken over by another
process, which goes on from its last checkpoint.

    FOLDER/study.log      the journal
    FOLDER/trials/<n>/    the run of a trial
    FOLDER/best.json      what was found, for `cerp.compare`
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
from optuna.storages import JournalStorage
from optuna.trial import FrozenTrial, Trial, TrialState

from cerp.comparison.search_space import (
    SHARED,
    Range,
    Space,
    edges,
    settings_of,
    starting_points,
)
from cerp.comparison.tuned import BestSettings, TriedSettings
from cerp.comparison.tuning_journal import ClaimLock, journal
from cerp.comparison.variants import config_of, nested, variant
from cerp.config import Config, RunOptions, differences
from cerp.data.splits import Splits
from cerp.errors import ConfigError, TrainingError
from cerp.files import make_folder
from cerp.locks import is_claimed
from cerp.runs.fit import fit_all

EXTENSIONS = 6
"""Trials beyond those asked for, the same for every method: the best so far with a number that is
at the edge of its range moved further out, or with twice the epochs where it ended at its last."""

EPOCHS = "train.epochs"
LONGEST = 4
"""Times the epochs of a trial, beyond which it is not made longer."""

ALIVE_EVERY_SECONDS = 5.0
DEAD_AFTER_SECONDS = 60.0
"""A trial that has not touched its file for so long has lost its process."""
GRACE_SECONDS = 30
"""After which the lock of a process that was killed in the middle of an entry is taken."""


TRIED = (TrialState.COMPLETE, TrialState.PRUNED)
"""Trials that have an outcome: a score, or training that diverged."""


class Question(NamedTuple):
    """What a search is for."""

    method: str
    backbone: str
    budget: str
    epochs: int
    """Of training, in each trial."""
    settings: dict[str, Any]
    """What stays fixed, over the variant's own configuration."""
    max_file_size: str | None = None


class TuningSearch:
    """One process at work on a search."""

    def __init__(
        self,
        splits: Splits,
        question: Question,
        folder: Path,
        trials: int,
        device: str,
        *,
        longer: bool = True,
        verbose: bool = True,
    ) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.splits, self.question, self.device = splits, question, device
        self.folder, self.trials, self.verbose = folder, trials, verbose
        self.longest = LONGEST * question.epochs if longer else question.epochs
        make_folder(folder / "trials")
        # The journal locks each of its entries. This lock makes one step of several: two
        # processes must neither both set up the search nor both start its last trial.
        self._lock = ClaimLock(str(folder / "claim"), GRACE_SECONDS)
        with self._alone():
            self.study = optuna.create_study(
                storage=JournalStorage(journal(folder / "study.log", GRACE_SECONDS)),
                study_name="cerp",
                direction="maximize",
                load_if_exists=True,
            )
            self._set_up()

    def claim(self) -> Trial | None:
        """The next trial, or None when all are done.

        Where none is left but some are running elsewhere, it waits for them, or
        takes over those whose process has died.
        """
        while True:
            with self._alone():
                running = self._requeue_dead()
                started = len(self._in_state(*TRIED, TrialState.RUNNING))
                if not (running or self._in_state(TrialState.WAITING) or started < self.trials):
                    self._extend()
                if self._in_state(TrialState.WAITING) or started < self.trials:
                    # Seeded by what is there: repeatable, and no two processes draw the same.
                    # A trial that died does not count: what takes its place is drawn as it was.
                    drawn = len(self.study.trials) - len(self._in_state(TrialState.FAIL))
                    self.study.sampler = optuna.samplers.TPESampler(seed=drawn)
                    trial = self.study.ask(self._distributions())
                    self._alive_file(_folder_name(trial)).touch()
                    return trial
                if not running:
                    return None
            time.sleep(ALIVE_EVERY_SECONDS)

    def run(self, trial: Trial) -> None:
        """Train, and tell the study the selection metric on validation."""
        name = _folder_name(trial)
        config = trial_config(self.question, nested(self._settings(trial)))
        place = self.folder / "trials" / name
        with self._showing_life(name):
            try:
                options = RunOptions(self.device, place, resume=True, quiet=not self.verbose)
                (model,) = fit_all(self.splits.without_test(), config, options)
                trial.set_user_attr("best_epoch", model.facts.best_epoch)
                self.study.tell(trial, model.metrics["valid"][config.selection_metric])
            except TrainingError as error:
                # A learning rate that diverges is a finding, not a failure of the search.
                trial.set_user_attr("error", str(error))
                self.study.tell(trial, state=TrialState.PRUNED)
            except BaseException:
                self._give_back(trial)
                raise
        shutil.rmtree(place, ignore_errors=True)
        self._alive_file(name).unlink(missing_ok=True)

    def best(self) -> BestSettings:
        """The best settings, and all that were tried."""
        # In the order of their first start, also where another process took one over.
        tried = sorted(self._in_state(*TRIED), key=lambda trial: int(_folder_name(trial)))
        scored = [trial for trial in tried if trial.value is not None]
        if not scored:
            raise TrainingError(
                f"none of the {len(tried)} trials could be trained; "
                f"the first said: {tried[0].user_attrs['error']}"
            )
        best = max(scored, key=_score)
        question = self.question
        left_open = self._open_ends(best)
        return BestSettings(
            question.method,
            question.backbone,
            nested(self._settings(best)),
            question.settings,
            question.budget,
            question.epochs,
            trial_config(question).selection_metric,
            best.value,
            tuple(
                TriedSettings(
                    self._settings(trial),
                    trial.value,
                    trial.user_attrs.get("error"),
                    trial.user_attrs.get("best_epoch"),
                )
                for trial in tried
            ),
            self.splits.learning_fingerprint,
            tuple(name for name in left_open if name != EPOCHS),
            EPOCHS in left_open,
        )

    def _set_up(self) -> None:
        """Settle what is searched, and queue the grid."""
        asked = {"fingerprint": self.splits.learning_fingerprint, **self.question._asdict()}
        there = self.study.user_attrs.get("question")
        if there is None:
            self.study.set_user_attr("question", asked)
        elif found := differences(asked, there):
            raise ConfigError(
                f"{self.folder} holds another search; it differs in {'; '.join(found)} "
                "(asked for against there). Choose another folder, or remove it"
            )
        if not self.study.trials:  # no method is to come out below its preset
            for point in starting_points(trial_config(self.question), self._space)[: self.trials]:
                self.study.enqueue_trial(point)

    @property
    def _space(self) -> Space:
        return SHARED | variant(self.question.method).space

    def _distributions(self) -> dict[str, BaseDistribution]:
        """What trials draw from, as wide as what is queued."""
        queued = [trial.system_attrs.get("fixed_params", {}) for trial in self.study.trials]

        def wide(name: str, choices: Range) -> FloatDistribution:
            values = [point[name] for point in queued if name in point]
            low, high = min([choices.low, *values]), max([choices.high, *values])
            return FloatDistribution(low, high, log=True)

        return {
            name: wide(name, choices)
            if isinstance(choices, Range)
            else CategoricalDistribution(choices)
            for name, choices in self._space.items()
        }

    def _settings(self, trial: Trial | FrozenTrial) -> dict[str, Any]:
        """Entries of the configuration, by dotted names."""
        epochs = trial.user_attrs.get("epochs")
        return settings_of(trial.params) | ({EPOCHS: epochs} if epochs else {})

    def _open_ends(self, best: FrozenTrial) -> dict[str, tuple[dict[str, Any], int | None]]:
        """What the best so far leaves open: points beyond an edge, and more epochs; none tried yet.

        By the name of the setting, the point and the epochs, where they are not those of all.
        """
        own, usual = best.user_attrs.get("epochs"), self.question.epochs
        ways: dict[str, tuple[dict[str, Any], int | None]] = {}
        if best.user_attrs.get("best_epoch") == (own or usual):
            ways[EPOCHS] = dict(best.params), 2 * (own or usual)
        for name, value in edges(best.params, self._space).items():
            ways[name] = {**best.params, name: value}, own
        tried = [(trial.params, trial.user_attrs.get("epochs")) for trial in self._in_state(*TRIED)]
        return {name: way for name, way in ways.items() if way not in tried}

    def _extend(self) -> None:
        """Queue what the best so far leaves open, as long as there are trials for it."""
        tried = self._in_state(*TRIED)
        scored = [trial for trial in tried if trial.value is not None]
        left = self.trials + EXTENSIONS - len(tried)
        if not scored or left < 1:
            return
        ways = self._open_ends(max(scored, key=_score)).values()
        for point, epochs in [way for way in ways if (way[1] or 0) <= self.longest][:left]:
            attributes = {"epochs": epochs} if epochs else {}
            self.study.enqueue_trial(point, user_attrs=attributes)

    def _requeue_dead(self) -> int:
        """Queue trials whose process has died; how many others are running."""
        # The clock of the file system, which other machines may share and ours may differ from.
        clock = self.folder / "clock"
        clock.touch()
        now = clock.stat().st_mtime
        running = self._in_state(TrialState.RUNNING)
        dead = [trial for trial in running if self._is_dead(trial, now)]
        for trial in dead:
            self._requeue(trial)
        return len(running) - len(dead)

    def _give_back(self, trial: Trial) -> None:
        """Queue a trial again that was not ended, where the disk allows that.

        Else it looks as if its process had died, and is taken over as such.
        """
        with suppress(OSError):
            if trial.number in {running.number for running in self._in_state(TrialState.RUNNING)}:
                self._requeue(trial)

    def _requeue(self, trial: Trial | FrozenTrial) -> None:
        """Another trial with the same settings, which goes on in the same folder.

        One that died while its settings were drawn, and has but some, is drawn anew.
        """
        self.study.tell(trial.number, state=TrialState.FAIL)
        queued = self.study.trials[trial.number].system_attrs.get("fixed_params", {})
        settings = queued | trial.params
        if settings.keys() >= self._distributions().keys():
            kept = {
                name: trial.user_attrs[name] for name in ("epochs",) if name in trial.user_attrs
            }
            self.study.enqueue_trial(settings, user_attrs={"folder": _folder_name(trial), **kept})

    def _in_state(self, *states: TrialState) -> list[FrozenTrial]:
        return self.study.get_trials(deepcopy=False, states=states)

    def _is_dead(self, trial: FrozenTrial, now: float) -> bool:
        """Whether its process has gone; a clock that was set, or slept, is no proof of that.

        A sign from the future is one from before the clock was set back.
        """
        is_silent = abs(now - self._last_sign_of_life(trial)) > DEAD_AFTER_SECONDS
        return is_silent and not is_claimed(self.folder / "trials" / _folder_name(trial))

    def _last_sign_of_life(self, trial: FrozenTrial) -> float:
        path = self._alive_file(_folder_name(trial))
        return path.stat().st_mtime if path.exists() else 0.0

    def _alive_file(self, name: str) -> Path:
        return self.folder / "trials" / f"{name}.alive"

    @contextmanager
    def _showing_life(self, name: str) -> Iterator[None]:
        ended = threading.Event()

        def touch() -> None:
            while not ended.wait(ALIVE_EVERY_SECONDS):
                self._alive_file(name).touch()

        thread = threading.Thread(target=touch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self._lock.acquire()
        try:
            yield
        finally:
            self._lock.release()


def trial_config(question: Question, *drawn: dict[str, Any]) -> Config:
    """The configuration of a trial, with the settings that were drawn for it."""
    return config_of(
        question.method,
        question.backbone,
        question.settings,
        {
            "budgets": [question.budget],
            "max_file_size": question.max_file_size,
            "train": {"epochs": question.epochs},
        },
        *drawn,
    )


def _folder_name(trial: Trial | FrozenTrial) -> str:
    """A trial that was taken over goes on in the folder of the first."""
    return str(trial.user_attrs.get("folder", trial.number))


def _score(trial: FrozenTrial) -> float:
    return trial.value if trial.value is not None else float("-inf")
