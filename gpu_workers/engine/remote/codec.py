"""Payloads, results and errors as msgpack, for workers that the gateway does not trust to run code in its process.

Guarantee: decoding builds values of the classes in a table and of a few plain types, and runs no code that the other
side has chosen. Unlike pickle, it imports nothing and calls no constructor. A class that the table lacks is refused,
on either side. The length of a message is limited before it is decoded (`gpu_workers.engine.remote.frames`).

A gateway and a worker must have the same table, and the same code of what is computed. `Codec.schema` is a digest of
both, which they compare before any work.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from types import MappingProxyType
from typing import Any

import msgpack
import numpy as np

from core import errors
from core.errors import GatewayError
from gpu_workers.engine.arrays import BlockArray

_TUPLE, _OBJECT, _NDARRAY, _ARRAY, _SET, _ERROR, _BLOCK_ARRAY, _INTEGER = range(8)
_NUMBERS = frozenset("fiub")  # kinds of arrays; an array of objects would be a pickle
_TYPECODES = frozenset("bBhHiIlLqQfd")
_FORMAT = 1  # increase with each change of the format below


class Undecodable(ValueError):
    """The bytes are not what this codec writes. The message holds none of them."""


@dataclass(frozen=True)
class Plain:
    """A class of the table that is neither a dataclass nor a named tuple, and the attributes that are sent."""

    kind: type
    attributes: tuple[str, ...]


def _attributes(row: type | Plain) -> tuple[type, tuple[str, ...]]:
    if isinstance(row, Plain):
        return row.kind, row.attributes
    if is_dataclass(row):
        return row, tuple(field.name for field in fields(row))
    names = getattr(row, "_fields", None)
    if names is None:
        raise TypeError(f"{row.__name__} is neither a dataclass nor a named tuple")
    return row, tuple(names)


def _errors() -> dict[str, type[GatewayError]]:
    """The errors that a worker's result may hold, by name."""
    every = (kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, GatewayError))
    return {kind.__name__: kind for kind in every}


class Codec:
    """Encodes and decodes values of the classes in `table`, in which each has its place."""

    def __init__(self, table: Sequence[type | Plain], *, code: str = "") -> None:
        """`code`: a digest of the code of this side, which the schema includes."""
        self._rows = [_attributes(row) for row in table]
        self._places = {kind: place for place, (kind, _) in enumerate(self._rows)}
        self._errors = _errors()
        written = [[_FORMAT, code], *([kind.__qualname__, *names] for kind, names in self._rows), sorted(self._errors)]
        self.schema = hashlib.sha256(msgpack.packb(written)).hexdigest()

    def encode(self, value: Any, blocks: Blocks | None = None) -> bytes:
        """Return the bytes of a value. `blocks` collects the memory of its arrays; without it there may be none.

        Raises TypeError for a value of a class that the table lacks.
        """
        return _Encoder(self._rows, self._places, blocks).pack(value)

    def decode(self, data: bytes | bytearray | memoryview, blocks: Sequence[tuple[Any, int]] = ()) -> Any:
        """Return the value. `blocks`: the memory of its arrays, each with the place of the sender's block at which it
        begins. Raises Undecodable."""
        try:
            return _Decoder(self._rows, self._errors, blocks).unpack(data)
        except Exception:  # the messages may contain text
            raise Undecodable("not a message of this codec") from None

    def decode_list(
        self, data: bytes | bytearray | memoryview, blocks: Sequence[tuple[Any, int]] = ()
    ) -> tuple[list[Any], list[int]]:
        """Return the values of a list, and the places of those that cannot be decoded, which are None. Raises
        Undecodable if it is no list."""
        try:
            found = self.decode(data, blocks)
        except Undecodable:
            return self._readable(memoryview(data), blocks)
        if not isinstance(found, list):
            raise Undecodable("not a list")
        return found, []

    def _readable(self, data: memoryview, blocks: Sequence[tuple[Any, int]]) -> tuple[list[Any], list[int]]:
        """The same, for each entry apart."""
        values: list[Any] = []
        unreadable: list[int] = []
        for place, entry in enumerate(_entries(data)):
            try:
                values.append(self.decode(entry, blocks))
            except Undecodable:
                values.append(None)
                unreadable.append(place)
        if not unreadable:
            raise Undecodable("more than a list")
        return values, unreadable


def _entries(data: memoryview) -> list[memoryview]:
    """The entries of a packed list. Raises Undecodable."""
    unpacker = msgpack.Unpacker(max_buffer_size=len(data) + 1)
    unpacker.feed(data)
    entries = []
    try:
        for _ in range(unpacker.read_array_header()):
            start = unpacker.tell()
            unpacker.skip()
            entries.append(data[start : unpacker.tell()])
    except Exception:
        raise Undecodable("not a list") from None
    return entries


class Blocks:
    """The blocks that the arrays of a value lie in, and of each the range that they use.

    `arrays`: the parts of each range that belong to arrays. What lies between them may belong to other values.
    """

    def __init__(self) -> None:
        self.blocks: list[Any] = []
        self.ranges: list[tuple[int, int]] = []
        self.arrays: list[list[tuple[int, int]]] = []
        self._places: dict[int, int] = {}

    def add(self, found: BlockArray) -> int:
        """Return the place of the array's block."""
        start, end = found.offset, found.offset + found.nbytes
        place = self._places.get(id(found.block))
        if place is None:
            place = self._places[id(found.block)] = len(self.blocks)
            self.blocks.append(found.block)
            self.ranges.append((start, end))
            self.arrays.append([(start, end)])
        else:
            self.arrays[place].append((start, end))
            first, last = self.ranges[place]
            self.ranges[place] = min(first, start), max(last, end)
        return place


class _Encoder:
    def __init__(
        self, rows: Sequence[tuple[type, tuple[str, ...]]], places: dict[type, int], blocks: Blocks | None
    ) -> None:
        self._rows = rows
        self._places = places
        self._blocks = blocks

    def pack(self, value: Any) -> bytes:
        packed: bytes = msgpack.packb(value, default=self._other, strict_types=True, unicode_errors="surrogatepass")
        return packed

    def _ext(self, code: int, value: Any) -> msgpack.ExtType:
        return msgpack.ExtType(code, self.pack(value))

    def _other(self, value: Any) -> Any:
        """Return a value of a type that msgpack has instead of one that it does not have."""
        kind = type(value)
        if kind is tuple:
            return self._ext(_TUPLE, list(value))
        if kind is BlockArray:
            return self._block_array(value)
        place = self._places.get(kind)
        if place is not None:
            _, names = self._rows[place]
            return self._ext(_OBJECT, [place, *(getattr(value, name) for name in names)])
        if kind is np.ndarray:
            return self._numbers(value)
        if kind is array:
            return self._ext(_ARRAY, [value.typecode, value.tobytes()])
        if kind in (set, frozenset):
            return self._ext(_SET, sorted(value))
        if isinstance(value, GatewayError):
            return self._ext(_ERROR, [kind.__name__, value.__dict__])
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, str):  # the member of an enumeration
            return str(value)
        if isinstance(value, dict | MappingProxyType):
            return dict(value)
        if isinstance(value, int) and not isinstance(value, bool):  # beyond 64 bits
            return self._ext(_INTEGER, str(value))
        raise TypeError(f"{kind.__name__} is not in the codec's table")

    def _numbers(self, value: Any) -> Any:
        if value.dtype.kind not in _NUMBERS:
            raise TypeError("an array of numbers alone can be sent")
        return self._ext(_NDARRAY, [value.dtype.str, list(value.shape), np.ascontiguousarray(value).tobytes()])

    def _block_array(self, value: BlockArray) -> Any:
        if self._blocks is None:
            raise TypeError("an array in a block is part of a task alone")
        place = self._blocks.add(value)
        return self._ext(_BLOCK_ARRAY, [place, value.dtype, list(value.shape), value.offset])


class _Decoder:
    def __init__(
        self,
        rows: Sequence[tuple[type, tuple[str, ...]]],
        known: dict[str, type[GatewayError]],
        blocks: Sequence[tuple[Any, int]],
    ) -> None:
        self._rows = rows
        self._errors = known
        self._blocks = blocks

    def unpack(self, data: bytes | bytearray | memoryview) -> Any:
        return msgpack.unpackb(
            data, ext_hook=self._ext, strict_map_key=False, unicode_errors="surrogatepass", raw=False, timestamp=0
        )

    def _ext(self, code: int, data: bytes) -> Any:
        value = self.unpack(data)
        if code == _TUPLE:
            return tuple(value)
        if code == _OBJECT:
            return self._object(*value)
        if code == _NDARRAY:
            dtype, shape, content = value
            return np.frombuffer(bytearray(content), _dtype(dtype)).reshape(shape)
        if code == _ARRAY:
            typecode, content = value
            if typecode not in _TYPECODES:
                raise Undecodable
            return array(typecode, content)
        if code == _SET:
            return frozenset(value)
        if code == _ERROR:
            return self._error(*value)
        if code == _BLOCK_ARRAY:
            return self._block_array(*value)
        if code == _INTEGER:
            return int(value)
        raise Undecodable

    def _object(self, place: int, *values: Any) -> Any:
        if not 0 <= place < len(self._rows):
            raise Undecodable
        kind, names = self._rows[place]
        if len(values) != len(names):
            raise Undecodable
        if issubclass(kind, tuple):
            return tuple.__new__(kind, values)
        made = object.__new__(kind)
        for name, value in zip(names, values, strict=True):
            object.__setattr__(made, name, value)
        return made

    def _error(self, name: str, state: dict[str, Any]) -> GatewayError:
        kind = self._errors[name]
        error = kind.__new__(kind, str(state["detail"]))
        error.__dict__.update({str(key): value for key, value in state.items() if _is_plain(value)})
        return error

    def _block_array(self, place: int, dtype: str, shape: Iterable[int], offset: int) -> BlockArray:
        block, start = self._blocks[place]
        rows, columns = (int(size) for size in shape)
        _dtype(dtype)
        found = BlockArray(block, dtype, (rows, columns), int(offset) - start)
        if min(rows, columns, found.offset) < 0 or found.offset + found.nbytes > block.size:
            raise Undecodable
        return found


def _dtype(name: str) -> np.dtype[Any]:
    found = np.dtype(str(name))
    if found.kind not in _NUMBERS:
        raise Undecodable
    return found


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bool)
