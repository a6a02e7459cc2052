"""A batch as it arrives at a worker server, and what goes back of it.

Guarantee: lengths are checked before memory is allocated. A task that cannot be read does not stop those beside it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_workers.engine.arrays import blocks_of
from gpu_workers.engine.local.messages import Done
from gpu_workers.engine.local.shared_memory import SharedBlock
from gpu_workers.engine.remote.codec import Codec
from gpu_workers.engine.remote.frames import BLOCKS_MAX, BadFrame, Content, receive

Parts = Callable[[], Awaitable[bytes]]


class NoMemory(Exception):
    """There is no memory for the arrays of a batch. Nothing of it was read."""


@dataclass(frozen=True)
class ReceivedBatch:
    """`unreadable`: the places of the payloads that cannot be read; None stands there. `memory`: of the blocks that the
    sender named, in its order."""

    payloads: list[Any]
    unreadable: list[int]
    memory: list[SharedBlock]


async def receive_batch(
    codec: Codec, blocks: list[list[int]], lengths: list[int], inline: bytes | None, parts: Parts, *, bytes_max: int
) -> ReceivedBatch:
    """Read a batch. `blocks`: where the sender's part of each begins, and its size. `bytes_max`: of all arrays.

    Raises BadFrame, Undecodable if no task can be read, or NoMemory before a part is read.
    """
    if len(blocks) > BLOCKS_MAX or len(lengths) != len(blocks) + 1:
        raise BadFrame("too many arrays, or lengths of others")
    if any(length > size for (_, size), length in zip(blocks, lengths[1:], strict=True)):
        raise BadFrame("more content than its block")
    if sum(size for _, size in blocks) > bytes_max:
        raise NoMemory
    try:
        memory = [SharedBlock(max(1, size)) for _, size in blocks]
    except (OSError, MemoryError):
        raise NoMemory from None
    body = await receive(lengths, inline, parts, [block.write for block in memory])
    places = [(block, start) for block, (start, _) in zip(memory, blocks, strict=True)]
    payloads, unreadable = codec.decode_list(body, places)
    return ReceivedBatch(payloads, unreadable, memory)


async def drop(lengths: Sequence[int], inline: bytes | None, parts: Parts) -> None:
    """Read the parts of a batch and keep nothing of them."""
    if inline is None:
        await receive(lengths, None, parts, [_dropped] * (len(lengths) - 1))


def _dropped(data: memoryview, at: int) -> None:
    """A place for bytes that nobody reads."""


def answer(codec: Codec, done: Done, batch: ReceivedBatch) -> tuple[list[int], Content]:
    """Where the changed range of each block begins, and the results with these ranges."""
    changed = {id(block): span for block, span in zip(blocks_of(batch.payloads), done.changed, strict=True)}
    spans = [changed.get(id(block), (0, 0)) for block in batch.memory]
    views = [block.view(end)[start:] for block, (start, end) in zip(batch.memory, spans, strict=True)]
    return [start for start, _ in spans], Content(codec.encode(done.results), views)
