"""`cerp compress`: a table of vectors in a file of a limited size."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cerp.cli.options import AsJson, Seed, needs_torch
from cerp.cli.output import print_json, print_note, print_table
from cerp.errors import DataError
from cerp.files import refuse_unwritable

if TYPE_CHECKING:
    from cerp.compression.compress import Compressed

COLUMNAR = (".parquet", ".pq", ".arrow", ".feather")


def compress(
    vectors: Annotated[
        str,
        typer.Argument(
            metavar="VECTORS",
            show_default=False,
            help="A table of vectors: .npy, .npz, .safetensors, .pt (a state dict), .parquet, "
            ".arrow, or word2vec's .txt, .vec and .bin.",
        ),
    ],
    max_size: Annotated[
        str, typer.Option("--max-size", show_default=False, help="Of the file, such as 2MB.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", show_default=False, help="The file to write.")
    ],
    key: Annotated[
        str | None,
        typer.Option(help="Which array, or column of vectors, of a file that holds several."),
    ] = None,
    ids: Annotated[
        str | None,
        typer.Option(
            help="A text file with an id for each vector, one a line; or their column in a Parquet "
            "or Arrow file.  [default: 0, 1, 2, ... or the words of the file]"
        ),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(help="A .npy or text file that says how much each vector counts."),
    ] = None,
    measure: Annotated[
        str, typer.Option(help="What to be best at: recall@K, cosine or reconstruction.")
    ] = "recall@10",
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Write a table of vectors into a small file, in the way that measures best.

    Values in 8 or 4 bits, principal components, product and residual quantisation, and learned
    codes with pruned books are all tried on a sample; the measure is taken on vectors that were
    held out. The file is read with NumPy alone: cerp.load(FILE).vectors(ids).

    \b
    Examples:
      cerp compress vectors.npy --max-size 2MB -o small.cerp
      cerp compress model.pt --key item.weight --max-size 500KB -o items.cerp
      cerp compress words.vec --max-size 5MB --measure cosine -o words.cerp
    """
    refuse_unwritable(output)
    with needs_torch("Compressing"):
        from cerp.compression.compress import compress as compressed
    made = compressed(
        vectors,
        _ids(vectors, ids),
        budget=max_size,
        weights=None if weights is None else _numbers(weights),
        measure=measure,
        key=key,
        seed=seed,
        verbose=not as_json,
    )
    made.save(output)
    if as_json:
        print_json(_as_json(made))
        return
    rows = [(one.method, one.settings, one.bytes, one.score) for one in made.tried]
    print_table(("method", "with", "bytes at most", measure), rows)
    print_note(
        str(output),
        f"{made.file_bytes:,} bytes, {made.method} with {made.settings}; {measure} "
        f"{made.score:.4f} of vectors held out, after fitting to a larger sample",
    )


def _as_json(made: Compressed) -> dict[str, Any]:
    return {
        "file_bytes": made.file_bytes,
        "method": made.method,
        "settings": made.settings,
        "measure": made.measure,
        "score": made.score,
        "vectors": len(made.lookup),
        "dimension": made.lookup.dim,
        "tried": [one._asdict() for one in made.tried],
    }


def _ids(source: str, ids: str | None) -> Any:
    """Lines of a file, whole numbers if all are; or the name of a column."""
    if ids is None or Path(source).suffix.lower() in COLUMNAR:
        return ids
    lines = _lines(Path(ids))
    is_whole = all(line.isascii() and line.isdigit() and str(int(line)) == line for line in lines)
    return [int(line) for line in lines] if is_whole else lines


def _numbers(path: Path) -> Any:
    import numpy as np

    try:
        if path.suffix.lower() == ".npy":
            return np.load(path, allow_pickle=False)
        return np.array([float(line) for line in _lines(path)])
    except (ValueError, OSError) as error:
        raise DataError(f"{path} does not hold numbers ({error}); write one a line") from None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {path}: {error}; write one entry a line in UTF-8") from None
