"""The safetensors files of `/embed/vector/safetensors`: one tensor and metadata, read and written without a library.

The format is eight bytes with the length of a JSON header, the header, and the numbers in little-endian order.
NumPy is used where it is installed; otherwise a matrix is a list of `array.array`.
"""

from __future__ import annotations

import json
import struct
import sys
from array import array
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from privacy_gateway_client.errors import AnswerInvalid, FieldError, InvalidRequest

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Matrix = npt.NDArray[np.float32 | np.float16]

TYPE = "application/vnd.safetensors"
_SIZES = {"F32": 4, "F16": 2}
_CODES = {"F32": "f", "F16": "e"}


def numpy_or_none() -> Any:
    """The module NumPy, or None where it is not installed."""
    try:
        import numpy
    except ImportError:
        return None
    return numpy


class Rows:
    """A matrix to be sent: `count` rows of `width` numbers, as bytes in little-endian order."""

    def __init__(self, vectors: Any) -> None:
        numpy = numpy_or_none()
        if numpy is not None:
            self._of_numpy(numpy, vectors)
        else:
            self._of_lists(vectors)

    def _of_numpy(self, numpy: Any, vectors: Any) -> None:
        ragged = False
        try:
            matrix = numpy.asarray(vectors)
            if matrix.dtype not in (numpy.float32, numpy.float16):
                matrix = matrix.astype(numpy.float32)
            ragged = matrix.ndim != 2
        except (ValueError, TypeError):
            ragged = True
        if ragged or not matrix.size:
            raise InvalidRequest((FieldError("vectors", "not a matrix of numbers"),))
        matrix = numpy.ascontiguousarray(matrix, dtype=matrix.dtype.newbyteorder("<"))
        self.count, self.width = int(matrix.shape[0]), int(matrix.shape[1])
        self.kind = "F16" if matrix.dtype.itemsize == 2 else "F32"
        self._bytes = memoryview(matrix.view(numpy.uint8)).cast("B")

    def _of_lists(self, vectors: Sequence[Sequence[float]]) -> None:
        widths = {len(row) for row in vectors}
        if len(widths) != 1 or not min(widths):
            raise InvalidRequest((FieldError("vectors", "not a matrix of numbers"),))
        numbers = array("f", (number for row in vectors for number in row))
        if sys.byteorder == "big":
            numbers.byteswap()
        self.count, self.width, self.kind = len(vectors), widths.pop(), "F32"
        self._bytes = memoryview(numbers.tobytes())

    @property
    def row_bytes(self) -> int:
        return self.width * _SIZES[self.kind]

    def part(self, start: int, stop: int) -> memoryview:
        """The bytes of some rows, without a copy."""
        return self._bytes[start * self.row_bytes : stop * self.row_bytes]


def written(name: str, kind: str, shape: tuple[int, int], numbers: memoryview | bytes, **metadata: str) -> bytes:
    """A file with one tensor."""
    tensor = {"dtype": kind, "shape": list(shape), "data_offsets": [0, len(numbers)]}
    header = json.dumps({"__metadata__": metadata, name: tensor}, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return b"".join((struct.pack("<Q", len(header)), header, numbers))


class Tensor:
    """One tensor of a received file. `numbers`: its bytes, a view into the file."""

    def __init__(self, content: bytes, name: str) -> None:
        damaged = False
        try:
            length = struct.unpack_from("<Q", content)[0]
            header = json.loads(content[8 : 8 + length])
            self.metadata: Mapping[str, str] = header.get("__metadata__", {})
            entry = header[name]
            self.kind: str = entry["dtype"]
            self.shape = (int(entry["shape"][0]), int(entry["shape"][1]))
            start, stop = entry["data_offsets"]
            self.numbers = memoryview(content)[8 + length + start : 8 + length + stop]
            damaged = len(self.numbers) != self.shape[0] * self.shape[1] * _SIZES[self.kind]
        except (ValueError, KeyError, IndexError, TypeError, struct.error):
            damaged = True
        if damaged:
            raise AnswerInvalid("the answer is not a safetensors file with the expected tensor", (name,))


def matrix_of(kind: str, shape: tuple[int, int], parts: Sequence[memoryview | bytes]) -> Any:
    """The rows of several parts as one array; a list of `array.array` without NumPy."""
    numpy = numpy_or_none()
    if numpy is None:
        numbers = array("f", _floats(kind, b"".join(parts)))
        return [numbers[start : start + shape[1]] for start in range(0, shape[0] * shape[1], shape[1])]
    number = numpy.dtype("<f2" if kind == "F16" else "<f4")
    if len(parts) == 1:
        return numpy.frombuffer(parts[0], dtype=number).reshape(shape).copy()
    whole = numpy.empty(shape, dtype=number)
    at = 0
    for part in parts:
        rows = numpy.frombuffer(part, dtype=number).reshape(-1, shape[1])
        whole[at : at + len(rows)] = rows
        at += len(rows)
    return whole


def _floats(kind: str, numbers: bytes) -> tuple[float, ...]:
    return struct.unpack(f"<{len(numbers) // _SIZES[kind]}{_CODES[kind]}", numbers)
