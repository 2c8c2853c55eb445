"""`cerp tune`: search the settings of a method on validation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cerp.cli.options import (
    AsJson,
    Device,
    chosen_device,
    needs_torch,
    reads_data,
    refuse_unclear_budgets,
)
from cerp.cli.output import print_json, print_note, print_table
from cerp.data.splits import Splits
from cerp.models import BACKBONES

if TYPE_CHECKING:
    from cerp.comparison.tuned import BestSettings


@reads_data
def tune(
    splits: Splits,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder of the search.", show_default=False)
    ],
    method: Annotated[str, typer.Option(help="As 'cerp compare' calls it.")] = "cerp",
    backbone: Annotated[str, typer.Option(help=f"{', '.join(BACKBONES)}.")] = "lightgcn",
    budget: Annotated[
        str | None,
        typer.Option(
            help="At which budget to search.  [default: 99%, or what --max-file-size allows]"
        ),
    ] = None,
    max_file_size: Annotated[
        str | None, typer.Option(help="Of the model file of each trial, such as 300KB.")
    ] = None,
    trials: Annotated[
        int,
        typer.Option(
            help="The preset, and so many less one drawn from the method's space; up to 6 more "
            "beyond an edge, or for longer, where the best asks for it."
        ),
    ] = 16,
    epochs: Annotated[int, typer.Option(help="Training epochs of a trial.")] = 15,
    dim: Annotated[int | None, typer.Option(help="Dimension of the vectors.")] = None,
    prune_epochs: Annotated[
        int | None, typer.Option(help="In how many epochs to reach the budget.")
    ] = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Search settings by accuracy on validation; the test part is not read.

    The same command on the same folder goes on with the search, also while others
    are at it: several processes, or machines that share the folder, divide it up.
    What was found is in best.json, for 'cerp compare --settings'.

    \b
    Examples:
      cerp tune gowalla --method ud -o tuned/ud
      cerp tune gowalla --method cerp --backbone mlp --trials 30 -o tuned/cerp-mlp
    """
    with needs_torch("Tuning"):
        from cerp.comparison.tune import BEST_FILE
        from cerp.comparison.tune import tune as search
        from cerp.training.malloc import freed_memory_kept
    refuse_unclear_budgets([] if budget is None else [budget])
    device = chosen_device(device)
    with freed_memory_kept(device):
        best = search(
            splits,
            method,
            output=output,
            backbone=backbone,
            budget=budget,
            max_file_size=max_file_size,
            trials=trials,
            epochs=epochs,
            dim=dim,
            prune_epochs=prune_epochs,
            device=device,
        )
    if as_json:
        print_json(best.to_json())
        return
    _print_trials(best)
    if best.at_edge:
        print_note("at an edge", f"{', '.join(best.at_edge)}; more trials may find better ones")
    if best.is_cut_short:
        print_note("cut short", "the best was still rising at its last epoch; give more epochs")
    print_note("saved", str(output / BEST_FILE))


def _print_trials(best: BestSettings) -> None:
    """What was tried, the best first."""
    names = list(dict.fromkeys(name for trial in best.trials for name in trial.settings))
    ranked = sorted(best.trials, key=lambda trial: -(trial.valid or 0))
    print_table(
        (f"valid {best.metric}", *names),
        [
            (
                trial.error if trial.valid is None else f"{trial.valid:.4f}",
                *(_setting(trial.settings.get(name, "-")) for name in names),
            )
            for trial in ranked
        ],
    )


def _setting(value: object) -> str:
    return f"{value:.2g}" if isinstance(value, float) else str(value)
