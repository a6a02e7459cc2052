"""Keeps an attempt's hold of its job while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from core.errors import LedgerError, UnknownJob
from core.ledger.job_records import JobRecord
from core.ledger.jobs import LEASE_MS, JobStore

_RENEWALS = 4  # in the time of one lease


@asynccontextmanager
async def lease_kept(store: JobStore, job: JobRecord, run: str, *, on_loss: Callable[[], None]) -> AsyncIterator[None]:
    """Renew the lease of `run` until the block ends. Calls `on_loss` once another attempt holds the job.

    While Redis does not answer, no lease can be renewed, and no other gateway can take the job either.
    """

    async def renew() -> None:
        while True:
            await asyncio.sleep(LEASE_MS / 1000 / _RENEWALS)
            try:
                held = await store.renew(job.owner, job.job_id, run=run)
            except UnknownJob:
                held = False
            except LedgerError:
                continue
            if not held:
                on_loss()
                return

    task = asyncio.create_task(renew())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
