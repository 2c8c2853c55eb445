"""Named tensors on their way into a file, and out of one that may lie."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from cerp.artifact.bits import Bytes
from cerp.artifact.deflate import inflate
from cerp.errors import MalformedFileError

Tensors = dict[str, npt.NDArray[Any]]


def total_bytes(tensors: Mapping[str, npt.NDArray[Any]]) -> int:
    """What tensors take in the file."""
    return sum(tensor.nbytes for tensor in tensors.values())


class TensorReader:
    """The tensors of a file whose names begin with a prefix.

    Each is asked for by type and length, and remembered as read, so that in the
    end none is left that the metadata does not account for.
    """

    def __init__(
        self,
        tensors: Mapping[str, npt.NDArray[Any]],
        prefix: str = "",
        unread: set[str] | None = None,
    ) -> None:
        self._tensors, self._prefix = tensors, prefix
        self.unread = set(tensors) if unread is None else unread
        """Names of tensors that nobody has asked for yet."""

    def under(self, name: str) -> TensorReader:
        """The tensors whose names go on with ``name.``."""
        return TensorReader(self._tensors, f"{self._prefix}{name}.", self.unread)

    def name(self, name: str) -> str:
        """The full name of a tensor."""
        return self._prefix + name

    @property
    def names(self) -> list[str]:
        """Names of the tensors here, without the prefix."""
        begin = len(self._prefix)
        return [name[begin:] for name in self._tensors if name.startswith(self._prefix)]

    @property
    def total_bytes(self) -> int:
        """What the tensors here take in the file."""
        return sum(self._tensors[self.name(name)].nbytes for name in self.names)

    def any_shape(self, name: str, *dtypes: type[np.generic]) -> npt.NDArray[Any]:
        """A tensor of one of the given types."""
        full = self.name(name)
        if full not in self._tensors:
            raise MalformedFileError(f"the tensor {full} is missing")
        tensor = self._tensors[full]
        if tensor.dtype not in dtypes:
            wanted = " or ".join(str(np.dtype(dtype)) for dtype in dtypes)
            raise MalformedFileError(f"the tensor {full} holds {tensor.dtype}, not {wanted}")
        self.unread.discard(full)
        return tensor

    def array(self, name: str, dtype: type[np.generic], length: int) -> npt.NDArray[Any]:
        """A tensor of a given type, with one dimension and a given length."""
        tensor = self.any_shape(name, dtype)
        if tensor.shape != (length,):
            raise MalformedFileError(
                f"the tensor {self.name(name)} has the shape {list(tensor.shape)}, not [{length}]"
            )
        return tensor

    def byte_array(self, name: str) -> Bytes:
        """A tensor of bytes, of any length."""
        tensor = self.any_shape(name, np.uint8)
        return self.array(name, np.uint8, tensor.size)

    def inflate(self, name: str, length: int) -> bytes:
        """The content of a deflated tensor, ``length`` bytes."""
        return inflate(self.byte_array(name), length, what=f"the tensor {self.name(name)}")
