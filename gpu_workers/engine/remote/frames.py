"""The messages between a gateway and a worker server: their form, their limits, and large contents in parts.

A message is one byte for its kind and a body in msgpack, but for `PART`, whose body is raw. A batch and its answer are
each a head, which states all lengths, and parts of at most `PART_BYTES`. The receiver checks the lengths before it
allocates memory, and writes arrays directly into their blocks, so it never holds a large array twice.

    gateway                                       worker server
    ASK                                     ->
                                            <-    WAIT (all slots are taken), then or at once GRANT
    BATCH, PART ...                         ->
                                            <-    DONE, PART ... | DIED (had begun) | REFUSED (nothing was run)
    ASK ...

REFUSED has the reason: `stale` for a slot that was taken back, `missing` with the places of the tasks whose files the
worker does not have, `unreadable` with the places of those that it cannot read or check, or without places for a whole
batch, `lost` for one whose handler died before it had begun.

A block whose content the worker has (`gpu_workers.engine.constants`) is named in the head of the batch and not sent.
Objects that the worker does not have are brought over streams of their own, one after the other:

    gateway                                       worker server
    NEED group, digest, size                ->
                                            <-    KEPT (it has the object) | NOT_KEPT (the reason) | SEND
    PART ...                                ->
                                            <-    KEPT | NOT_KEPT (the reason)
    NEED ...

A gateway that has no work for a granted slot sends RELEASE. A server that takes a slot back sends REVOKED, and refuses
the batch that may be under way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import msgpack

SERVICE = "privacy_gateway.Worker"
WORK = "Work"  # a stream of the messages above; a gateway holds one for each slot that it may use
BRING = "Bring"  # a stream that brings objects
WATCH = "Watch"  # the server sends its `State` when it changes, and regularly

TOKEN = "privacy-gateway-token"  # noqa: S105 - names of metadata
GATEWAY = "privacy-gateway-id"
SCHEMA = "privacy-gateway-schema"

PART_BYTES = 2 * 1024 * 1024
MESSAGE_BYTES_MAX = 4 * 1024 * 1024
BODY_BYTES_MAX = 256 * 1024 * 1024  # a batch, or its answer, without its arrays
BRINGS_MAX = 4  # streams of a gateway that bring objects to one server at a time
BLOCKS_MAX = 1024  # of a batch; each takes a file descriptor of the server and of its handler

STALE, MISSING, UNREADABLE, LOST = "stale", "missing", "unreadable", "lost"


class Kind(IntEnum):
    ASK = 1
    BATCH = 2
    PART = 3
    RELEASE = 4
    GRANT = 5
    WAIT = 6
    REVOKED = 7
    REFUSED = 8
    DONE = 9
    DIED = 10
    STATE = 11
    NEED = 12
    SEND = 13
    KEPT = 14
    NOT_KEPT = 15


class BadFrame(ValueError):
    """The message breaks the protocol or a limit. It holds nothing of the message."""


def frame(kind: IntEnum, body: Any = None) -> bytes:
    """Return a message of this protocol, or of that of job runners."""
    content: bytes = msgpack.packb(body)
    return bytes([kind]) + content


def read(message: bytes) -> tuple[Kind, Any]:
    """Return the kind and the body of a message; of a part, the kind and a view of its bytes. Raises BadFrame."""
    try:
        kind = Kind(message[0])
        return kind, memoryview(message)[1:] if kind is Kind.PART else msgpack.unpackb(memoryview(message)[1:])
    except Exception:  # the messages may contain text
        raise BadFrame("the message cannot be read") from None


@dataclass(frozen=True)
class Content:
    """What follows a head: a body, and the written beginning of each block.

    `views`: of the sender, its blocks' bytes. The receiver gets them where `place` says.
    """

    body: bytes
    views: Sequence[memoryview] = ()

    @property
    def lengths(self) -> list[int]:
        return [len(self.body), *(len(view) for view in self.views)]


def messages(kind: Kind, head: Sequence[Any], content: Content) -> Iterator[bytes]:
    """The head with the lengths and, if it fits, the content; else the parts follow it. They are made one at a time."""
    lengths = content.lengths
    if sum(lengths) <= PART_BYTES:
        yield frame(kind, [*head, lengths, b"".join([content.body, *content.views])])
        return
    yield frame(kind, [*head, lengths, None])
    for whole in (memoryview(content.body), *content.views):
        for start in range(0, len(whole), PART_BYTES):
            yield b"".join([bytes([Kind.PART]), whole[start : start + PART_BYTES]])


Write = Callable[[memoryview, int], object]


async def receive(
    lengths: Sequence[int],
    inline: bytes | None,
    parts: Callable[[], Awaitable[bytes]],
    places: Sequence[Write],
    *,
    body_bytes_max: int = BODY_BYTES_MAX,
) -> bytearray:
    """Return the body of a content, and write its blocks by `places`, which get the bytes and where they belong.

    Raises BadFrame for lengths beyond the limits, and for parts that do not have them. The caller has checked that the
    blocks may be that long.
    """
    if len(lengths) != len(places) + 1 or not all(isinstance(length, int) and length >= 0 for length in lengths):
        raise BadFrame("the lengths do not fit")
    if lengths[0] > body_bytes_max:
        raise BadFrame("the body is too long")
    if inline is not None and len(inline) != sum(lengths):
        raise BadFrame("the content does not have its length")
    body = bytearray(lengths[0])

    def write_body(data: memoryview, at: int) -> None:
        body[at : at + len(data)] = data

    rest = None if inline is None else memoryview(inline)
    for length, write in zip(lengths, (write_body, *places), strict=True):
        if rest is not None:
            write(rest[:length], 0)
            rest = rest[length:]
            continue
        at = 0
        while at < length:
            kind, data = read(await parts())
            if kind is not Kind.PART or not 0 < len(data) <= length - at:
                raise BadFrame("a part does not fit")
            write(data, at)
            at += len(data)
    return body
