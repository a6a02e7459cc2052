"""Safetensors files with one matrix, read and written without a copy of the matrix.

The format: eight bytes with the length of a JSON header, the header, the numbers. It contains no code, unlike pickle.
The header states the position of the tensor, so every value in it is checked before use.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from core.errors import InvalidInput

MEDIA_TYPE = "application/vnd.safetensors"
HEADER_BYTES_MAX = 64 * 1024
_LENGTH_BYTES = 8
_METADATA = "__metadata__"
_ALIGNMENT = 8

# name in a header -> (name in NumPy, bytes of a number); the format is little-endian
_DTYPES = {"F32": ("<f4", 4), "F16": ("<f2", 2)}
_NAMES = {"float32": "F32", "float16": "F16"}


@dataclass(frozen=True)
class MatrixHeader:
    """A matrix `shape` of `dtype` whose numbers start at `offset` of the file, and the file's metadata."""

    dtype: str
    shape: tuple[int, int]
    offset: int
    metadata: dict[str, str]


def read_header(start: bytes, *, size: int, tensor: str) -> MatrixHeader:
    """Read the header of a file of `size` bytes whose only matrix is called `tensor`.

    `start`: the first `HEADER_BYTES_MAX` + 8 bytes of the file, or the whole file if that is shorter.
    Raises InvalidInput for anything but one float32 or float16 matrix that fills the rest of the file exactly.
    """
    length = int.from_bytes(start[:_LENGTH_BYTES], "little")
    offset = _LENGTH_BYTES + length
    if size < _LENGTH_BYTES or length > HEADER_BYTES_MAX or offset > size or offset > len(start):
        raise InvalidInput(f"not a safetensors file with a header of at most {HEADER_BYTES_MAX} bytes", field="file")
    try:
        header = orjson.loads(start[_LENGTH_BYTES:offset])
    except orjson.JSONDecodeError:
        raise InvalidInput("the file's header is not JSON", field="file") from None
    if not isinstance(header, dict):
        raise InvalidInput("the file's header is not an object", field="file")
    metadata = header.pop(_METADATA, {})
    if not _is_strings(metadata) or list(header) != [tensor]:
        raise InvalidInput(f"the file must hold exactly one tensor, called {tensor}", field="file")
    dtype, shape = _described(header[tensor], nbytes=size - offset, tensor=tensor)
    return MatrixHeader(dtype, shape, offset, metadata)


def _is_strings(metadata: Any) -> bool:
    return isinstance(metadata, dict) and all(isinstance(value, str) for value in metadata.values())


def _described(found: Any, *, nbytes: int, tensor: str) -> tuple[str, tuple[int, int]]:
    """(dtype, shape) of a tensor's entry. Raises InvalidInput."""
    if not isinstance(found, dict) or set(found) != {"dtype", "shape", "data_offsets"}:
        raise InvalidInput("the tensor needs a dtype, a shape and data_offsets", field=tensor)
    if not isinstance(found["dtype"], str) or found["dtype"] not in _DTYPES:
        raise InvalidInput("the tensor must be float32 or float16", field=tensor)
    dtype, width = _DTYPES[found["dtype"]]
    shape = found["shape"]
    if not _is_integers(shape) or len(shape) != 2 or min(shape) < 1:
        raise InvalidInput("the tensor must be a matrix of at least one row and one column", field=tensor)
    offsets = found["data_offsets"]
    if not _is_integers(offsets) or offsets != [0, nbytes] or shape[0] * shape[1] * width != nbytes:
        raise InvalidInput("the tensor must fill the file behind its header exactly", field=tensor)
    return dtype, (shape[0], shape[1])


def _is_integers(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int for value in values)


def header_of(dtype: str, shape: tuple[int, int], *, tensor: str, metadata: Mapping[str, str]) -> bytes:
    """The bytes before the numbers of a matrix of NumPy's `dtype` (float32 or float16)."""
    name = _NAMES[dtype]
    nbytes = shape[0] * shape[1] * _DTYPES[name][1]
    entry = {"dtype": name, "shape": list(shape), "data_offsets": [0, nbytes]}
    text = orjson.dumps({_METADATA: dict(metadata), tensor: entry})
    text += b" " * (-len(text) % _ALIGNMENT)
    return len(text).to_bytes(_LENGTH_BYTES, "little") + text
