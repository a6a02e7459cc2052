"""The holds of a job that is charged in parts (`core.state.jobs`): each part has a hold of its own.

Guarantee: a part is held once, whatever is repeated. The id of its hold follows from the job and the part, so that a
hold whose reply was lost is found again. Every hold that was not spent is refunded before the job ends.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from core.amounts import Amount
from core.errors import (
    BudgetExhausted,
    InvalidInput,
    JobFailed,
    PlanMismatch,
    TenantInactive,
    TenantLimitReached,
    UnknownAccount,
)
from core.ledger.records import Charge, Replay
from core.ledger.transitions import Ledger
from core.state.jobs import JobHold, JobRecord, JobStore
from gpu_workers.jobs.protocol import BUDGET, Held, HoldRequested

RELEASE_WORDS = "_release"  # the member of a job's fields with what the journal says of its releases
_HOLD_TTL_MS = 24 * 3600 * 1000  # between the reservation and the moment that the job owns it


def cost_of(charges: Sequence[Charge]) -> Amount:
    """The sum of charges, as jobs show it: that of the event that the privacy block shows, which is the first one."""
    shown = charges[0].event
    times = sum(charge.times for charge in charges if charge.event == shown)
    return Amount(shown.epsilon_nano * times, shown.delta_femto * times)


class PartHolds:
    """Holds parts for the jobs of one gateway."""

    def __init__(self, ledger: Ledger, store: JobStore) -> None:
        self._ledger = ledger
        self._store = store

    async def hold(
        self, job: JobRecord, run: str, charges: Sequence[Charge], fields: Mapping[str, Any], asked: HoldRequested
    ) -> Held | None:
        """Hold what a part costs. None: cancellation was requested, or `run` does not hold the job any more.

        Raises LedgerUnavailable: repeat the call.
        """
        if await self._store.has_hold(job.owner, job.job_id, part=asked.part):
            return Held(asked.part)
        try:
            reserved = await self._ledger.reserve(
                job.owner,
                charges,
                route=f"jobs/{job.kind}",
                hold_ttl_ms=_HOLD_TTL_MS,
                release_id=hashlib.sha256(f"{job.job_id}/{asked.part}".encode()).hexdigest()[:32],
                **fields.get(RELEASE_WORDS, {}),
            )
        except BudgetExhausted:
            return Held(asked.part, JobFailed("The budget does not admit the whole release.", reason=BUDGET))
        except (InvalidInput, PlanMismatch, TenantInactive, TenantLimitReached, UnknownAccount) as error:
            return Held(asked.part, JobFailed(error.detail or error.title, reason=error.code))
        if isinstance(reserved, Replay):
            raise TypeError("a release without a claim cannot be a replay")
        hold = JobHold(reserved.release_id, cost_of(charges))
        owned = await self._store.own_hold(job.owner, job.job_id, run=run, part=asked.part, hold=hold)
        if owned is None:
            await self._ledger.cancel(job.owner, reserved.release_id, reason="no-job")
            return None
        return Held(asked.part)

    async def refund(self, job: JobRecord, run: str) -> None:
        """Refund every open hold of a job, one by one. Raises LedgerUnavailable: repeat the call."""
        if not job.open_holds and not (await self._store.get(job.owner, job.job_id)).open_holds:
            return
        for part, is_open in (await self._store.holds(job.owner, job.job_id)).items():
            if is_open:
                await self._store.refund(job.owner, job.job_id, run=run, part=part)
