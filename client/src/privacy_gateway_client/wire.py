"""Requests as they are sent, and answers as they are read: what both clients share below their calls.

Errors of httpx and pydantic hold the request or its values. An error is therefore raised outside their `except` blocks,
so that it has no context.

A safetensors file of `/embed/vector/safetensors` is read and written without a library: eight bytes with the length of
a JSON header, the header, and the numbers in little-endian order. NumPy is used where it is installed; otherwise a
matrix is a list of `array.array`.

The two clients differ in how they wait, use threads, run operations side by side and send bodies in pieces. The code in
`asynchronous/` uses the names that begin with `async_` or `Async`. `make client` writes `generated/` from it, which
uses the names without this prefix. Each pair promises the same. asyncio is imported inside the functions that need it:
it takes a fifth of the time of the whole import of this package, and the blocking client does not use it.
"""

from __future__ import annotations

import contextvars
import json
import re
import secrets
import struct
import sys
import threading
import time
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from privacy_gateway_client.errors import AnswerInvalid, ConnectionLost, FieldError, InvalidRequest

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Matrix = npt.NDArray[np.float32 | np.float16]


Model = TypeVar("Model", bound=BaseModel)
Content = bytes | Callable[[], Iterable[bytes]] | None

KEY = "Idempotency-Key"
JSON_HEADERS = {"Content-Type": "application/json"}
LINES_TYPE = "application/x-ndjson"
VISIBLE = re.compile(r"[!-~]+")  # what a header may hold in one piece
_NOT_IN_PATHS = re.compile(r"[?#%\\\s\x00-\x1f]")

# what httpx raises when no complete answer arrives, and what of it occurs before a byte of the request has left
LOST = (httpx.TransportError, httpx.StreamError, httpx.DecodingError)
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)


@dataclass(frozen=True)
class Outgoing:
    """A request. `content`: bytes, or a function that opens an iterator of them for each attempt.

    repeatable: whether the request may be sent again after its bytes have left and no answer came: it has an
        idempotency key, reads, or costs nothing.

    Raises InvalidRequest for a name in `path` that would lead to another path: `../vault` in place of a domain's name.
    """

    method: str
    path: str
    params: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: Content = field(default=None, repr=False)
    repeatable: bool = True

    def __post_init__(self) -> None:
        if _NOT_IN_PATHS.search(self.path) or {"", ".", ".."} & set(self.path.split("/")[1:]):
            raise InvalidRequest((FieldError("path", "a name or an id is empty or has characters that none has"),))


def get(path: str, **params: Any) -> Outgoing:
    return Outgoing("GET", path, params=given(params))


def post(path: str, members: Mapping[str, Any] | None = None, *, repeatable: bool = True) -> Outgoing:
    """A POST with a JSON body, or without one."""
    if members is None:
        return Outgoing("POST", path, content=b"", repeatable=repeatable)
    return Outgoing("POST", path, headers=JSON_HEADERS, content=json_of(members), repeatable=repeatable)


def put(path: str, members: Mapping[str, Any], *, repeatable: bool = True) -> Outgoing:
    return Outgoing("PUT", path, headers=JSON_HEADERS, content=json_of(members), repeatable=repeatable)


def keyed(request: Outgoing, key: str | None) -> Outgoing:
    """The request under an idempotency key, which all of its retries have. Raises InvalidRequest."""
    if key is not None and not VISIBLE.fullmatch(key):
        raise InvalidRequest((FieldError("idempotency_key", "it has a space, a line feed or a letter beyond ASCII"),))
    return replace(request, headers={**request.headers, KEY: key or new_key()})


def new_key() -> str:
    """A fresh idempotency key."""
    return secrets.token_hex(16)


def given(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that are not None."""
    return {name: value for name, value in params.items() if value is not None}


def json_of(members: Any) -> bytes:
    """The JSON of a request. Raises InvalidRequest for a value that JSON has no form of."""
    try:
        return json.dumps(members, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError):  # its text may quote the value
        pass
    raise InvalidRequest((FieldError("body", "a value is no JSON"),))


def connection_lost(error: Exception) -> ConnectionLost:
    """The error of this client for one of `LOST`."""
    return ConnectionLost(type(error).__name__, sent=not isinstance(error, _UNSENT))


def too_long() -> InvalidRequest:
    """The error of this client for an address that httpx refuses."""
    return InvalidRequest((FieldError("query", "the parameters make the address too long"),))


def parsed_json(content: bytes | str) -> Any:
    """An answer as JSON. Raises AnswerInvalid."""
    try:
        return json.loads(content)
    except ValueError:
        pass
    raise AnswerInvalid("the answer is not JSON")


def parsed(model: type[Model], content: bytes | str) -> Model:
    """An answer as its model. Raises AnswerInvalid, which names members and no value."""
    return _as_expected(model.model_validate_json, content)


def validated_answer(model: type[Model], value: Any) -> Model:
    """A part of an answer as its model. Raises AnswerInvalid, which names members and no value."""
    return _as_expected(model.model_validate, value)


def _as_expected(read: Callable[[Any], Model], value: Any) -> Model:
    failure: AnswerInvalid
    try:
        return read(value)
    except ValidationError as error:
        places = (".".join(map(str, one["loc"])) for one in error.errors()[:5])
        failure = AnswerInvalid("the answer does not have the expected members", tuple(places))
    raise failure


def rows_of(members: object, member: str) -> list[dict[str, Any]]:
    """The list of JSON objects in a member of an answer. Raises AnswerInvalid."""
    found = members.get(member) if isinstance(members, dict) else None
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise AnswerInvalid("the answer does not have the expected list", (member,))
    return found


@dataclass(frozen=True)
class Event:
    """An event of a stream of server-sent events."""

    name: str
    id: str | None
    data: str


class EventReader:
    """Takes the lines of a stream one by one, and gives an event at each blank line that ends one."""

    def __init__(self) -> None:
        self._name = "message"
        self._data: list[str] = []
        self.last_id: str | None = None

    def take(self, line: str) -> Event | None:
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "data":
                self._data.append(value)
            elif name == "event":
                self._name = value
            elif name == "id":
                self.last_id = value
            return None
        event = Event(self._name, self.last_id, "\n".join(self._data)) if self._data else None
        self._name, self._data = "message", []
        return event


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


class VectorRows:
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


P = ParamSpec("P")
T = TypeVar("T")
AsyncFunction = Callable[P, Awaitable[T]]
Function = Callable[P, T]


async def async_sleep(seconds: float) -> None:
    """Wait, and let the event loop run meanwhile."""
    import asyncio

    await asyncio.sleep(seconds)


def sleep(seconds: float) -> None:
    """Wait, which blocks the thread of the caller."""
    time.sleep(seconds)


async def async_in_thread(function: Callable[[], T]) -> T:
    """Call a function that blocks in a thread of its own, so that it does not stop the event loop."""
    import asyncio

    return await asyncio.to_thread(function)


def in_thread(function: Callable[[], T]) -> T:
    """Call a function that blocks in the thread of the caller, which waits in any case."""
    return function()


def async_loop() -> object:
    """The running event loop, whose connections no other loop can use; None outside of one."""
    import asyncio

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def loop() -> object:
    """None: the connections of a blocking client serve every thread."""
    return None


def async_body(content: Content) -> bytes | AsyncIterator[bytes] | None:
    """The body of one attempt, as `httpx.AsyncClient` takes it."""
    if not callable(content):
        return content
    opened = content()

    async def pieces() -> AsyncIterator[bytes]:
        for piece in opened:
            yield piece

    return pieces()


def body(content: Content) -> bytes | Iterable[bytes] | None:
    """The body of one attempt, as `httpx.Client` takes it."""
    return content() if callable(content) else content


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """How one of several operations ended: its value or its error. Both are None if it was not started."""

    value: T | None = None
    error: Exception | None = None


async def async_gather(operations: Sequence[AsyncFunction[[], T]], *, concurrency: int) -> list[Outcome[T]]:
    """Run operations as tasks, at most `concurrency` at a time. After the first error no further one is started.

    The outcomes have the order of the operations. An operation that fails raises nothing. Each task has a copy of the
    caller's context, in which the caller's budget caps are. A caller that is cancelled cancels the tasks.
    """
    import asyncio

    free = asyncio.Semaphore(concurrency)
    stopped = False

    async def one(operation: AsyncFunction[[], T]) -> Outcome[T]:
        nonlocal stopped
        async with free:
            if stopped:
                return Outcome()
            try:
                return Outcome(await operation())
            except Exception as error:
                stopped = True
                return Outcome(error=error)

    tasks = [asyncio.ensure_future(one(operation)) for operation in operations]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def gather(operations: Sequence[Function[[], T]], *, concurrency: int) -> list[Outcome[T]]:
    """Run operations in threads, at most `concurrency` at a time. After the first error no further one is started.

    The outcomes have the order of the operations. An operation that fails raises nothing. Each thread has a copy of the
    caller's context, in which the caller's budget caps are. A caller that is interrupted waits for what has started.
    """
    stopped = threading.Event()

    def one(operation: Function[[], T]) -> Outcome[T]:
        if stopped.is_set():
            return Outcome()
        try:
            return Outcome(operation())
        except Exception as error:
            stopped.set()
            return Outcome(error=error)

    if len(operations) == 1 or concurrency == 1:
        return [one(operation) for operation in operations]
    with ThreadPoolExecutor(concurrency, thread_name_prefix="privacy-gateway-client") as pool:
        waiting = [pool.submit(contextvars.copy_context().run, one, operation) for operation in operations]
        try:
            return [each.result() for each in waiting]
        except BaseException:
            stopped.set()
            raise
