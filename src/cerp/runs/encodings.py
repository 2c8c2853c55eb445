"""The ways to write a trained model, each judged on validation as its file would have it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import NamedTuple

from cerp.artifact import VALUES_CODECS, Encoding, ValuesCodec, decode, decode_vectors
from cerp.data.ids import Id
from cerp.errors import ConfigError
from cerp.evaluation.evaluate import evaluate, users_to_judge
from cerp.evaluation.metrics import cutoff_of
from cerp.export.size_limit import BITS, SizeLimit
from cerp.export.to_arrays import Graph
from cerp.runs.fitted_model import FittedModel
from cerp.training.stages import score_memory

MOST_TABLED = 1 << 28
"""Numbers in propagated tables that are tried unasked: a gigabyte in fp32. All files that were
tried are there at once."""


class Written(NamedTuple):
    """A model in one encoding."""

    values: ValuesCodec | None
    """None where the model stores no values."""
    graph: Graph
    data: bytes | None
    """The file; None where the model cannot be written so."""
    valid: float | None
    """The selection metric of the file on validation; None without a validation part or a file."""
    why_not: str | None = None
    """Why there is no file."""


def every_encoding(
    model: FittedModel,
    *,
    values: ValuesCodec | None = None,
    graph: Graph | None = None,
    limit: SizeLimit | None = None,
    seen: bool = True,
    ids: bool = True,
    popularity: bool = False,
    titles: Mapping[Id, str] | None = None,
) -> list[Written]:
    """The model in every precision, or in the given one.

    A model with a graph is written with it and as tables, or in the given way alone. Tables of more
    than `MOST_TABLED` numbers are written only where they are asked for.
    """
    if model.recommender is None:
        encoding = Encoding(seen=seen, ids=ids, popularity=popularity)
        written = _written(model, encoding, graph or "edges", limit, titles)
        return [written._replace(values=None)]
    graphs: list[Graph] = ["edges"] if graph is None else [graph]
    if graph is None and 0 < model.tabled_values <= MOST_TABLED:
        graphs.append("tables")
    return [
        _written(
            model,
            Encoding(precision, seen=seen, ids=ids, popularity=popularity),
            way,
            limit,
            titles,
        )
        for way, precision in product(graphs, VALUES_CODECS if values is None else (values,))
    ]


def best_written(
    written: list[Written], graph: Graph, values: ValuesCodec | None = None
) -> Written:
    """The best on validation, and the smaller of equals; of one precision if that is given.

    Without a validation part, after a refit, it is the finest that could be written.
    """
    wanted = [
        entry
        for entry in written
        if entry.graph == graph and (values is None or entry.values in (None, values))
    ]
    fitting = [entry for entry in wanted if entry.data is not None]
    if not fitting:
        reasons = "; ".join(dict.fromkeys(entry.why_not for entry in wanted if entry.why_not))
        raise ConfigError(f"this model cannot be written so: {reasons}")
    return max(fitting, key=_worth)


def _worth(entry: Written) -> tuple[float, int]:
    if entry.valid is None:
        return 0.0, BITS[entry.values] if entry.values else 0
    return entry.valid, -len(entry.data or b"")


def _written(
    model: FittedModel,
    encoding: Encoding,
    graph: Graph,
    limit: SizeLimit | None,
    titles: Mapping[Id, str] | None,
) -> Written:
    try:
        data = model.file(encoding, graph=graph, limit=limit, titles=titles)
    except ConfigError as error:
        return Written(encoding.values, graph, None, None, str(error))
    valid = None
    if len(model.splits.valid):
        metric = model.config.selection_metric
        scorer = model.scorer(decode(data) if model.is_judged_whole else decode_vectors(data))
        memory = score_memory(model.device)
        users = users_to_judge(model.splits, "valid", model.config.judge_users)
        ks = (cutoff_of(metric),)
        metrics = evaluate(scorer, model.splits, on="valid", ks=ks, users=users, memory=memory)
        valid = metrics.mean[metric]
    return Written(encoding.values, graph, data, valid)
