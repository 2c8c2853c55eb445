"""Options that several verbs share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from cerp.budget import Budget
from cerp.config import check_seed
from cerp.data.datasets import load
from cerp.data.formats.base import FORMATS
from cerp.data.protocols import Protocol
from cerp.data.splits import Splits
from cerp.errors import ConfigError, MissingExtra
from cerp.runs.kept_split import kept_split

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Seed = Annotated[int, typer.Option(help="Seed of everything random.")]
SplitSeed = Annotated[int, typer.Option(help="Seed of the split, and of nothing else.")]
JudgeUsers = Annotated[
    int | None,
    typer.Option(
        help="Judge the same sample of so many users everywhere.  [default: all, or a sample where "
        "users times items are more than 20 billion]"
    ),
]
Device = Annotated[str, typer.Option(help="cpu, cuda, one of several such as cuda:1, or auto.")]


def load_splits(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            show_default=False,
            help="A data set by name (synthetic, gowalla, yelp2020), an interactions file "
            "(CSV/TSV, Parquet, JSON lines, LightGCN text, RecBole .inter, DuckDB), or a "
            "ready-made split: a folder with train, test and optionally valid, as .txt "
            "(LightGCN text), .csv, .parquet and so on.",
        ),
    ],
    protocol: Annotated[Protocol, typer.Option(help="How to split a file.")] = "random",
    seed: Seed = 0,
    user: Annotated[
        str | None, typer.Option(help="Column of user ids: a name, or a position from 0.")
    ] = None,
    item: Annotated[str | None, typer.Option(help="Column of item ids.")] = None,
    rating: Annotated[str | None, typer.Option(help="Column of ratings.")] = None,
    time: Annotated[str | None, typer.Option(help="Column of times.")] = None,
    no_time: Annotated[bool, typer.Option("--no-time", help="Read without times.")] = False,
    weight: Annotated[
        str | None, typer.Option(help="Column of how much a row counts in training.")
    ] = None,
    min_rating: Annotated[
        float | None, typer.Option(help="Keep only rows with at least this rating.")
    ] = None,
    k_core: Annotated[
        int | None,
        typer.Option(help="Keep only users and items with this many interactions each."),
    ] = None,
    format: Annotated[  # noqa: A002 - becomes --format
        str | None,
        typer.Option(metavar="|".join(FORMATS.names()), help="Of a file whose name does not tell."),
    ] = None,
    delimiter: Annotated[
        str | None, typer.Option(help="What separates the columns of a text file.")
    ] = None,
    header: Annotated[
        bool | None, typer.Option("--header/--no-header", help="Whether line 1 names the columns.")
    ] = None,
    encoding: Annotated[str | None, typer.Option(help="Of a text file, if not UTF-8.")] = None,
    string_ids: Annotated[
        bool, typer.Option("--string-ids", help="Keep ids as text, also where they are numbers.")
    ] = False,
    where: Annotated[
        str | None,
        typer.Option(help="Which rows to keep, in SQL, such as \"event = 'purchase'\"."),
    ] = None,
    time_format: Annotated[
        str | None, typer.Option(help="How times are written, such as %d.%m.%Y.")
    ] = None,
    decimal: Annotated[
        str | None, typer.Option(help="',' where a text file writes ratings as 3,5.")
    ] = None,
    sql: Annotated[
        str | None,
        typer.Option(help='What to read of a DuckDB database, such as "select * from sales".'),
    ] = None,
    titles: Annotated[Path | None, typer.Option(help="Text file of item ids and titles.")] = None,
) -> Splits:
    """The splits that a DATA argument and its options stand for."""
    check_seed(seed)
    return load(
        data,
        protocol=protocol,
        seed=seed,
        user=column(user),
        item=column(item),
        rating=column(rating),
        time=False if no_time else column(time),
        weight=column(weight),
        min_rating=min_rating,
        k_core=k_core,
        format=format,
        delimiter=tab_or(delimiter),
        header=header,
        encoding=encoding,
        ids="string" if string_ids else None,
        where=where,
        time_format=time_format,
        decimal=decimal,
        sql=sql,
        titles=titles,
    )


def splits_of(
    data: str | None, models: Sequence[str | Path], *, seed: int, **reading: Any
) -> Splits:
    """The data given, read as said, else the split that the first run among the models keeps."""
    if data is not None:
        check_seed(seed)
        return load(data, seed=seed, **reading)
    if given := [name for name, value in reading.items() if value is not None]:
        raise ConfigError(f"{given[0]}= says how data is read, and none is given; add --data FILE")
    for model in models:
        if Path(model).exists() and (kept := kept_split(model)):
            return kept
    raise ConfigError(
        f"say which data with --data: no split is kept beside {', '.join(map(str, models))}"
    )


def reads_data(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a verb the options of `load_splits`; it gets ``splits``, and ``seed`` if it asks."""
    own = dict(inspect.signature(verb, eval_str=True).parameters)
    shared = dict(inspect.signature(load_splits, eval_str=True).parameters)
    if "seed" not in own:
        shared["seed"] = shared["seed"].replace(annotation=SplitSeed)

    def command(**given: Any) -> None:
        splits = load_splits(**{name: given[name] for name in shared})
        verb(splits=splits, **{name: given[name] for name in own if name != "splits"})

    names = dict.fromkeys(["data", *own, *shared])
    parameters = [
        (shared.get(name) or own[name]).replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for name in names
        if name != "splits"
    ]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__name__, command.__doc__ = verb.__name__, verb.__doc__
    return command


@contextmanager
def needs(feature: str, package: str, extra: str) -> Iterator[None]:
    """Around imports that an optional package has to be there for."""
    try:
        yield
    except ImportError as error:
        if error.name != package:
            raise
        raise MissingExtra(feature, package, extra) from None


def needs_torch(feature: str) -> AbstractContextManager[None]:
    """Around the imports of a verb that trains or runs a torch model."""
    return needs(feature, "torch", "train")


def chosen_device(name: str) -> str:
    """The device that `Device` stands for; it is here, or an error says so."""
    from cerp.training.devices import chosen_device as chosen

    return chosen(name)


def refuse_unclear_budgets(budgets: Iterable[str]) -> None:
    """Refuse budgets that may lack their percent sign, such as ``90``, with both readings."""
    for budget in budgets:
        parsed = Budget.parse(budget)
        kept = int(parsed.number)
        if parsed.unit == "" and kept < 100:
            raise ConfigError(
                f"--budget {budget} is unclear: write --budget {kept}% to prune {kept}% of the "
                f"full table, or --budget {kept}values to store {kept} values in all"
            )


def column(given: str | None) -> str | int | None:
    """A column by its name, or by its position."""
    return int(given) if given is not None and given.isdecimal() else given


def tab_or(delimiter: str | None) -> str | None:
    """What separates columns: a shell passes the two characters that one types for a tab."""
    return "\t" if delimiter == "\\t" else delimiter
