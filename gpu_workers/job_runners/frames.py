"""The messages between a gateway and a job runner. One stream is one place, and at most one attempt at one job.

A message is one byte for its kind and a body in msgpack, but for `PART`, whose body is raw.

    gateway                                       job runner
                                            <-    GRANT | REFUSED (no place is free), at once
    ORDER, PART ...                         ->
                                            <-    FILES, PART ...     files that the process has changed
                                            <-    PROGRESS | CHARGE
    CHARGED | ALIVE                         ->
                                            <-    SUCCEEDED | FAILED | DIED | LEFT (the runner drains)

ORDER lists the files of the job's folder with their sizes, and those that travel with it; FILES lists the changed ones
and the names of those that are gone. Their contents follow in parts of at most `PART_BYTES`, in that order. FILES
precedes the message that the process sent after it had written them. Whatever ends the stream ends the process, and so
does a gateway that sends nothing for `SILENCE_S_MAX` seconds: one that lives sends ALIVE every `ALIVE_S`, once it has
sent the order and its files, whose parts follow each other within `PART_S_MAX`.
"""

from __future__ import annotations

import os
from asyncio import to_thread
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, BinaryIO

import msgpack

from gpu_workers.engine.remote.frames import PART_BYTES, BadFrame

SERVICE = "privacy_gateway.JobRunner"
RUN = "Run"
WATCH = "Watch"  # the runner sends its `State` when it changes, and regularly
JOBS = "jobs"  # the role of job runners among the workers

ALIVE_S = 4.0
SILENCE_S_MAX = 20.0
PART_S_MAX = 60.0  # until the next part of a file; a slow network and a busy gateway take their time for each
FILES_MAX = 16_384  # of one folder


class Kind(IntEnum):
    STATE = 1
    GRANT = 2
    REFUSED = 3
    ORDER = 4
    PART = 5
    FILES = 6
    PROGRESS = 7
    CHARGE = 8
    CHARGED = 9
    SUCCEEDED = 10
    FAILED = 11
    DIED = 12
    LEFT = 13
    ALIVE = 14


@dataclass(frozen=True)
class Listed:
    """A file that follows: its name, and how many bytes."""

    name: str
    size: int


def read(message: bytes) -> tuple[Kind, Any]:
    """Return the kind and the body of a message; of a part, the kind and a view of its bytes. Raises BadFrame."""
    try:
        kind = Kind(message[0])
        return kind, memoryview(message)[1:] if kind is Kind.PART else msgpack.unpackb(memoryview(message)[1:])
    except Exception:
        raise BadFrame("the message cannot be read") from None


def listed(body: Any, accepted: Callable[[object], bool]) -> list[Listed]:
    """The files of a list that was received. Raises BadFrame for a name that is not `accepted` or is repeated, for what
    is no size, and for too many files. The caller checks the sum of the sizes before it keeps any."""
    if not isinstance(body, list) or len(body) > FILES_MAX:
        raise BadFrame("too many files")
    found = []
    for entry in body:
        if not isinstance(entry, list) or len(entry) != 2 or not accepted(entry[0]):
            raise BadFrame("not a file of a job")
        name, size = entry
        if type(size) is not int or size < 0:
            raise BadFrame("not a size")
        found.append(Listed(name, size))
    if len({each.name for each in found}) < len(found):
        raise BadFrame("a file twice")
    return found


def parts(path: Path, size: int) -> Iterator[bytes]:
    """The messages with the content of a file. It reads the disk: step through it in a thread. Raises OSError, also for
    a file of another size."""
    left = size
    with path.open("rb") as file:
        while left:
            data = file.read(min(left, PART_BYTES))
            if not data:
                raise OSError("the file has become shorter")
            left -= len(data)
            yield bytes([Kind.PART]) + data


async def receive(
    files: Sequence[Listed], place: Callable[[str], Path], next_message: Callable[[], Awaitable[bytes]]
) -> None:
    """Write the files whose parts follow; `place` says where. Raises BadFrame for parts that are others.

    Raises OSError once all parts have arrived, so that the sender hears of a full disk.
    """
    failure: OSError | None = None
    for each in files:
        file: BinaryIO | None = None
        try:
            file = await to_thread(_new, place(each.name))
        except OSError as error:
            failure = error
        try:
            async for data in _content(each, next_message):
                if file is not None and failure is None:
                    try:
                        await to_thread(_write, file, data)
                    except OSError as error:
                        failure = error
        finally:
            if file is not None:
                file.close()
    if failure is not None:
        raise failure


async def drop(files: Sequence[Listed], next_message: Callable[[], Awaitable[bytes]]) -> None:
    """Read the parts of files and keep nothing of them. Raises BadFrame."""
    for each in files:
        async for _ in _content(each, next_message):
            pass


async def _content(file: Listed, next_message: Callable[[], Awaitable[bytes]]) -> AsyncIterator[memoryview]:
    """The parts of one file, as they arrive. Raises BadFrame."""
    left = file.size
    while left:
        kind, data = read(await next_message())
        if kind is not Kind.PART or not 0 < len(data) <= left:
            raise BadFrame("a part does not fit")
        left -= len(data)
        yield data


def _write(file: BinaryIO, data: memoryview) -> None:
    """Write all of it: a write without a buffer may stop early, as where a disk becomes full."""
    while data:
        data = data[file.write(data) :]


def _new(path: Path) -> BinaryIO:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    return os.fdopen(descriptor, "wb", buffering=0)
