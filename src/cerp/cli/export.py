"""`cerp export`: a model file from a finished run, and what each encoding costs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from cerp.artifact import embedding_bytes, section_bytes
from cerp.budget import parse_size
from cerp.choices import ValuePrecision
from cerp.cli.later import model_in
from cerp.cli.options import AsJson, Seed, needs_torch, splits_of
from cerp.cli.output import print_json, print_note, print_table
from cerp.data.formats.titles import titles_of
from cerp.errors import ConfigError
from cerp.files import refuse_unwritable, write_bytes
from cerp.runtime import load
from cerp.runtime.vector_tables import refuse_vectors, write_vectors

if TYPE_CHECKING:
    from cerp.runs.encodings import Written
    from cerp.runs.fitted_model import FittedModel

GraphName = Literal["edges", "tables"]


def export(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", help="Folder of a finished run; for --vectors also a model file."
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write.")
    ] = None,
    vectors: Annotated[
        Path | None,
        typer.Option(
            help="Write the vectors of users and items instead, for an index of inner products: "
            ".parquet, or .npy with the ids beside it."
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            "-d",
            help="What the run was trained on.  [default: the split that the run keeps]",
        ),
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="Which model of the run.  [default: the last]")
    ] = None,
    values: Annotated[
        ValuePrecision | None,
        typer.Option(
            help="Precision of the values.  [default: the run's; under a limit the best that fits]"
        ),
    ] = None,
    graph: Annotated[
        GraphName | None,
        typer.Option(help="LightGCN: training graph, or propagated tables.  [default: edges]"),
    ] = None,
    max_size: Annotated[
        str | None, typer.Option("--max-size", help="Of the embedding, such as 400KB.")
    ] = None,
    max_file_size: Annotated[
        str | None, typer.Option(help="Of the whole file, such as 2MB.")
    ] = None,
    titles: Annotated[
        Path | None,
        typer.Option(
            help="Text file of item ids and titles, to go into the file.  [default: those of "
            "the data, where the file size is not limited]"
        ),
    ] = None,
    seen: Annotated[
        bool, typer.Option("--seen/--no-seen", help="Whether to say what users have seen.")
    ] = True,
    ids: Annotated[
        bool, typer.Option("--ids/--no-ids", help="Whether to keep original ids.")
    ] = True,
    popularity: Annotated[
        bool,
        typer.Option(
            "--popularity",
            help="With --no-seen: keep how many users took each item, so that someone without any "
            "items can be given the popular ones. Files that need it have it anyway.",
        ),
    ] = False,
    device: Annotated[str, typer.Option(help="Where encodings are judged.")] = "cpu",
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Write a model file, after judging every encoding on the validation part.

    Without a limit the values have the precision of the run (fp32, unless it had a
    limit in bytes) or that of --values. Under a limit the encoding with the best
    validation NDCG@10 of those that fit is written; after a refit, which leaves
    nothing to judge by, the finest that fits. With --values and --graph that
    encoding alone is made.

    \b
    Examples:
      cerp export run -o model.cerp
      cerp export run --values int8 -o model.cerp
      cerp export run --data my-split --max-file-size 2MB -o model.cerp
      cerp export model.cerp --vectors vectors.parquet
    """
    if (vectors is None) == (output is None):
        raise ConfigError("say what to write: -o MODEL.cerp, or --vectors VECTORS.parquet")
    if vectors is not None:
        _write_vectors(run, budget, vectors, as_json=as_json)
        return
    assert output is not None
    with needs_torch("Exporting a run"):
        from cerp.export.size_limit import SizeLimit
        from cerp.runs.encodings import best_written, every_encoding
        from cerp.runs.fit import load_run
    refuse_unwritable(output)
    model = _chosen_model(load_run(run, splits_of(data, [run], seed=seed), device=device), budget)
    limit = SizeLimit(
        None if max_size is None else parse_size(max_size, "--max-size"),
        None if max_file_size is None else parse_size(max_file_size, "--max-file-size"),
    )
    given = None if titles is None else titles_of(model.splits.items, titles)
    what: dict[str, Any] = {"seen": seen, "ids": ids, "popularity": popularity, "titles": given}
    only = None if graph is None else values  # an encoding that is named whole is the only one
    tried = every_encoding(model, values=only, graph=graph, limit=limit, **what)
    own = model.encoding.values if limit == SizeLimit() else None
    best = best_written(tried, graph or "edges", values or own)
    assert best.data is not None
    write_bytes(output, best.data)
    rounded = _rounded(model, best)
    if rounded is not None:
        print_note(
            "note",
            f"the run kept its values rounded to {rounded}, so that {best.values} has the same "
            "values in more bytes; for finer ones train without a limit in bytes, or with "
            f"value_precision={best.values}",
        )
    if as_json:
        found = _as_json(tried, best, output, model.config.selection_metric)
        print_json({**found, "rounded_to": rounded})
        return
    _print(tried, best, model.config.selection_metric)
    precision = best.values or "no values"
    print_note("saved", f"{output} ({len(best.data):,} bytes, {precision}, {best.graph})")


def _write_vectors(place: Path, budget: str | None, output: Path, *, as_json: bool) -> None:
    refuse_vectors(output)
    runtime = load(model_in(place, budget))
    count = write_vectors(runtime, output)
    if as_json:
        print_json({"file": str(output), "vectors": count, "dimension": runtime.model.dim})
    else:
        print_note("saved", f"{count:,} vectors of {runtime.model.dim} numbers to {output}")


def _chosen_model(models: list[FittedModel], budget: str | None) -> FittedModel:
    if budget is None:
        return models[-1]
    for model in models:
        if model.budget == budget:
            return model
    there = ", ".join(model.budget for model in models)
    raise ConfigError(f"the run has no model for {budget!r}; it has {there}")


def _rounded(model: FittedModel, best: Written) -> ValuePrecision | None:
    """The precision that the run rounded its values to, where the file writes finer ones."""
    from cerp.export.size_limit import BITS

    kept = model.facts.values
    if best.values is None or kept is None or BITS[best.values] <= BITS[kept]:
        return None
    return kept


def _as_json(tried: list[Written], best: Written, output: Path, metric: str) -> dict[str, Any]:
    return {
        "file": str(output),
        "values": best.values,
        "graph": best.graph,
        "total_bytes": len(best.data or b""),
        "tried": [
            {
                "values": entry.values,
                "graph": entry.graph,
                "fits": entry.data is not None,
                "embedding_bytes": entry.data and embedding_bytes(section_bytes(entry.data)),
                "total_bytes": entry.data and len(entry.data),
                f"valid_{metric}": entry.valid,
            }
            for entry in tried
        ],
    }


def _print(tried: list[Written], best: Written, metric: str) -> None:
    print_table(
        ("values", "graph", "embedding bytes", "file bytes", f"valid {metric}", ""),
        [
            (
                entry.values or "-",
                entry.graph,
                "-" if entry.data is None else embedding_bytes(section_bytes(entry.data)),
                "does not fit" if entry.data is None else len(entry.data),
                "-" if entry.valid is None else entry.valid,
                "written" if entry is best else "",
            )
            for entry in tried
        ],
    )
