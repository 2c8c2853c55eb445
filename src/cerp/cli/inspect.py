"""`cerp inspect`: where the bytes of a model file are, and what they buy."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from cerp import artifact
from cerp.artifact import ComposedEmbedding, ShippedModel
from cerp.artifact.scoring_words import LOOKUP
from cerp.choices import Assignment
from cerp.cli.options import AsJson
from cerp.cli.output import print_json, print_note, print_table

WORDS: dict[Assignment, str] = {"hash": "a formula", "learned": "learned codes"}
WHOLE = {True: "stored whole", False: "composed"}
TOLD = ("method", "budget", "library")
"""Facts that are shown unless all are asked for."""


def inspect(
    model: Annotated[
        Path, typer.Argument(metavar="FILE", show_default=False, help="A model file (.cerp).")
    ],
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            "-v",
            help="Show all facts, and how tables are used: sparsity, average dimension, overlap, "
            "dead and empty rows.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Account for every byte of a model file.

    The sections add up to the size of the file. Beside them stands the full
    table, where there are vectors: one in 32-bit floats for every user and item.

    \b
    Examples:
      cerp inspect model.cerp
      cerp inspect model.cerp --verbose
      cerp inspect model.cerp --json
    """
    found = _account(model)
    if as_json:
        print_json(found)
        return
    total = found["total_bytes"]
    rows = [(name, size, f"{size / total:.1%}") for name, size in found["sections"].items()]
    print_table(("section", "bytes", "share"), [*rows, ("total", total, "100.0%")])
    typer.echo()
    shows_use = verbose and found["dimension"] > 0
    if found["dimension"]:
        print_table(("compared", "bytes", "of the full table"), _comparison(found))
        typer.echo()
    print_table(("figure", "value"), _figures(found) + (_table_use(found) if shows_use else []))
    if found["fields"] is not None:
        typer.echo()
        rows = [(one["name"], one["ids"], WHOLE[one["is_whole"]]) for one in found["fields"]]
        print_table(("field", "ids", "vectors"), rows)
    facts = [f"{key} {value}" for key, value in _told(found["facts"], verbose=verbose).items()]
    print_note("facts", ", ".join(facts) or "none")


def _account(path: Path) -> dict[str, Any]:
    data, model = artifact.read_whole(path)
    sections = artifact.section_bytes(data)
    return {
        "total_bytes": sum(sections.values()),
        "sections": sections,
        "embedding_bytes": artifact.embedding_bytes(sections),
        "full_table_bytes": model.num_vectors * model.dim * 4,
        "backbone": artifact.backbone_name(model),
        "users": len(model.users),
        "items": len(model.items),
        "dimension": model.dim,
        "precision": model.precision,
        "filter": None if model.filter is None else artifact.term_facts(model.filter),
        "weights": None if model.neighbours is None else len(model.neighbours),
        "assignment": _assignment(model),
        "codebooks": _codebooks(model),
        "fields": _fields(model),
        **asdict(artifact.usage(model)),
        "facts": model.facts,
    }


def _fields(model: ShippedModel) -> list[dict[str, Any]] | None:
    """The fields of a file for lookups in several; None where there is one."""
    if model.fields is None:
        return None
    return [
        {"name": field.name, "ids": len(field.ids), "is_whole": field.table is not None}
        for field in model.fields
    ]


def _codebooks(model: ShippedModel) -> int | None:
    """How many tables have a row in every vector; None where vectors are no sums of rows."""
    embedding = model.embedding
    if not isinstance(embedding, ComposedEmbedding) or embedding.combine != "sum":
        return None
    return len(embedding.tables) if len(embedding.tables) > 1 else None


def _assignment(model: ShippedModel) -> Assignment | None:
    if _codebooks(model) is None:
        return None
    assert isinstance(model.embedding, ComposedEmbedding)
    is_coded = any(table.index.kind == "coded" for table in model.embedding.tables)
    return "learned" if is_coded else "hash"


def _rows_of_codebooks(found: dict[str, Any]) -> list[tuple[object, ...]]:
    if found["codebooks"] is None:
        return []
    return [("codebooks", found["codebooks"]), ("rows chosen by", WORDS[found["assignment"]])]


def _told(facts: dict[str, Any], *, verbose: bool) -> dict[str, Any]:
    """What fits a line; --json has the others, such as all the metrics."""
    short = {key: fact for key, fact in facts.items() if not isinstance(fact, dict | list)}
    return short if verbose else {key: short[key] for key in TOLD if key in short}


def _comparison(found: dict[str, Any]) -> list[tuple[object, ...]]:
    full = found["full_table_bytes"]
    named = (
        ("the file", found["total_bytes"]),
        ("its embedding", found["embedding_bytes"]),
        ("full table, fp32", full),
    )
    return [(name, size, f"{size / full:.2%}" if full else "-") for name, size in named]


def _figures(found: dict[str, Any]) -> list[tuple[object, ...]]:
    counts = [(name, found[name]) for name in ("backbone", "users", "items")]
    if found["weights"] is not None:
        return [*counts, ("weights between items", found["weights"])]
    if found["backbone"] == LOOKUP:
        own = found["items"] if found["fields"] is None else sum(f["ids"] for f in found["fields"])
        counts = [("for", "lookups by id"), ("vectors", own)]
    terms = [(f"filter {name}", value) for name, value in (found["filter"] or {}).items()]
    if not found["dimension"]:
        return [*counts, *terms]
    whose = "vectors" if found["backbone"] == LOOKUP else "users and items"
    return [
        *counts,
        ("numbers in a vector", found["dimension"]),
        ("stored values", found["stored_values"]),
        ("precision of values", found["precision"] or "mixed"),
        *_rows_of_codebooks(found),
        (f"{whose} without values", found["empty_entities"]),
        (f"{whose} with three values or fewer", found["few_values"]),
        *terms,
    ]


def _table_use(found: dict[str, Any]) -> list[tuple[object, ...]]:
    """For researchers; `cerp.assignment.usage.Usage` says what each is."""
    return [
        ("sparsity", f"{found['sparsity']:.4%}"),
        ("average dimension", found["average_dimension"]),
        ("standard deviation of the dimension", found["dimension_deviation"]),
        ("overlap", "-" if found["overlap"] is None else f"{found['overlap']:.2%}"),
        ("dead rows", found["dead_rows"]),
        ("empty rows", found["empty_rows"]),
    ]
