"""Removes local copies of what was deleted, replaced or has expired: on another gateway, or while this one was stopped.

Guarantee: a copy in plain form outlives its entry by little more than the time for which a request may use it, and
INTERVAL_S, while a gateway runs on its data directory and Redis answers.
"""

import asyncio
import contextlib
import logging
from collections.abc import Sequence

from core.errors import LedgerError
from service.files.copies import Copy
from service.files.stored import StoredFiles

INTERVAL_S = 600.0

log = logging.getLogger("privacy_gateway.files")


async def remove_forgotten_regularly(files: StoredFiles) -> None:
    """Until it is cancelled, from now on."""
    while True:
        with contextlib.suppress(LedgerError, OSError):
            await asyncio.to_thread(files.copies.evict)  # the limit may be lower than it was
            count = await remove_forgotten(files)
            if count:
                log.info("copies-removed", extra={"fields": {"count": count}})
        await asyncio.sleep(INTERVAL_S)


async def remove_forgotten(files: StoredFiles) -> int:
    """Remove the idle copies that are not the files of an entry; returns how many. Raises LedgerUnavailable."""
    by_owner: dict[str, list[Copy]] = {}
    for copy in await asyncio.to_thread(files.copies.idle):
        by_owner.setdefault(copy.owner, []).append(copy)
    count = 0
    for copies in by_owner.values():
        count += await _remove_forgotten_of(files, copies)
    return count


async def _remove_forgotten_of(files: StoredFiles, copies: Sequence[Copy]) -> int:
    """As `remove_forgotten`, of copies of one owner."""
    entries = await files.index.get_many([(copy.owner, copy.area, copy.name) for copy in copies])
    count = 0
    for copy, entry in zip(copies, entries, strict=True):
        part = None if entry is None else entry.parts.get(copy.path.suffix)
        if part is None or part.digest != copy.digest:
            count += await asyncio.to_thread(files.copies.remove_idle, copy)
    return count
