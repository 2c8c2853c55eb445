"""Tables and codes as an ONNX model from ids to vectors, made with ``onnx.helper``.

Opset 17. Each table is one Gather of its codes and one of its rows, in float32, or in int8 with a
scale for each row: ``value = scale · integer``. Rows are added, multiplied or put side by side.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cerp.artifact import ComposedEmbedding, ShippedModel, Table, ValuesCodec
from cerp.artifact.quantize import encode_values
from cerp.errors import ConfigError

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
    graph = _Graph()
    parts = [
        graph.table(number, table, len(model.items), values)
        for number, table in enumerate(model.embedding.tables)
    ]
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


class _Graph:
    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def node(self, kind: str, inputs: list[str], output: str, **settings: Any) -> str:
        from onnx import helper

        self.nodes.append(helper.make_node(kind, inputs, [output], **settings))
        return output

    def constant(self, name: str, array: npt.NDArray[Any]) -> str:
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def table(self, number: int, table: Table, count: int, values: ValuesCodec) -> str:
        """The name of the rows that ids have in a table."""
        rows = table.index.rows(np.arange(count), count)
        codes = self.constant(f"codes{number}", _narrow(rows))
        chosen = self.node("Gather", [codes, "ids"], f"code{number}")
        if rows.max(initial=0) <= np.iinfo(np.uint16).max:  # Gather takes whole numbers of 32 bits
            chosen = self.node("Cast", [chosen], f"row{number}", to=6)
        if values == "fp32":
            weight = self.constant(f"weight{number}", table.weight.astype(np.float32))
            return self.node("Gather", [weight, chosen], f"part{number}")
        counts = np.full(len(table.weight), table.weight.shape[1])
        coded = encode_values(table.weight.reshape(-1), counts, "int8")
        integers = coded["values"].reshape(table.weight.shape)
        weight = self.constant(f"weight{number}", integers)
        scale = self.constant(f"scale{number}", coded["scales"].astype(np.float32)[:, None])
        found = self.node("Gather", [weight, chosen], f"integers{number}")
        wide = self.node("Cast", [found], f"floats{number}", to=1)
        factor = self.node("Gather", [scale, chosen], f"factors{number}")
        return self.node("Mul", [wide, factor], f"part{number}")


def _narrow(rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """In 8, 16 or 32 bits."""
    largest = int(rows.max(initial=0))
    dtype = np.uint8 if largest < 2**8 else np.uint16 if largest < 2**16 else np.int32
    return rows.astype(dtype)
