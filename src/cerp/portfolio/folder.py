"""The folder of a portfolio: the run of the winner, and those of all members below it.

FOLDER/                 the run of the winner, as any other (`cerp.runs.folder`)
FOLDER/portfolio.json   what was asked for; once it is chosen, the winner and all that was tried
FOLDER/tried/<name>/    the run of a member, judged on validation alone
FOLDER/tried/shared/    what members would search alike (`cerp.runs.shared_filter`)
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cerp.choices import Mix
from cerp.config import differences
from cerp.errors import ConfigError, DataError
from cerp.files import errors_named, make_folder, remove, replacing
from cerp.locks import claimed
from cerp.naming import budget_file
from cerp.portfolio.choice import Tried
from cerp.runs.folder import CODED, CURVES, ORDER, SEARCHED, RunFolder
from cerp.runs.sealed import read_sealed, write_sealed

PORTFOLIO = "portfolio.json"
TRIED, SHARED = "tried", "shared"


@dataclass(frozen=True)
class Frozen:
    """A choice that has been made."""

    winner: str
    why: str
    tried: list[Tried]


@dataclass(frozen=True)
class PortfolioFolder:
    """Where a portfolio keeps what it tries."""

    path: Path

    def member(self, name: str) -> Path:
        """The run folder of a member."""
        return self.path / TRIED / name

    @property
    def shared(self) -> Path:
        """What one member searches and others read."""
        return self.path / TRIED / SHARED

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Work alone on the members."""
        with claimed(self.path / TRIED, ()):
            yield

    def begin(self, asked: dict[str, Any], *, resume: bool) -> Frozen | None:
        """Say what is asked for; refuse to go on with another portfolio, or unasked.

        What is there may have been chosen already: then it is given back.
        """
        path = self.path / PORTFOLIO
        if not path.exists():
            if RunFolder(self.path).plan() is not None:
                raise ConfigError(
                    f"{self.path} holds a run, and no portfolio; choose another folder"
                )
            write_sealed(path, {"asked": asked})
            return None
        there = read_sealed(path)
        if unlike := differences(asked, there["asked"]):
            raise ConfigError(
                f"{self.path} holds another portfolio; it differs in {'; '.join(unlike)} "
                "(asked for against there). Choose another folder, or remove it"
            )
        if not resume:
            raise ConfigError(f"{self.path} holds this run already; give resume=True to go on")
        if "winner" not in there:
            return None
        try:
            tried = [Tried(**one) for one in there["tried"]]
            return Frozen(there["winner"], there["why"], tried)
        except (KeyError, TypeError) as error:
            raise DataError(f"{path} is not what a portfolio writes ({error})") from None

    def clear(self) -> None:
        """Remove the portfolio that is here, and the run of its winner."""
        RunFolder(self.path).clear()
        remove(self.path / PORTFOLIO)
        with errors_named(self.path / TRIED):
            for run in (self.path / TRIED).iterdir():
                if run.is_dir():  # the lock stays
                    shutil.rmtree(run)

    def freeze(self, asked: dict[str, Any], frozen: Frozen) -> None:
        """Keep the choice; from now on the winner may read the test part."""
        tried = [one.to_json() for one in frozen.tried]
        chosen = {"winner": frozen.winner, "why": frozen.why, "tried": tried}
        write_sealed(self.path / PORTFOLIO, {"asked": asked, **chosen})

    def promote(self, name: str) -> None:
        """Make the run of a member, up to its judging, the run of this folder."""
        copy_run(RunFolder(self.member(name)), RunFolder(self.path), mix=None)


def copy_run(source: RunFolder, target: RunFolder, *, mix: bool | Mix | None) -> None:
    """Take over all but what is judged and shipped; the plan last, which makes it a run.

    ``mix`` puts the filter beside what was trained without it; None leaves that as it was.
    """
    plan = source.plan()
    assert plan is not None, "only runs are copied"
    make_folder(target.path)
    names = [ORDER, CODED, SEARCHED, CURVES]
    names += [
        budget_file(source.path, "trained", budget, ".safetensors").name
        for budget in plan.candidates
    ]
    for name in names:
        if (source.path / name).exists():
            with replacing(target.path / name) as scratch:
                shutil.copyfile(source.path / name, scratch)
    target.write_plan(plan if mix is None else replace(plan, config=replace(plan.config, mix=mix)))
