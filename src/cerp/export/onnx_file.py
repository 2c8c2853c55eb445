"""Tables and codes as an ONNX model from ids to vectors, made with ``onnx.helper``.

Opset 17. Each table is one Gather of its codes, or what computes them, and one of its rows, in
float32 or in integers with a scale for each row: ``value = scale · integer``. Integers of four bits
lie two in a byte, and are told apart by whole divisions. Of a pruned table the kept values alone
are stored (`cerp.export.onnx_rows`). Rows are added, multiplied or put side by side.
"""

from __future__ import annotations

from cerp.artifact import ComposedEmbedding, ShippedModel, ValuesCodec
from cerp.errors import ConfigError
from cerp.export.onnx_graph import Graph
from cerp.export.onnx_indices import row_numbers
from cerp.export.onnx_rows import rows_of

OPSET = 17
IR_VERSION = 8
WORDS = {"sum": "Add", "product": "Mul"}


def onnx_bytes(model: ShippedModel, values: ValuesCodec) -> bytes:
    """The model, checked; ids out of range are refused by the runtime, negative ones count back."""
    try:
        import onnx
        from onnx import TensorProto, helper
    except ImportError:
        raise ConfigError("an ONNX file is written by the package onnx; pip install onnx") from None
    assert isinstance(model.embedding, ComposedEmbedding)
    graph, count, parts = Graph(), len(model.items), []
    for number, table in enumerate(model.embedding.tables):
        chosen = row_numbers(graph, number, table.index, count, len(table.weight))
        parts.append(rows_of(graph, number, table, chosen, values))
    if model.embedding.combine == "concat":
        graph.node("Concat", parts, "vectors", axis=-1)
    else:
        result = parts[0]
        for number, part in enumerate(parts[1:]):
            result = graph.node(WORDS[model.embedding.combine], [result, part], f"sum{number}")
        graph.node("Identity", [result], "vectors")
    made = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "embedding",
            [helper.make_tensor_value_info("ids", TensorProto.INT64, ["n"])],
            [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["n", model.dim])],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="cerp",
    )
    onnx.checker.check_model(made)
    content: bytes = made.SerializeToString()
    return content
