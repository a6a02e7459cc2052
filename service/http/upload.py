"""Receives a large binary body directly into a block of the engine, and fingerprints it at the same time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from cryptography.hazmat.primitives.poly1305 import Poly1305
from fastapi import Request
from starlette.requests import ClientDisconnect

from core.errors import ClientGone
from gpu_workers.engine.arrays import ArrayPool, Block
from service.http.numbers import whole_number

_STEP_BYTES = 1024 * 1024  # passed to a thread at once


@dataclass(frozen=True)
class Upload:
    """A body of `size` bytes at the start of `block`. `tag` identifies its content (`MasterKey.body_tag`)."""

    block: Block
    size: int
    tag: bytes


async def receive(request: Request, pool: ArrayPool, tag: Poly1305, *, owner: str, bytes_max: int) -> Upload:
    """Receive the body. A thread stores and fingerprints each part while the next one arrives.

    The memory is counted as the body arrives, for `owner`: an announced length costs nothing. Raises QueueFull and
    TenantLimitReached if the pool has too little free memory, ClientGone. `BodyLimit` refuses a body above `bytes_max`,
    `BodyPace` one that arrives too slowly.
    """
    announced = whole_number(request.headers.get("content-length"))
    size_max = bytes_max if announced is None else min(announced, bytes_max)
    block, charge = pool.arriving(size_max, owner=owner)
    size = 0

    def take(chunks: list[bytes], offset: int) -> None:
        for chunk in chunks:
            block.write(chunk, offset)
            tag.update(chunk)
            offset += len(chunk)

    taking: asyncio.Future[None] | None = None
    waiting: list[bytes] = []
    waiting_bytes = 0
    try:
        async for chunk in request.stream():
            charge(len(chunk))
            waiting.append(chunk)
            waiting_bytes += len(chunk)
            if waiting_bytes >= _STEP_BYTES:
                if taking is not None:
                    await taking
                taking = asyncio.get_running_loop().run_in_executor(None, take, waiting, size)
                size += waiting_bytes
                waiting, waiting_bytes = [], 0
    except ClientDisconnect:
        raise ClientGone from None
    finally:
        if taking is not None:
            await taking
    take(waiting, size)
    return Upload(block, size + waiting_bytes, tag.finalize())
