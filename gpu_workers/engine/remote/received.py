"""A batch as it arrives at a worker server, and what goes back of it.

Guarantee: lengths are checked before memory is allocated. A task that cannot be read does not stop those beside it.
"""

from __future__ import annotations

import asyncio
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
    sender named, in its order. `lacking`: the places of the payloads whose constant blocks are not on this machine."""

    payloads: list[Any]
    unreadable: list[int]
    memory: list[SharedBlock]
    lacking: list[int]


Known = Callable[[tuple[str, str], int], SharedBlock | None]  # a constant block, by the name and size of its content


async def receive_batch(
    codec: Codec,
    blocks: list[list[Any]],
    lengths: list[int],
    inline: bytes | None,
    parts: Parts,
    *,
    bytes_max: int,
    known: Known,
) -> ReceivedBatch:
    """Read a batch. `blocks`: where the sender's part of each begins, its size, and the name of its content if that is
    not sent. `bytes_max`: of all arrays.

    Raises BadFrame, Undecodable if no task can be read, or NoMemory before a part is read.
    """
    if len(blocks) > BLOCKS_MAX or len(lengths) != len(blocks) + 1:
        raise BadFrame("too many arrays, or lengths of others")
    sizes = [size for _, size, *_ in blocks]
    names = {place: (str(name[0]), str(name[1])) for place, (_, _, *name) in enumerate(blocks) if name}
    if any(length > (0 if place in names else sizes[place]) for place, length in enumerate(lengths[1:])):
        raise BadFrame("more content than its block")
    if sum(sizes) > bytes_max:
        raise NoMemory
    found = {place: await asyncio.to_thread(known, name, sizes[place]) for place, name in names.items()}
    try:
        memory = [found.get(place) or SharedBlock(max(1, size)) for place, size in enumerate(sizes)]
    except (OSError, MemoryError):
        raise NoMemory from None
    body = await receive(lengths, inline, parts, [block.write for block in memory])
    places = [(block, start) for block, (start, *_) in zip(memory, blocks, strict=True)]
    payloads, unreadable = codec.decode_list(body, places)
    absent = {id(memory[place]) for place, block in found.items() if block is None}
    lacking = [
        place for place, payload in enumerate(payloads) if any(id(block) in absent for block in blocks_of([payload]))
    ]
    return ReceivedBatch(payloads, unreadable, memory, lacking)


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
