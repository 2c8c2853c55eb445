"""`cerp train`: from data to models under their budgets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from cerp.budget import default_budget
from cerp.choices import Assignment, Mix, Refit, ValuePrecision
from cerp.cli.conventions import Conventions, print_conventions
from cerp.cli.options import (
    AsJson,
    Device,
    JudgeUsers,
    chosen_device,
    needs_torch,
    reads_data,
    refuse_unclear_budgets,
)
from cerp.cli.output import print_note
from cerp.cli.portfolio import MEMBER_NAMES, is_portfolio
from cerp.cli.rows import note_merged
from cerp.cli.trained import judged_words, print_figures, print_files, print_remarks
from cerp.config import Config, RunOptions, doubts
from cerp.data.splits import Splits
from cerp.errors import ConfigError
from cerp.methods import METHODS
from cerp.models import BACKBONES
from cerp.presets import preset, wanted_assignment, with_settings


def _needed(output: Path | None) -> Path | None:
    if output is None:
        raise ConfigError("say where the run goes, before it is trained: -o RUN, a new folder")
    return output


@reads_data
def train(
    splits: Splits,
    seed: int,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            callback=_needed,
            help="Folder of the run: results, checkpoints and the split.  [required]",
        ),
    ] = None,
    budget: Annotated[
        list[str] | None,
        typer.Option(
            help="Pruned share of the full table (99%), a count of values, or bytes of the "
            "embedding (400KB); repeatable.  [default: the highest of 99%, 95%, 90% and 80% that "
            "leaves 10,000 values, or what --max-file-size allows]"
        ),
    ] = None,
    max_file_size: Annotated[
        str | None,
        typer.Option(
            help="Of the whole model file, such as 2MB. Without a method, a backbone or another "
            "choice of a model, several kinds are tried and the best on validation is kept."
        ),
    ] = None,
    portfolio: Annotated[
        str | None,
        typer.Option(
            help=f"What to try for --max-file-size: {', '.join(MEMBER_NAMES)}.  [default: all]"
        ),
    ] = None,
    time_limit: Annotated[
        str | None,
        typer.Option(
            help="After so much time, such as 10m, nothing further is tried and training is "
            "stopped; a search without training, such as that of the filter, is finished."
        ),
    ] = None,
    values: Annotated[
        ValuePrecision | None,
        typer.Option(help="Precision of values in the file.  [default: fp32, or what fits best]"),
    ] = None,
    seen: Annotated[
        bool | None,
        typer.Option(
            "--seen/--no-seen",
            show_default=False,
            help="Whether the file says what users have seen.  [default: it does, but where "
            "--max-file-size alone chooses a kind without a graph]",
        ),
    ] = None,
    item_only: Annotated[
        bool,
        typer.Option(
            "--item-only",
            help="A file without users: whoever asks brings the items that they like. Of mf; "
            "ease, neighbours and svd are always so, but for svd with a filter beside it.",
        ),
    ] = False,
    backbone: Annotated[
        str | None,
        typer.Option(help=f"{', '.join(BACKBONES)}.  [default: lightgcn]"),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help=f"{', '.join(METHODS)}; full is no compression; ease, filter, neighbours, svd and "
            "als need no training, ease, filter and als no budget.  [default: cerp]"
        ),
    ] = None,
    preset_name: Annotated[
        Literal["default", "paper"],
        typer.Option(
            "--preset",
            help="Where the rest comes from; docs/training.md#fidelity-notes has what the two do "
            "differently.",
        ),
    ] = "default",
    settings: Annotated[
        Path | None,
        typer.Option(help="A best.json of 'cerp tune', in place of preset, method and backbone."),
    ] = None,
    teacher: Annotated[
        str | None,
        typer.Option(
            help="Learn codes and preferences from this: a backbone, trained at full size first, "
            "svd, als, a finished run, or a .npy file of vectors; none: from nobody.  [default: "
            "svd for CERP with mf, where there are 50,000 to 2,000,000 interactions]"
        ),
    ] = None,
    assignment: Annotated[
        Assignment | None,
        typer.Option(
            help="Which rows of codebooks users and items get: by a hash of their place in the "
            "order of ids, or by codes learned from the training data."
        ),
    ] = None,
    codebooks: Annotated[
        int | None, typer.Option(help="Of learned codes, 2 to 8; a hash has two.")
    ] = None,
    ordering: Annotated[
        str | None,
        typer.Option(help="Of ids before hashing: spectral, degree, shuffled or native."),
    ] = None,
    dim: Annotated[int | None, typer.Option(help="Dimension of the vectors.")] = None,
    neighbours: Annotated[
        int | None,
        typer.Option(
            help="LightGCN: how many neighbours of the users and items of a batch a step looks "
            "at; 0: the whole graph.  [default: the whole, or 8 where the vectors of all would "
            "have more than 268 million numbers, or there are more than 67 million pairs]"
        ),
    ] = None,
    buckets: Annotated[int | None, typer.Option(help="Rows of each codebook.")] = None,
    prune_epochs: Annotated[
        int | None, typer.Option(help="In how many epochs to reach the tightest budget.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Training epochs at most.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Of training.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Positives in a batch.")] = None,
    epoch_size: Annotated[
        int | None,
        typer.Option(help="Positives in an epoch; the next goes on from there.  [default: all]"),
    ] = None,
    gamma: Annotated[
        float | None, typer.Option(help="First weight of the complementary-pruning penalty.")
    ] = None,
    mix: Annotated[
        bool | None,
        typer.Option(
            "--mix/--no-mix",
            help="Add the graph filter to the vectors, trained ones or those of svd, where "
            "validation likes it.",
            show_default=False,
        ),
    ] = None,
    mix_sharp: Annotated[
        bool, typer.Option("--mix-sharp", help="The same, with the sharpened filter.")
    ] = False,
    mix_together: Annotated[
        bool,
        typer.Option("--mix-together", help="As --mix, with the filter in training's scores."),
    ] = False,
    loss: Annotated[
        str | None, typer.Option(help="What training minimises.  [default: bpr]")
    ] = None,
    selection_metric: Annotated[
        str | None,
        typer.Option(help="What validation selects by, such as recall@20.  [default: ndcg@10]"),
    ] = None,
    judge_users: JudgeUsers = None,
    refit: Annotated[
        Refit | None,
        typer.Option(help="Train the selected model once more on more data, for shipping."),
    ] = None,
    device: Device = "auto",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in -o.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Remove the run in -o, and train anew.")
    ] = False,
    tensorboard: Annotated[
        Path | None, typer.Option(help="Folder for events that TensorBoard shows.")
    ] = None,
    conventions: Conventions = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Also print what a researcher wants to know.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Choose codebook rows, prune, retrain, select on validation, and read the test part once.

    Several budgets come out of one pruning run. With --max-file-size alone, several
    kinds of model are tried, the cheapest first, and validation chooses. Ctrl-C, or
    a crash, loses at most a minute: the same command with --resume goes on to the
    same result. Under torchrun the batch is shared by all processes.

    \b
    Examples:
      cerp train ratings.csv --budget 99% -o run
      cerp train ratings.csv --max-file-size 300KB -o run
      cerp train ratings.csv --max-file-size 300KB --portfolio filter,als --time-limit 10m -o run
      cerp train ratings.csv --method filter -o run
      cerp train ratings.csv --method neighbours --max-file-size 75KB -o run
      cerp train ratings.csv --method als --max-file-size 60KB -o run
      cerp train ratings.csv --budget 99% --assignment learned --codebooks 4 -o run
      cerp train gowalla --budget 90% --budget 99% --backbone mlp --device cuda -o run
      cerp train my-split --budget 50000 --refit train+valid -o run --resume
      torchrun --nproc-per-node 2 -m cerp.cli train synthetic -o run
    """
    with needs_torch("Training"):
        from cerp.comparison.tuned import read_tuned
        from cerp.comparison.variants import config_of
        from cerp.models.backbones.lightgcn import suited_neighbours
        from cerp.portfolio.fit_to_size import fit_to_size
        from cerp.runs.fit import doubts_of_weights, fit_all
        from cerp.runs.floor import below_floor, popularity_floors
        from cerp.runs.folder import RunFolder
        from cerp.runs.kept_split import keep_split
        from cerp.runs.suited_to_data import suited_to_data
        from cerp.training.distributed import process_group, rank
        from cerp.training.malloc import freed_memory_kept
        from cerp.training.tensorboard import TensorBoard
    refuse_unclear_budgets(budget or [])
    mixed = _mixed(mix, sharp=mix_sharp, together=mix_together)
    assert output is not None
    of_the_kind: dict[str, Any] = {
        "values": values,
        "teacher": teacher,
        "assignment": assignment,
        "codebooks": codebooks,
        "ordering": ordering,
        "buckets": buckets,
        "gamma": gamma,
        "mix": mixed,
        "refit": refit,
        "item_only": item_only or None,
    }
    for_all: dict[str, Any] = {
        "seed": seed,
        "seen": seen,
        "dim": dim,
        "loss": loss,
        "selection_metric": selection_metric,
        "judge_users": judge_users,
        "epochs": epochs,
        "learning_rate": learning_rate,
        "batch_size": batch_size,
        "epoch_size": epoch_size,
        "prune_epochs": prune_epochs,
    }
    named: dict[str, Any] = {"method": method, "backbone": backbone, "settings": settings}
    named |= {"budget": budget or None, "neighbours": neighbours}
    named |= {"preset": None if preset_name == "default" else preset_name, **of_the_kind}
    tries_several = is_portfolio(max_file_size, portfolio, time_limit, named)
    wanted = wanted_assignment({"assignment": assignment, "ordering": ordering})
    given = {"max_file_size": max_file_size, **of_the_kind, **for_all}

    def configured(assigned: Assignment | None, taught: str | None) -> Config:
        base = preset(preset_name, backbone, method or "cerp", taught, assigned)
        return with_settings(base, tuple(budget or ()), given)

    if settings is None:
        config, why = suited_to_data(configured, preset_name, wanted, teacher, splits)
        if why is not None and not tries_several:
            print_note("note", why)
    else:
        tuned = read_tuned(settings)
        if (method or tuned.method, backbone or tuned.backbone) != (tuned.method, tuned.backbone):
            raise ConfigError(
                f"{settings} holds settings of {tuned.method} on {tuned.backbone}; leave out "
                "--method and --backbone, or give settings that were found for them"
            )
        chosen = config_of(tuned.method, tuned.backbone, tuned.settings)
        config = with_settings(chosen, tuple(budget or ()), given)
    if neighbours is not None:
        options_of_backbone = {**config.backbone_options, "neighbours": neighbours}
        config = replace(config, backbone_options=options_of_backbone)
    elif not tries_several and config.backbone == "lightgcn" and _has_vectors(config):
        found_neighbours = suited_neighbours(splits.train, config.dim)
        if found_neighbours and "neighbours" not in config.backbone_options:
            print_note(
                "note",
                f"the graph is large, so that steps look at {found_neighbours} neighbours of the "
                "users and items of a batch (--neighbours); the model is judged by the whole graph",
            )
    if not budget and settings is None and preset_name == "default":
        config = replace(config, budgets=_default_budgets(config, splits) or config.budgets)
    unused = [] if tries_several else doubts_of_weights(splits, config)
    for doubt in (*doubts(config), *unused):
        print_note("warning", doubt)
    note_merged(splits)
    choice = None
    with process_group(chosen_device(device)) as own_device, freed_memory_kept(own_device):
        options = RunOptions(
            *(own_device, output, resume, overwrite),
            callbacks=() if tensorboard is None else (TensorBoard(tensorboard),),
        )
        try:
            if tries_several:
                choice = fit_to_size(
                    splits,
                    str(max_file_size),
                    portfolio=None if portfolio is None else [portfolio],
                    time_limit=time_limit,
                    device=own_device,
                    output=output,
                    resume=resume,
                    overwrite=overwrite,
                    **for_all,
                )
            models = [choice.model] if choice else fit_all(splits, config, options)
        except KeyboardInterrupt:
            if rank() == 0:
                print_note("interrupted", f"the same command with --resume goes on in {output}")
            raise
        if rank() > 0:
            return
    keep_split(output, splits)
    facts = [model.facts for model in models]
    floors = popularity_floors(models, RunFolder(output))
    warnings = [
        text
        for model in models
        for name, floor in floors.items()
        if (text := below_floor(model, floor, name))
    ]
    print_figures(facts, floors, choice, as_json=as_json, verbose=verbose)
    print_remarks(facts, warnings)
    if not as_json:
        print_conventions(whole=conventions, start=judged_words(facts[0]))
        print_files(facts, output)


def _mixed(mix: bool | None, *, sharp: bool, together: bool) -> bool | Mix | None:
    """Which filter is put beside the vectors, by the options of the command line."""
    given = {"--no-mix": mix is False, "--mix-sharp": sharp, "--mix-together": together}
    names = [name for name, is_given in given.items() if is_given]
    if len(names) > 1:
        raise ConfigError(f"{names[0]} and {names[1]} contradict each other; give one of them")
    if sharp:
        return "sharp"
    return "together" if together else mix


def _default_budgets(config: Config, splits: Splits) -> tuple[str, ...]:
    """What is pruned where nobody says how much; the paper's preset and full size stay."""
    is_limited = _has_vectors(config) and config.method != "full"
    if config.max_file_size is not None or not is_limited:
        return ()
    return (default_budget(splits.num_entities, config.dim),)


def _has_vectors(config: Config) -> bool:
    return METHODS[config.method].has_vectors
