"""Tables and codes as an ONNX model from ids to vectors, made with ``onnx.helper``.

Opset 17. Each table is one Gather of its codes and one of its rows, in float32, or in integers with
a scale for each row: ``value = scale · integer``. Integers of four bits lie two in a byte, and are
told apart by whole divisions. Rows are added, multiplied or put side by side.
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
        scale, integers = self.integers(number, table.weight, chosen, values)
        wide = self.node("Cast", [integers], f"floats{number}", to=1)
        factor = self.node("Gather", [scale, chosen], f"factors{number}")
        return self.node("Mul", [wide, factor], f"part{number}")

    def integers(
        self, number: int, weight: npt.NDArray[Any], chosen: str, values: ValuesCodec
    ) -> tuple[str, str]:
        """Names of the scales of all rows, and of the integers of the chosen ones."""
        width = weight.shape[1]
        if values == "int4" and width % 2:
            weight = np.pad(weight, ((0, 0), (0, 1)))
        counts = np.full(len(weight), weight.shape[1])
        coded = encode_values(weight.reshape(-1), counts, values)
        scale = self.constant(f"scale{number}", coded["scales"].astype(np.float32)[:, None])
        stored = self.constant(f"weight{number}", coded["values"].reshape(len(weight), -1))
        found = self.node("Gather", [stored, chosen], f"integers{number}")
        return scale, self.halves(number, found, width) if values == "int4" else found

    def halves(self, number: int, packed: str, width: int) -> str:
        """Both halves of bytes, the low one first, from two's complement."""
        by = {
            size: self.constant(f"by{size}_{number}", np.array([size], dtype=np.int32))
            for size in (8, 16)
        }
        both = self.node("Cast", [packed], f"both{number}", to=6)
        high = self.node("Div", [both, by[16]], f"high{number}")
        shifted = self.node("Mul", [high, by[16]], f"shifted{number}")
        low = self.node("Sub", [both, shifted], f"low{number}")
        last = self.constant(f"last{number}", np.array([-1], dtype=np.int64))
        sides = [self.node("Unsqueeze", [half, last], f"{half}_side") for half in (low, high)]
        pairs = self.node("Concat", sides, f"pairs{number}", axis=-1)
        shape = self.constant(f"shape{number}", np.array([-1, width + width % 2], dtype=np.int64))
        halves = self.node("Reshape", [pairs, shape], f"halves{number}")
        is_negative = self.node("Div", [halves, by[8]], f"negative{number}")
        wrapped = self.node("Mul", [is_negative, by[16]], f"wrapped{number}")
        signed = self.node("Sub", [halves, wrapped], f"signed{number}")
        if width % 2 == 0:
            return signed
        first = self.constant(f"first{number}", np.array([0], dtype=np.int64))
        end = self.constant(f"end{number}", np.array([width], dtype=np.int64))
        return self.node("Slice", [signed, first, end, last], f"cut{number}")


def _narrow(rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """In 8, 16 or 32 bits."""
    largest = int(rows.max(initial=0))
    dtype = np.uint8 if largest < 2**8 else np.uint16 if largest < 2**16 else np.int32
    return rows.astype(dtype)
