"""A gateway's side of the objects of one worker server: which ones it is known to have, and how it gets others.

Guarantee: what is sent is read from this gateway's own verified copy, and the server keeps it only if it has the digest
that the task names. Memory is bounded: BRINGS_MAX objects at a time for each server, in parts of `PART_BYTES`, and of
each group one at a time. So a tenant with large files delays no other one by more than its share of the connection.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from grpc import aio

from core.files.file_version import FileVersion
from gpu_workers.engine.arrays import blocks_of
from gpu_workers.engine.constants import Constant, group_of_file
from gpu_workers.engine.pending import PendingTask
from gpu_workers.engine.remote.codec import Blocks
from gpu_workers.engine.remote.frames import BRINGS_MAX, PART_BYTES, BadFrame, Kind, frame, read
from gpu_workers.engine.remote.object_cache import REASONS, WRONG

REFUSED_S = 3.0  # a server that did not keep an object is not asked again for this time
ANSWER_S_MAX = 60.0  # a server hashes an object that it had before its start
_KNOWN_MAX = 65_536

Key = tuple[str, str]


class Lost(Exception):
    """This gateway does not have the object any more, or has another one in its place."""


class Refused(Exception):
    """The server does not keep the object. `reason`: one of `object_cache.REASONS`."""

    def __init__(self, reason: str) -> None:
        super().__init__()
        self.reason = reason


@dataclass(frozen=True)
class Need:
    """An object that a task needs. `source`: a file, or the block of a matrix."""

    key: Key
    source: Any = field(compare=False, repr=False)


class _Reader:
    """Reads an object in parts. Its methods read the disk: call them in a thread. They raise Lost."""

    def __init__(self, source: Any) -> None:
        self._at = 0
        if isinstance(source, Path):
            try:
                self._content: Any = source.open("rb", buffering=0)
                self.size = os.fstat(self._content.fileno()).st_size
            except OSError:
                raise Lost from None
        else:
            self._content = source.view(source.size)
            self.size = source.size

    def part(self) -> bytes:
        """The next message, PART and its bytes; empty at the end."""
        size = min(PART_BYTES, self.size - self._at)
        if size == 0:
            return b""
        if isinstance(self._content, memoryview):
            data = self._content[self._at : self._at + size]
        else:
            try:
                data = memoryview(self._content.read(size))
            except OSError:
                raise Lost from None
        if not data:
            raise Lost
        self._at += len(data)
        return b"".join([bytes([Kind.PART]), data])

    def close(self) -> None:
        if not isinstance(self._content, memoryview):
            self._content.close()


class Needs:
    """Finds what tasks need. `files`: those that a payload refers to."""

    def __init__(self, files: Callable[[Any], Iterable[FileVersion]] = lambda _: ()) -> None:
        self._files = files

    def of(self, payload: Any) -> tuple[Need, ...]:
        own = {
            (group_of_file(file.path), file.digest): Path(file.path)
            for file in self._files(payload)
            if file.digest is not None
        }
        blocks = {block.constant.key: block for block in blocks_of([payload]) if constant_of(block) is not None}
        return tuple(Need(key, source) for key, source in (own | blocks).items())

    def of_task(self, pending: PendingTask) -> tuple[Need, ...]:
        """As `of`, found once for each task."""
        if pending.needs is None:
            pending.needs = self.of(pending.task.payload)
        return pending.needs


def constant_of(block: Any) -> Constant | None:
    """What a frozen block holds."""
    found: Constant | None = getattr(block, "constant", None)
    return found


def places(blocks: Blocks) -> list[list[Any]]:
    """Of each block, where the part begins that is sent, and its size. Of a constant, the whole size and its name."""
    return [
        [start, end - start] if (known := constant_of(block)) is None else [0, known.size, *known.key]
        for block, (start, end) in zip(blocks.blocks, blocks.ranges, strict=True)
    ]


def without_constants(blocks: Blocks, views: Sequence[memoryview]) -> list[memoryview]:
    """What is sent of each block: of a constant, nothing."""
    return [
        view if constant_of(block) is None else memoryview(b"")
        for block, view in zip(blocks.blocks, views, strict=True)
    ]


class _Turn:
    """One group's turn to bring objects."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0


class Objects:
    """The objects of one server. Used on the event loop only, without locks."""

    def __init__(self, open_stream: Callable[[], Any], *, on_sent: Callable[[int], None]) -> None:
        """`on_sent` gets the bytes of each part."""
        self._open_stream = open_stream
        self._on_sent = on_sent
        self._instance = ""
        self._known: set[Key] = set()
        self._refused: dict[Key, tuple[str, float]] = {}  # why, and until when the server is not asked again
        self._bringing: dict[Key, asyncio.Task[None]] = {}
        self._streams = asyncio.Semaphore(BRINGS_MAX)
        self._turns: dict[str, _Turn] = {}

    def are_of(self, instance: str) -> None:
        """The server has been started again if this is another instance: what it has is not known."""
        if instance != self._instance:
            self._instance = instance
            self._known.clear()
            self._refused.clear()

    def has(self, needs: Collection[Need]) -> bool:
        """Whether the server is known to have all of these. It may have evicted them since."""
        return all(need.key in self._known for need in needs)

    def refuses(self, needs: Iterable[Need]) -> bool:
        """Whether the server has lately refused one of these."""
        now = time.monotonic()
        return any(now < self._refused.get(need.key, ("", 0.0))[1] for need in needs)

    def is_bringing(self, needs: Iterable[Need]) -> bool:
        return any(need.key in self._bringing for need in needs)

    def forget(self, needs: Iterable[Need]) -> None:
        """The server has evicted some of these."""
        self._known.difference_update(need.key for need in needs)

    async def bring(self, needs: Iterable[Need]) -> None:
        """Return once the server has these. Raises Lost, Refused, or BadFrame if the connection fails."""
        for need in needs:
            while need.key not in self._known:
                if need.key not in self._bringing:
                    self._bringing[need.key] = asyncio.create_task(self._bring(need))
                    self._bringing[need.key].add_done_callback(partial(self._ended, need.key))
                bringing = self._bringing[need.key]
                try:
                    await asyncio.shield(bringing)
                except asyncio.CancelledError:
                    if not bringing.cancelled():  # else the server is not used any more
                        raise
                    raise BadFrame("the stream has ended") from None

    async def close(self) -> None:
        for task in list(self._bringing.values()):
            task.cancel()
        await asyncio.gather(*self._bringing.values(), return_exceptions=True)

    def _ended(self, key: Key, done: asyncio.Task[None]) -> None:
        self._bringing.pop(key, None)
        if not done.cancelled():
            done.exception()  # nobody may wait any more

    async def _bring(self, need: Need) -> None:
        instance = self._instance
        try:
            async with self._turn(need.key[0]), self._streams:
                await self._sent(need)
        except Refused as refused:
            if len(self._refused) >= _KNOWN_MAX:
                self._refused.clear()
            self._refused[need.key] = refused.reason, time.monotonic() + REFUSED_S
            raise
        if instance == self._instance:
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            self._known.add(need.key)

    @asynccontextmanager
    async def _turn(self, group: str) -> AsyncIterator[None]:
        """Wait until nothing else of the group is brought."""
        turn = self._turns.setdefault(group, _Turn())
        turn.users += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.users -= 1
            if not turn.users:
                del self._turns[group]

    async def _sent(self, need: Need) -> None:
        reader = await asyncio.to_thread(_Reader, need.source)
        call = self._open_stream()
        try:
            kind, reason = await self._exchange(call, need.key, reader)
        except (Lost, BadFrame):
            raise
        except (Exception, asyncio.CancelledError):
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise BadFrame("the stream has ended") from None  # a stream that was cut raises CancelledError, too
        finally:
            call.cancel()
            reader.close()
        if kind is Kind.NOT_KEPT and reason in REASONS and reason != WRONG:
            raise Refused(reason)
        if kind is not Kind.KEPT:
            raise Lost

    async def _exchange(self, call: Any, key: Key, reader: _Reader) -> tuple[Kind, Any]:
        """The server's last word about an object."""
        async with asyncio.timeout(ANSWER_S_MAX):
            await call.write(frame(Kind.NEED, [*key, reader.size]))
            kind, body = await self._read(call)
        if kind is not Kind.SEND:
            return kind, body
        while part := await asyncio.to_thread(reader.part):
            async with asyncio.timeout(ANSWER_S_MAX):
                await call.write(part)
            self._on_sent(len(part) - 1)
        async with asyncio.timeout(ANSWER_S_MAX):
            return await self._read(call)

    @staticmethod
    async def _read(call: Any) -> tuple[Kind, Any]:
        message = await call.read()
        if message is aio.EOF:
            raise BadFrame("the stream has ended")
        return read(message)
