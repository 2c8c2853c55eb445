"""`fit_to_size`: the best model that fits into so many bytes, whatever it is made of."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cerp.budget import parse_size
from cerp.config import Config, RunOptions
from cerp.data.splits import Splits
from cerp.errors import ConfigError, MissingExtra, StoppedError, TrainingError
from cerp.portfolio.choice import Choice, Tried, best_of, reason, tried_model
from cerp.portfolio.folder import Frozen, PortfolioFolder, copy_run
from cerp.portfolio.members import Member, members_of
from cerp.portfolio.watching import Clock, Watch
from cerp.runs.fit import as_splits, fit_all
from cerp.runs.folder import RunFolder
from cerp.runs.planning import refuse_unselectable
from cerp.training.devices import chosen_device
from cerp.training.distributed import world_size

SHARED = (
    "seed", "dim", "epochs", "prune_epochs", "learning_rate", "batch_size", "epoch_size", "loss",
    "seen", "selection_metric", "judge_users",
)  # fmt: skip
"""Settings that all members take; what else can be set says what kind of model it is."""


def fit_to_size(
    data: Any,
    max_file_size: str,
    *,
    portfolio: Sequence[str] | None = None,
    time_limit: str | None = None,
    device: str = "auto",
    output: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    verbose: bool = True,
    **settings: Any,
) -> Choice:
    """Try kinds of model, the cheapest first, and give the best on validation that fits.

    The test part is read for that one alone, after the choice is made. A member is left out
    where its smallest file is over the limit, or where a quarter of its training leaves it below
    80% of the best so far, unless the filter is put beside its vectors.

    Parameters
    ----------
    data
        `Splits`, or anything that `cerp.read` reads, which is then split at random by the seed.
    max_file_size
        Of the whole model file, such as ``"300KB"``.
    portfolio
        What to try, by the names in `cerp.portfolio.members.MEMBERS`; None: all.
    time_limit
        ``"90s"``, ``"10m"`` or ``"2h"``: no member is started after it. One that is in training
        is stopped; what searches without training, such as the filter, is finished first.
    device
        ``auto``, ``cpu``, ``cuda``, or one of several such as ``cuda:1``.
    output
        A folder: the run of the winner, and below ``tried`` those of all members.
    resume
        Go on with what is in ``output``: finished members are read, an interrupted one goes on.
        A choice that was made stays as it is.
    overwrite
        Remove the portfolio or the run that is in ``output`` first.
    verbose
        Whether to show progress, on standard error.
    **settings
        For all members that have them: ``seed``, ``dim``, ``epochs``, ``prune_epochs``,
        ``learning_rate``, ``batch_size``, ``epoch_size``, ``loss``, ``seen``,
        ``selection_metric``, ``judge_users``.

    Returns
    -------
    Choice
        The model, what else was tried, and why the winner won.

    """
    if unknown := sorted(settings.keys() - set(SHARED)):
        raise ConfigError(
            f"{unknown[0]} says what kind of model is trained, and a portfolio tries several; "
            f"leave it out, or call cerp.fit. For all members there are: {', '.join(SHARED)}"
        )
    given = {name: value for name, value in settings.items() if value is not None}
    splits = as_splits(data, given.get("seed", 0), verbose=verbose)
    options = RunOptions(chosen_device(device), None, resume, overwrite, quiet=not verbose)
    members, clock = members_of(portfolio), Clock.started(time_limit)
    if output is not None:
        options = replace(options, folder=Path(output))
        return _Portfolio(splits, max_file_size, members, given, options, clock).choice()
    if resume:
        raise ConfigError("resume=True needs the folder of the run: output")
    with tempfile.TemporaryDirectory() as place:
        options = replace(options, folder=Path(place))
        return _Portfolio(splits, max_file_size, members, given, options, clock).choice()


class _Portfolio:
    """Members at work, one after the other."""

    def __init__(
        self,
        splits: Splits,
        size: str,
        members: list[Member],
        settings: Mapping[str, Any],
        options: RunOptions,
        clock: Clock,
    ) -> None:
        if world_size() > 1:
            raise ConfigError("a portfolio is tried by one process; start it without torchrun")
        refuse_unselectable(splits, settings.get("selection_metric", Config.selection_metric))
        parse_size(size, "max_file_size")
        self.splits, self.size, self.members = splits, size, members
        self.settings, self.options, self.clock = settings, options, clock
        assert options.folder is not None, "it is given one, if only for a while"
        self.folder = PortfolioFolder(options.folder)
        self.metric: str = settings.get("selection_metric", Config.selection_metric)

    def choice(self) -> Choice:
        """The winner, judged on test as well."""
        asked = {
            "max_file_size": self.size,
            "portfolio": [member.name for member in self.members],
            "settings": dict(self.settings),
            "fingerprint": self.splits.learning_fingerprint,
        }
        with self.folder.claimed():
            if self.options.overwrite:
                self.folder.clear()
            frozen = self.folder.begin(asked, resume=self.options.resume)
            if frozen is None:
                tried = self._all_tried()
                best = best_of(tried, self.size)
                frozen = Frozen(best.name, reason(best, tried, self.metric), tried)
                self.folder.freeze(asked, frozen)
            if RunFolder(self.folder.path).plan() is None:
                self.folder.promote(frozen.winner)
            [model] = fit_all(self.splits, self._config(frozen.winner), self._options(None))
        # With the figures of the test part, the header has a few bytes more.
        tried = [
            tried_model(one.name, model.facts) if one.name == frozen.winner else one
            for one in frozen.tried
        ]
        return Choice(model, tried, frozen.winner, frozen.why)

    def _all_tried(self) -> list[Tried]:
        tried: list[Tried] = []
        for member in self.members:
            if self.clock.is_over:
                late = f"not started: the time limit of {self.clock.limit} was over"
                tried.append(Tried(member.name, why_not=late))
                continue
            best = max((one.valid or 0.0 for one in tried if one.why_not is None), default=None)
            tried.append(self._tried(member, None if self._may_be_mixed(member) else best))
        return tried

    def _may_be_mixed(self, member: Member) -> bool:
        """Whether weak vectors are of use too, beside the filter."""
        starts = any(other.starts_from == member.name for other in self.members)
        return bool(member.mix) or starts

    def _tried(self, member: Member, best: float | None) -> Tried:
        """A member's model, judged on validation; or why there is none."""
        started = time.monotonic()
        if member.starts_from is not None:
            self._start_from(member)
        options = replace(self._options(member), reads_test=False, watch=Watch(self.clock, best))
        try:
            [model] = fit_all(self.splits, self._config(member.name), options)
        except (ConfigError, MissingExtra, StoppedError, TrainingError) as error:
            seconds = round(time.monotonic() - started, 2)
            return Tried(member.name, seconds=seconds, why_not=str(error))
        return tried_model(member.name, model.facts)

    def _start_from(self, member: Member) -> None:
        """Give a member the vectors of another, where they are there."""
        assert member.starts_from is not None
        other = RunFolder(self.folder.member(member.starts_from))
        own = RunFolder(self.folder.member(member.name))
        if other.is_finished and own.plan() is None:
            copy_run(other, own, mix=member.mix)

    def _config(self, name: str) -> Config:
        [member] = [one for one in self.members if one.name == name]
        return member.config(self.size, self.settings)

    def _options(self, member: Member | None) -> RunOptions:
        """Of a member, or of the winner in its own place."""
        place = self.folder.path if member is None else self.folder.member(member.name)
        shared = self.folder.shared
        return replace(self.options, folder=place, shared=shared, resume=True, overwrite=False)
