"""The rows that ids have in a table, as steps of an ONNX graph.

A table is stored whole, or as its kept values with their columns, whichever is smaller: a row is
then put together from its own values alone, so that a lookup costs as many steps as a row has.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cerp.artifact import Table, ValuesCodec
from cerp.artifact.quantize import encode_values, values_size
from cerp.export.onnx_graph import FLOAT, INT32, INT64, Graph, narrow


def rows_of(graph: Graph, number: int, table: Table, chosen: str, values: ValuesCodec) -> str:
    """The rows themselves, (n, columns) in float32."""
    rows, columns = table.weight.shape
    stored = int(table.stored.sum())
    # A column for each value, and how many values each row has.
    beside = stored * narrow(np.array([columns])).itemsize + rows
    if values_size(stored, rows, values) + beside < values_size(table.weight.size, rows, values):
        part, scales = _kept(graph, number, table, chosen, values)
    else:
        part, scales = _whole(graph, number, table.weight, chosen, values)
    if scales is None:
        return part
    halves = graph.constant(f"scale{number}", scales[:, None])
    factor = graph.node("Gather", [halves, chosen], f"factor{number}")
    factors = graph.node("Cast", [factor], f"factors{number}", to=FLOAT)
    return graph.node("Mul", [part, factors], f"part{number}")


Part = tuple[str, npt.NDArray[Any] | None]
"""The name of rows, and the scales that they are to be multiplied by."""


def _whole(
    graph: Graph, number: int, weight: npt.NDArray[Any], chosen: str, values: ValuesCodec
) -> Part:
    """From a table of all values."""
    if values == "fp32":
        stored = graph.constant(f"weight{number}", weight.astype(np.float32))
        return graph.node("Gather", [stored, chosen], f"floats{number}"), None
    width = weight.shape[1]
    if values == "int4" and width % 2:
        weight = np.pad(weight, ((0, 0), (0, 1)))
    coded = encode_values(weight.reshape(-1), np.full(*weight.shape), values)
    stored = graph.constant(f"weight{number}", coded["values"].reshape(len(weight), -1))
    found = graph.node("Gather", [stored, chosen], f"integers{number}")
    if values == "int4":
        last = graph.whole(-1)
        sides = [
            graph.node("Unsqueeze", [half, last], f"{half}_side")
            for half in graph.halves(f"{number}", found)
        ]
        pairs = graph.node("Concat", sides, f"pairs{number}", axis=-1)
        shape = graph.constant(f"shape{number}", np.array([-1, weight.shape[1]], dtype=np.int64))
        found = graph.signed(f"{number}", graph.node("Reshape", [pairs, shape], f"line{number}"))
        if width % 2:
            cut = [found, graph.whole(0), graph.whole(width), last]
            found = graph.node("Slice", cut, f"cut{number}")
    return graph.node("Cast", [found], f"floats{number}", to=FLOAT), coded["scales"]


def _kept(graph: Graph, number: int, table: Table, chosen: str, values: ValuesCodec) -> Part:
    """From the kept values, row by row, and how many each row has."""
    from onnx import TensorProto, helper

    counts = table.stored.sum(axis=1, dtype=np.int64)
    columns = np.nonzero(table.stored)[1]
    lanes = np.arange(max(1, counts.max(initial=0)), dtype=np.int32)
    line = graph.constant(f"lanes{number}", lanes)
    counted = graph.constant(f"counts{number}", narrow(counts))
    lengths = graph.node("Cast", [counted], f"lengths{number}", to=INT32)
    first = graph.constant(f"axis{number}", np.array(0, dtype=np.int64))
    starts = graph.node("CumSum", [lengths, first], f"starts{number}", exclusive=1)
    begin, length = (
        graph.node(
            "Unsqueeze",
            [graph.node("Gather", [numbers, chosen], f"own_{numbers}"), graph.whole(1)],
            f"column_{numbers}",
        )
        for numbers in (starts, lengths)
    )
    end = graph.node("Add", [begin, length], f"end{number}")
    reached = graph.node("Add", [begin, line], f"reached{number}")
    inside = graph.node("Less", [reached, end], f"inside{number}")
    place = graph.node("Where", [inside, reached, graph.whole(0, np.int32)], f"place{number}")
    found, scales = _values_at(graph, number, table.weight[table.stored], counts, place, values)
    none = graph.constant(f"none{number}", np.zeros(1, dtype=np.float32))
    shown = graph.node("Where", [inside, found, none], f"shown{number}")
    # Never empty, for a place is looked up also where a row has nothing.
    own = graph.constant(f"columns{number}", narrow(columns if len(columns) else np.zeros(1)))
    column = graph.node("Gather", [own, place], f"column{number}")
    wide = graph.node("Cast", [column], f"at{number}", to=INT64)
    asked = graph.node("Shape", [chosen], f"asked{number}")
    shape = graph.node(
        "Concat", [asked, graph.whole(table.weight.shape[1])], f"shape{number}", axis=0
    )
    zero = helper.make_tensor("value", TensorProto.FLOAT, [1], [0.0])
    blank = graph.node("ConstantOfShape", [shape], f"blank{number}", value=zero)
    spread = [blank, wide, shown]
    name = f"floats{number}"
    return graph.node("ScatterElements", spread, name, axis=1, reduction="add"), scales


def _values_at(
    graph: Graph,
    number: int,
    kept: npt.NDArray[Any],
    counts: npt.NDArray[np.int64],
    place: str,
    values: ValuesCodec,
) -> Part:
    """The kept values at places, as floats."""
    if not len(kept):
        return graph.constant(f"values{number}", np.zeros((1, 1), dtype=np.float32)), None
    if values == "fp32":
        stored = graph.constant(f"values{number}", kept.astype(np.float32))
        return graph.node("Gather", [stored, place], f"values_at{number}"), None
    coded = encode_values(kept, counts, values)
    stored = graph.constant(f"values{number}", coded["values"])
    if values == "int8":
        found = graph.node("Gather", [stored, place], f"integers{number}")
    else:
        two = graph.whole(2, np.int32)
        byte = graph.node("Div", [place, two], f"byte{number}")
        odd = graph.node("Mod", [place, two], f"odd{number}")
        packed = graph.node("Gather", [stored, byte], f"packed{number}")
        low, high = graph.halves(f"{number}", packed)
        is_high = graph.node("Equal", [odd, graph.whole(1, np.int32)], f"is_high{number}")
        half = graph.node("Where", [is_high, high, low], f"half{number}")
        found = graph.signed(f"{number}", half)
    return graph.node("Cast", [found], f"values_at{number}", to=FLOAT), coded["scales"]
