"""Nodes and constants of an ONNX graph while it grows, and arithmetic that several parts share."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

FLOAT, INT32, INT64 = 1, 6, 7
"""Numbers of element types, as ONNX has them."""


class Graph:
    """What is between the ids and the vectors."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.outputs: set[str] = set()
        """Names of what steps give, and of whole numbers."""

    def node(self, kind: str, inputs: list[str], output: str, **settings: Any) -> str:
        """One more step; the name of what it gives."""
        from onnx import helper

        self.outputs.add(output)
        self.nodes.append(helper.make_node(kind, inputs, [output], **settings))
        return output

    def constant(self, name: str, array: npt.NDArray[Any]) -> str:
        """An array of the file; the name under which steps take it."""
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def whole(self, value: int, dtype: type[np.integer[Any]] = np.int64) -> str:
        """A whole number, once however often it is needed."""
        name = f"{np.dtype(dtype).name}_{value}".replace("-", "minus")
        if name not in self.outputs:
            self.outputs.add(name)
            self.constant(name, np.array([value], dtype=dtype))
        return name

    def halves(self, name: str, packed: str) -> tuple[str, str]:
        """The low and the high half of each byte, from 0 to 15, as int32."""
        by = self.whole(16, np.int32)
        both = self.node("Cast", [packed], f"both{name}", to=INT32)
        high = self.node("Div", [both, by], f"high{name}")
        shifted = self.node("Mul", [high, by], f"shifted{name}")
        return self.node("Sub", [both, shifted], f"low{name}"), high

    def signed(self, name: str, halves: str) -> str:
        """-8 to 7 from halves of bytes in two's complement."""
        is_negative = self.node("Div", [halves, self.whole(8, np.int32)], f"negative{name}")
        wrapped = self.node("Mul", [is_negative, self.whole(16, np.int32)], f"wrapped{name}")
        return self.node("Sub", [halves, wrapped], f"signed{name}")


def narrow(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """In 8, 16 or 32 bits."""
    largest = int(numbers.max(initial=0))
    dtype = np.uint8 if largest < 2**8 else np.uint16 if largest < 2**16 else np.int32
    return numbers.astype(dtype)
