"""What `cerp train` says of its models: figures, remarks and files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from cerp.cli.conventions import cold_start_words
from cerp.cli.output import print_json, print_note, print_table
from cerp.cli.portfolio import print_tried
from cerp.naming import model_file

if TYPE_CHECKING:
    from cerp.portfolio.choice import Choice
    from cerp.runs.facts import ModelFacts
    from cerp.runs.floor import Floor


def print_figures(
    facts: Sequence[ModelFacts],
    floors: dict[str, Floor],
    choice: Choice | None,
    *,
    as_json: bool,
    verbose: bool,
) -> None:
    """The figures of models beside popularity; of a portfolio with all that was tried."""
    if as_json:
        least = {name.replace(" ", "_"): floor for name, floor in floors.items()}
        found = {"models": [one.to_json() for one in facts], **least}
        print_json(found if choice is None else {**found, **choice.to_json()})
        return
    if choice is not None:
        print_tried(choice)
    _print_models(facts, floors, verbose=verbose)


def print_remarks(facts: Sequence[ModelFacts], warnings: Iterable[str]) -> None:
    """What validation says of mixtures and teachers, who was judged, and what to beware of."""
    for one in facts:
        if (mixture := (one.search or {}).get("mixture")) is not None:
            print_note("mixture", told_of_mixture(mixture, one))
        if (taught := (one.search or {}).get("teacher")) is not None:
            print_note("teacher", _told_teacher(taught, one))
    if sample := _told_sample(facts[-1]):
        print_note("sample", sample)
    for text in warnings:
        print_note("warning", text)


def print_files(facts: Sequence[ModelFacts], output: Path) -> None:
    """Where the run is, which models have no file and why, and how to serve the last one."""
    for one in facts:
        if one.why_no_file:
            print_note("no file", f"{one.budget}: {one.why_no_file}")
    print_note("saved", str(output))
    files = [model_file(output, one.budget) for one in facts if one.file_bytes is not None]
    if files:
        print_note("serve", f"cerp serve {quote(str(files[-1]))}")


def judged_words(facts: ModelFacts) -> str:
    """How many users were judged, where some of them or some items were not in training."""
    for part in ("test", "valid"):
        figures = facts.metrics.get(part, {})
        if words := cold_start_words(figures):
            return f"{figures['users']:,} users of {part}{words}. "
    return ""


def told_of_mixture(mixture: dict[str, Any], facts: ModelFacts) -> str:
    """What validation says of vectors and filter together, and of each alone."""
    figures = mixture[f"valid_{facts.selection_metric}"]
    told = ", ".join(f"{name} {score:.4f}" for name, score in figures.items())
    shipped = "vectors and filter" if mixture["is_shipped"] else "vectors alone"
    if not mixture["is_shipped"] and figures["filter"] > figures["vectors"]:
        sharp = "sharp-" if "m" in mixture else ""
        shipped += f"; the filter alone is better: --method {sharp}filter"
    return f"{facts.budget}: {facts.selection_metric} on validation: {told}; shipped: {shipped}"


def _told_teacher(teacher: dict[str, Any], facts: ModelFacts) -> str:
    """What the teacher had on validation, beside its student."""
    name = facts.selection_metric
    told = f"{facts.budget}: {name} on validation: {teacher['name']} {teacher[f'valid_{name}']:.4f}"
    if "valid" not in facts.metrics:  # a refit learned it
        return told
    return f"{told}, its student {facts.metrics['valid'][name]:.4f}"


def _told_sample(facts: ModelFacts) -> str | None:
    """Of whom the last part was judged, and how far its mean may be off; None: of everybody."""
    part, figures = next(reversed(facts.metrics.items()), ("", {}))  # none after a refit on all
    if "half_width" not in figures:
        return None
    name = facts.selection_metric
    return (
        f"judged on {figures['users']:,} of {figures['users_with_truth']:,} users: {name} on "
        f"{part} {figures[name]:.4f} ± {figures['half_width'][name]:.4f} (95%)"
    )


def _print_models(models: Sequence[ModelFacts], floors: dict[str, Floor], *, verbose: bool) -> None:
    """What a model takes and how good it is, beside popularity; ``verbose``: how values lie."""
    judged = [part for part in ("valid", "test") if part in models[0].metrics]
    metrics = dict.fromkeys((models[0].selection_metric, "ndcg@10", "recall@10"))
    shown = [(part, metric) for part in judged for metric in metrics]
    columns: dict[str, Callable[[ModelFacts], object]] = {
        "budget": lambda one: one.budget,
        "values": lambda one: one.nnz,
        "stored as": lambda one: one.values or "-",
        "file bytes": lambda one: "-" if one.file_bytes is None else one.file_bytes,
    }
    if verbose:
        columns |= {
            "values allowed": lambda one: one.limit,
            "average dimension": lambda one: f"{one.avg_dim:.1f}",
            "overlap": lambda one: "-" if one.overlap is None else f"{one.overlap:.1%}",
            "rows by": lambda one: one.assignment or "-",
            "codebooks": lambda one: one.codebooks or "-",
            "bytes of codes": lambda one: "-" if one.code_bytes is None else one.code_bytes,
            "best epoch": lambda one: one.best_epoch,
        }
    rows = [
        (
            *(column(one) for column in columns.values()),
            *(one.metrics[part][metric] for part, metric in shown),
            f"{one.seconds:.1f}",
        )
        for one in models
    ]
    for name, floor in floors.items():
        figures = [floor[part][metric] for part, metric in shown]
        rows.append((name, *["-"] * (len(columns) - 1), *figures, "-"))
    print_table((*columns, *(f"{part} {metric}" for part, metric in shown), "seconds"), rows)
