"""`cerp.tune`: search the settings of a method on validation."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from cerp.comparison.tuned import BestSettings
from cerp.comparison.variants import is_trained, nested
from cerp.data.splits import Splits
from cerp.errors import ConfigError, MissingExtra
from cerp.files import errors_named, write_json
from cerp.sizing.precision_plan import value_limit
from cerp.training.devices import chosen_device

BEST_FILE = "best.json"
DEFAULT_BUDGET = "99%"
EPOCHS = 15
"""Of training in a trial."""
TRIALS = 16
"""For every method alike."""


def tune(
    splits: Splits,
    method: str = "cerp",
    *,
    output: str | PathLike[str],
    backbone: str = "lightgcn",
    budget: str | int | None = None,
    max_file_size: str | None = None,
    trials: int = TRIALS,
    epochs: int = EPOCHS,
    dim: int | None = None,
    prune_epochs: int | None = None,
    longer: bool = True,
    device: str = "auto",
    verbose: bool = True,
) -> BestSettings:
    """Search settings by the selection metric on validation; the test part is not read.

    The same call on the same folder goes on with the search, also while others are at it:
    several processes, or machines that share the folder, divide it up.

    Parameters
    ----------
    splits
        The data; its test part is withheld.
    method
        As `cerp.compare` calls it.
    output
        Folder of the search; ``best.json`` in it has what was found.
    backbone
        By name.
    budget
        At which budget to search; ``"99%"`` by default, or what ``max_file_size`` has room for.
    max_file_size
        Of the model file of each trial, such as ``"300KB"``.
    trials
        The preset, three that were best for other methods (`cerp.comparison.search_space.STARTS`),
        and the others drawn: learning rate, decay (none, L2, or decoupled), schedule, and what the
        method has of its own. At most 6 more go beyond the edge of a range, or train for longer,
        where the best so far asks for it.
    epochs
        Training epochs of a trial.
    dim, prune_epochs
        In place of the preset's.
    longer
        Whether settings that were best in their last epoch are tried with more of them. Not where
        what is found is trained for more epochs anyway.
    device
        ``auto``, ``cpu``, ``cuda``, or one of several such as ``cuda:1``.
    verbose
        Whether to show the progress of each trial, on standard error.

    Returns
    -------
    BestSettings
        For ``settings`` of `cerp.compare`; all trials are in it.

    """
    try:
        from cerp.comparison.tuning_search import Question, TuningSearch, trial_config
    except ImportError as error:
        if error.name != "optuna":
            raise
        raise MissingExtra("Tuning", "optuna", "tune") from None
    if trials < 1:
        raise ConfigError(f"a search needs at least 1 trial, got trials={trials}")
    if not is_trained(method):
        raise ConfigError(
            f"method {method!r} searches what it needs by itself; there is nothing to tune"
        )
    given = {"dim": dim, "prune.epochs": prune_epochs}
    budget = str(budget or max_file_size or DEFAULT_BUDGET)
    fixed = nested({name: value for name, value in given.items() if value is not None})
    question = Question(method, backbone, budget, epochs, fixed, max_file_size)
    value_limit(splits, trial_config(question), budget)  # refused before there is a folder
    folder = Path(output)
    chosen = chosen_device(device)
    with errors_named(folder):  # the journal of the search writes by itself
        search = TuningSearch(
            splits, question, folder, trials, chosen, longer=longer, verbose=verbose
        )
        while (claimed := search.claim()) is not None:
            search.run(claimed)
        best = search.best()
    write_json(folder / BEST_FILE, best.to_json())
    return best
