"""The row numbers that ids have in a table, as steps of an ONNX graph."""

from __future__ import annotations

from cerp.artifact import Index
from cerp.assignment.index import HASH_PRIME
from cerp.export.onnx_graph import INT64, Graph, narrow


def row_numbers(graph: Graph, number: int, index: Index, count: int, rows: int) -> str:
    """Row numbers of ids: stored, or computed. An id that is not there has a row that is not."""
    if index.codes is not None:
        codes = graph.constant(f"codes{number}", narrow(index.codes))
        return graph.node(
            "Cast",
            [graph.node("Gather", [codes, "ids"], f"code{number}")],
            f"row{number}",
            to=INT64,
        )
    if "place" not in graph.outputs:
        _count_back(graph, count)
    found = _computed(graph, number, index, count)
    return graph.node("Where", ["is_there", found, graph.whole(rows)], f"row{number}")


def _count_back(graph: Graph, count: int) -> None:
    """``place``: ids, those below zero counted from the end; ``is_there``: whether it is one."""
    zero, size = graph.whole(0), graph.whole(count)
    below = graph.node("Less", ["ids", zero], "is_below")
    back = graph.node("Add", ["ids", size], "counted_back")
    place = graph.node("Where", [below, back, "ids"], "place")
    sides = [
        graph.node("GreaterOrEqual", [place, zero], "from_first"),
        graph.node("Less", [place, size], "to_last"),
    ]
    graph.node("And", sides, "is_there")


def _computed(graph: Graph, number: int, index: Index, count: int) -> str:
    """The row of each place, as `Index.rows` has it."""
    size = graph.whole(index.size)
    if index.kind == "modulo":
        return graph.node("Mod", ["place", size], f"computed{number}")
    if index.kind == "quotient":
        return graph.node("Div", ["place", size], f"computed{number}")
    if index.kind == "scaled":
        product = graph.node("Mul", ["place", size], f"product{number}")
        return graph.node("Div", [product, graph.whole(count)], f"computed{number}")
    if index.kind == "hashed":
        product = graph.node("Mul", ["place", graph.whole(index.factor)], f"product{number}")
        shifted = graph.node("Add", [product, graph.whole(index.offset)], f"offset{number}")
        hashed = graph.node("Mod", [shifted, graph.whole(HASH_PRIME)], f"hashed{number}")
        return graph.node("Mod", [hashed, size], f"computed{number}")
    return "place"
