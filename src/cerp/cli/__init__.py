"""The command line: verbs only. Each verb is a file; the work is done by the library.

Results go to standard output (with ``--json`` one JSON object and nothing
else), everything for the eye to standard error. Exit code 2 is the caller's
mistake, 1 a failure, 130 an interruption.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from cerp._version import __version__
from cerp.cli import (
    compare,
    compress,
    data,
    evaluate,
    export,
    inspect,
    paper,
    recommend,
    report,
    serve,
    train,
    tune,
    update,
)
from cerp.cli.words import for_the_command_line
from cerp.cores import give_way
from cerp.errors import CerpError
from cerp.files import FULL_OR_BROKEN
from cerp.terminal import printable

INTERRUPTED = 130
OUT_OF_MEMORY = (
    "there is not enough memory for this; close other programs, or ask for less: a smaller --dim "
    "or --batch-size, fewer users to judge (--judge-users), or data with fewer rare ids (--k-core)"
)

app = typer.Typer(
    name="cerp",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(data.app, name="data")
app.command("train")(train.train)
app.command("evaluate")(evaluate.evaluate)
app.command("compare")(compare.compare)
app.command("tune")(tune.tune)
app.command("update")(update.update)
app.command("export")(export.export)
app.command("compress")(compress.compress)
app.command("inspect")(inspect.inspect)
app.command("recommend")(recommend.recommend)
app.command("serve")(serve.serve)
app.command("report")(report.report)
app.command("paper")(paper.paper)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"cerp {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Train recommenders under a hard memory budget, judge them honestly, ship a tiny file.

    \b
    Examples:
      cerp data info ratings.csv
      cerp data split ratings.csv --seed 1 -o my-split
      cerp train my-split --budget 99% -o run
      cerp evaluate popularity --data my-split
      cerp export run --data my-split --values int8 -o model.cerp
      cerp compress vectors.npy --max-size 2MB -o small.cerp
      cerp inspect model.cerp
      cerp recommend model.cerp --user 42
      cerp recommend model.cerp --all-users -k 50 -o lists.parquet
      cerp update model.cerp today.csv -o next.cerp
      cerp serve model.cerp
      cerp report run --data my-split -o report.html
    """


def main() -> None:
    """Run the command line; errors come without a traceback (CERP_DEBUG=1 shows it)."""
    give_way()
    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # what cannot be written is known before the end
    except CerpError as error:
        _fail(error, for_the_command_line(str(error)), error.exit_code)
    except SystemExit as ended:
        if ended.code == INTERRUPTED:  # typer's way to pass on Ctrl-C, without a word
            typer.echo("interrupted", err=True)
        raise
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output went away, as `head` does: not an error.
        _let_go_of_output()
    except Exception as error:
        message = f"{type(error).__name__}: {error} (a bug in cerp; CERP_DEBUG=1 shows where)"
        if is_out_of_memory(error):
            message = OUT_OF_MEMORY
        if isinstance(error, OSError) and error.errno in FULL_OR_BROKEN and not error.filename:
            _let_go_of_output()
            message = f"cannot write standard output: {error.strerror}"
        _fail(error, message, 1)


def is_out_of_memory(error: Exception) -> bool:
    """Whether memory ran out: in Python, in NumPy, or in PyTorch, which is not loaded for this."""
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or "can't allocate memory" in str(error)
    )


def _let_go_of_output() -> None:
    """Whatever is still to be written, nobody will see it, nor a complaint at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(error: BaseException, message: str, exit_code: int) -> None:
    if os.environ.get("CERP_DEBUG"):
        raise error
    typer.echo(f"error: {printable(message)}", err=True)
    sys.exit(exit_code)
