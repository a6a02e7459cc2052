"""A worker server's side of the objects that gateways bring, and how a batch uses them.

Guarantee: an object is accepted from a gateway that has the token, after it was named by its digest and size, one at a
time for each stream. It is kept if it has that digest, and no message reads it back. A task is run only with the
objects that its gateway names: the path that a task has for a file is never opened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from core.files.file_version import FileVersion
from gpu_workers.engine.constants import group_of_file
from gpu_workers.engine.local.shared_memory import SharedBlock
from gpu_workers.engine.remote.console import print_state
from gpu_workers.engine.remote.frames import MISSING, UNREADABLE, BadFrame, Kind, frame, read
from gpu_workers.engine.remote.object_cache import DIGEST, GROUP, UNUSABLE, Hold, Key, NotKept, ObjectCache
from gpu_workers.engine.remote.received import ReceivedBatch

OBJECT_BYTES_MAX = 1 << 40
Read = Callable[[], Awaitable[bytes | None]]
Write = Callable[[bytes], Awaitable[None]]


class TaskFiles(Protocol):
    """The files that payloads refer to, as `gpu_workers.handlers.needed_files`."""

    def of(self, payload: Any) -> Iterable[FileVersion]: ...

    def moved(self, payload: Any, where: Callable[[FileVersion], FileVersion]) -> Any:
        """The payload with other places of its files."""
        ...


@dataclass(frozen=True)
class Claim:
    """`payloads`: with the places of their files on this machine. `lacking`: the places of those whose files are
    missing. `hold`: keeps the files in the cache."""

    payloads: list[Any]
    lacking: Sequence[int]
    hold: Hold | None = None


class WorkerFiles:
    """The objects of a worker server, by default one that keeps none, whose tasks have no files."""

    def __init__(self, cache: ObjectCache | None = None, files: TaskFiles | None = None) -> None:
        self._files = files
        self._cache = cache

    def block(self, key: Key, size: int) -> SharedBlock | None:
        """The object as the content of a block; None if the cache does not have it. Call it in a thread."""
        fd = None if self._cache is None else self._cache.open(key, size)
        return None if fd is None else SharedBlock.of_file(fd, size)

    def claim(self, payloads: list[Any]) -> Claim:
        """What a batch needs. Call it in a thread. A failure of the disk counts as a missing file."""
        if self._files is None or self._cache is None:
            return Claim(payloads, ())
        keys = {place: [_key(file) for file in self._files.of(payload)] for place, payload in enumerate(payloads)}
        if not any(keys.values()):
            return Claim(payloads, ())
        hold = self._cache.hold({key for own in keys.values() for key in own if key is not None})
        missing = {None, *hold.missing}
        lacking = [place for place, own in keys.items() if missing.intersection(own)]
        if lacking:
            return Claim(payloads, lacking)
        return Claim([self._files.moved(payload, self._kept_file) for payload in payloads], (), hold)

    def _kept_file(self, file: FileVersion) -> FileVersion:
        key = _key(file)
        if self._cache is None or key is None:
            raise TypeError("a file without a digest is nowhere else")
        return replace(file, path=str(self._cache.path(key)))

    async def receive(self, read_message: Read, write: Write) -> None:
        """Answer a stream of NEEDs until it ends. Raises BadFrame."""
        while (message := await read_message()) is not None:
            kind, body = read(message)
            if kind is not Kind.NEED:
                raise BadFrame("unexpected")
            key, size = _named(body)
            try:
                if self._cache is None:
                    raise NotKept(UNUSABLE)
                if not await asyncio.to_thread(self._cache.has, key):
                    await self._arrive(self._cache, key, size, read_message, write)
            except NotKept as error:
                print_state(f"cannot keep {key[1]}: {error.reason}")
                await write(frame(Kind.NOT_KEPT, error.reason))
            else:
                await write(frame(Kind.KEPT))

    async def _arrive(self, cache: ObjectCache, key: Key, size: int, read_message: Read, write: Write) -> None:
        arrival = await asyncio.to_thread(cache.arrival, key, size)
        failure: NotKept | None = None
        try:
            await write(frame(Kind.SEND))
            left = size
            while left:
                message = await read_message()
                if message is None:
                    raise BadFrame("the stream has ended")
                kind, data = read(message)
                if kind is not Kind.PART or not 0 < len(data) <= left:
                    raise BadFrame("a part does not fit")
                left -= len(data)
                try:
                    if failure is None:
                        await asyncio.to_thread(arrival.write, data)
                except NotKept as error:  # the parts that are under way are read and dropped
                    failure = error
            if failure is not None:
                raise failure
            await asyncio.to_thread(arrival.finish)
        finally:
            arrival.close()


def claim_or_refusal(files: WorkerFiles, batch: ReceivedBatch) -> tuple[Claim | None, list[Any]]:
    """The files of a batch, or why it is refused and for which of its tasks. Call it in a thread."""

    def fails(payload: Any) -> bool:
        try:
            files.claim([payload])
        except Exception:
            return True
        return False

    if batch.unreadable:
        return None, [UNREADABLE, batch.unreadable]
    try:
        claim = files.claim(batch.payloads)
    except Exception:  # a disk may fail in any way
        return None, [UNREADABLE, [place for place, payload in enumerate(batch.payloads) if fails(payload)]]
    lacking = sorted({*batch.lacking, *claim.lacking})
    return (None, [MISSING, lacking]) if lacking else (claim, [])


def _key(file: FileVersion) -> Key | None:
    return None if file.digest is None else (group_of_file(file.path), file.digest)


def _named(body: Any) -> tuple[Key, int]:
    try:
        group, digest, size = body
        named = GROUP.fullmatch(group) and DIGEST.fullmatch(digest)
        if not named or not isinstance(size, int) or not 0 <= size <= OBJECT_BYTES_MAX:
            raise BadFrame("not the name of an object")
    except (TypeError, ValueError):
        raise BadFrame("not the name of an object") from None
    return (group, digest), size
