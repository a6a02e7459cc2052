"""The budget ledger: never under-count, never admit past a limit.

Every transition is one Lua script in one round trip, durable before it returns, and replay-safe. Every method
raises LedgerUnavailable when Redis does not answer as it should; the caller then releases nothing.
Amounts are integers: nano-epsilon and femto-delta. Times are milliseconds since the epoch, by Redis' clock.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from core.accounting.events import Unit
from core.errors import (
    BudgetExhausted,
    HoldNotOpen,
    IdempotencyConflict,
    LedgerUnavailable,
    PlanMismatch,
    ReleaseGone,
    ReleaseInFlight,
    SubjectNotAllowed,
    SubjectRequired,
    TenantExists,
    UnknownAccount,
    UnknownTenant,
)
from core.ledger import names, wire
from core.ledger.client import LedgerClient
from core.ledger.counters import NO_RHO, NO_SQUARE, amount_of
from core.ledger.debits import Account, Debits, Orders
from core.ledger.durability import check_configuration
from core.ledger.keys import Claim, MasterKey, Purpose
from core.ledger.migration import migrate
from core.ledger.reader import LedgerReader
from core.ledger.records import (
    Charge,
    Estimate,
    EstimateLine,
    Limit,
    Replay,
    Reserved,
    Settled,
    Tenant,
    TenantMode,
)

DAY_MS = 24 * 3600 * 1000
TOMBSTONE_TTL_MS = 30 * DAY_MS
RESPONSE_RETENTION_MS = 3600 * 1000
HOLD_TTL_MS = 5 * 60 * 1000
SWEEP_BATCH = 256
PRICINGS_MAX = 5

_REFUSALS: dict[str, type[Exception]] = {
    "unknown-tenant": UnknownTenant,
    "unknown-account": UnknownAccount,
    "tenant-exists": TenantExists,
    "subject-required": SubjectRequired,
    "subject-not-allowed": SubjectNotAllowed,
    "conflict": IdempotencyConflict,
    "in-flight": ReleaseInFlight,
    "gone": ReleaseGone,
}


class Ledger(LedgerReader):
    """The transitions; the reads are in `LedgerReader`.

    A stored response lives for `response_retention_ms` (0 stores none), the record that a release ended for
    `tombstone_ttl_ms`, which must be longer: between the two a replay is ReleaseGone. After the tombstone the
    idempotency key is new again. Nothing that counts has a time to live. A hold that nobody settles is spent by
    `expire_overdue` after `hold_ttl_ms`. `clock` replaces Redis' time in tests.
    """

    def __init__(
        self,
        client: LedgerClient,
        master_key: MasterKey,
        *,
        hold_ttl_ms: int = HOLD_TTL_MS,
        response_retention_ms: int = RESPONSE_RETENTION_MS,
        tombstone_ttl_ms: int = TOMBSTONE_TTL_MS,
        clock: Callable[[], int] | None = None,
    ) -> None:
        if hold_ttl_ms <= 0:
            raise ValueError("a hold lives for at least a millisecond")
        if not 0 <= response_retention_ms < tombstone_ttl_ms:
            raise ValueError("a tombstone must outlive the stored response")
        super().__init__(client)
        self._master_key = master_key
        self._hold_ttl_ms = hold_ttl_ms
        self._response_retention_ms = response_retention_ms
        self._tombstone_ttl_ms = tombstone_ttl_ms
        self._clock = clock
        self._orders: dict[tuple[str, Unit, bool], Orders] = {}  # of a tenant's own and of its subjects' accounts

    async def check(self) -> None:
        """Call at start: raises LedgerUnavailable for a Redis that could lose a hold, or another master key.

        The first check of an empty ledger remembers a MAC of the master key. Under another key every subject
        would have a new account and its budget would start again.
        """
        await check_configuration(self._client.call)
        mac = self._master_key.mac(Purpose.CHECK).encode()
        await self._client.call("SET", names.KEY_CHECK_KEY, mac, "NX")
        if await self._client.call("GET", names.KEY_CHECK_KEY) != mac:
            raise LedgerUnavailable("The master key is not the one that this ledger was opened with.")

    async def migrate(self) -> int:
        """Bring a ledger of an earlier version up to date; returns how many limits were lowered. Call after `check`."""
        return await migrate(self._client)

    async def open_tenant(
        self, name: str, *, limits: Mapping[Unit, Limit], subject_limits: Mapping[Unit, Limit] | None = None
    ) -> Tenant:
        """Open a tenant with one account a unit, all or nothing; with `subject_limits` in `subject` mode.

        Both mappings name every unit. In `subject` mode `limits` is a quota over the sum of all subjects.
        Raises InvalidInput for a bad name or limit, TenantExists.
        """
        mode = TenantMode.TENANT if subject_limits is None else TenantMode.SUBJECT
        args = {
            "operation": secrets.token_hex(16),
            "mode": mode.value,
            "accounts": wire.account_terms(limits),
            "subject_accounts": wire.account_terms(subject_limits) if subject_limits else [],
        }
        names.check_tenant(name)
        # The list of tenants is in another slot than the tenant. A name without a record is skipped by readers,
        # a record without a name would be skipped by sweeps: hence this order.
        await self._client.call("SADD", names.TENANTS_KEY, name)
        await self._transition("open", name, args)
        return await self.tenant(name)

    async def reserve(
        self, tenant: str, charges: Sequence[Charge], *, claim: Claim | None = None, hold_ttl_ms: int | None = None
    ) -> Reserved | Replay:
        """Hold the cost of a release, or return what an earlier one under the same claim released.

        All charges compose by sum, an event also in the coarser unit's finer accounts; in `subject` mode each
        subject's account and the tenant's quota must both admit. Either every account holds or none.
        `hold_ttl_ms` overrides the ledger's, for work that takes longer than a request.

        With a `claim` (an Idempotency-Key and its body): a denial repeats with the same numbers for as long as
        its tombstone lives, and a claim whose release was cancelled can be used again.

        Raises BudgetExhausted, PlanMismatch, IdempotencyConflict, ReleaseInFlight, ReleaseGone, SubjectRequired,
        SubjectNotAllowed, UnknownTenant, UnknownAccount, InvalidInput.
        """
        if hold_ttl_ms is None:
            hold_ttl_ms = self._hold_ttl_ms
        elif hold_ttl_ms <= 0:
            raise ValueError("a hold lives for at least a millisecond")
        release_id = secrets.token_hex(16)
        found, stored = await self._priced(
            tenant,
            Debits(tenant, charges, self._master_key),
            {
                "release": release_id,
                "scope": names.check_hex(claim.scope, length=64) if claim else "",
                "fingerprint": names.check_hex(claim.fingerprint, length=64) if claim else "",
                "mechanism": wire.mechanism_label(charges),
                "hold_ttl_ms": hold_ttl_ms,
            },
        )
        if found["outcome"] == "replay":
            earlier = found["release"]
            return Replay(earlier, self._master_key.decrypt(stored, tenant=tenant, release_id=earlier))
        return Reserved(found["release"], wire.account_states(tenant, found["accounts"]))

    async def commit(self, tenant: str, release_id: str, *, response: bytes | None = None) -> Settled:
        """Count a hold as committed and keep `response`, encrypted, for replays; only then may it leave.

        Pass None for an answer that must not be stored. The same call again gets the same answer and stores
        nothing new. Raises HoldNotOpen when the hold was cancelled or spent: the output is discarded.
        """
        blob = b""
        if response is not None and self._response_retention_ms > 0:
            blob = self._master_key.encrypt(response, tenant=tenant, release_id=release_id)
        args = {"retention_ms": self._response_retention_ms}
        return await self._settle("commit", tenant, release_id, "", args, blob)

    async def cancel(self, tenant: str, release_id: str, *, reason: str) -> Settled:
        """Refund a hold. Only where it is certain that no noise was drawn; `reason` is a fixed label.

        The same call again gets the same answer. Raises HoldNotOpen when the hold was committed or spent.
        """
        return await self._settle("cancel", tenant, release_id, reason)

    async def expire(self, tenant: str, release_id: str, *, reason: str) -> Settled:
        """Count a hold as spent without an output: a worker died, a deadline passed. Never a refund.

        The same call again gets the same answer. Raises HoldNotOpen when the hold was committed or cancelled.
        """
        return await self._settle("expire", tenant, release_id, reason)

    async def expire_overdue(self) -> int:
        """Spend every hold of every tenant whose time has passed; returns how many. Call it regularly."""
        return sum([await self._expire_overdue_of(tenant) for tenant in await self._tenant_names()])

    async def _expire_overdue_of(self, tenant: str) -> int:
        expired = 0
        now_ms = self._clock() if self._clock else await self._client.now_ms()
        while True:
            overdue = await self._client.call(
                "ZRANGEBYSCORE", names.overdue_key(tenant), 0, now_ms, "LIMIT", 0, SWEEP_BATCH
            )
            before = expired
            for release_id in overdue:
                try:
                    await self.expire(tenant, release_id.decode(), reason="overdue")
                except HoldNotOpen:
                    continue  # settled in the meantime, which also took it off this list
                expired += 1
            if len(overdue) < SWEEP_BATCH or expired == before:
                return expired

    async def estimate(self, tenant: str, charges: Sequence[Charge]) -> Estimate:
        """What `reserve` would decide at this moment, by the same script; holds and writes nothing.

        Raises as `reserve` does, except BudgetExhausted and the errors of a claim.
        """
        debits = Debits(tenant, charges, self._master_key)
        found, _ = await self._priced(tenant, debits, {"estimate": True, "release": "", "scope": ""})
        lines = []
        for row, cost, fits in zip(found["accounts"], found["costs"], found["fits"], strict=True):
            state = wire.account_state(tenant, row)
            after = state.remaining_after(cost) if fits else None
            lines.append(EstimateLine(state, amount_of(cost), after))
        return Estimate(tuple(lines))

    async def ping_write(self) -> None:
        """Write one small key durably; raises LedgerUnavailable when a transition could not be written now."""
        await self._client.call("SET", names.READINESS_KEY, secrets.token_hex(8))

    async def _priced(self, tenant: str, debits: Debits, args: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
        """Run reserve.lua with every debit priced at the orders of its account.

        An account's orders never change, so they are learnt once: the script tells them when they are others. It
        also tells what its counters can still take, should a sum not fit.
        """
        room: list[list[int]] | None = None
        for _ in range(PRICINGS_MAX):
            orders = {account: self._orders_of(tenant, account) for account in debits.accounts}
            blob = debits.amounts(orders, room)
            found, stored = await self._transition("reserve", tenant, {**args, **debits.args(orders)}, blob)
            if found["outcome"] == "no-room":
                room = found["room"]
            elif found["outcome"] == "other-orders":
                for account, learnt in zip(debits.accounts, found["orders"], strict=True):
                    self._orders[tenant, account[0], bool(account[1])] = tuple(learnt.split())
            else:
                return found, stored
        raise LedgerUnavailable("The accounts change too fast to be priced; try again.")

    def _orders_of(self, tenant: str, account: Account) -> Orders:
        return self._orders.get((tenant, account[0], bool(account[1])), ())

    async def _settle(
        self,
        transition: str,
        tenant: str,
        release_id: str,
        reason: str,
        extra: Mapping[str, int] | None = None,
        blob: bytes = b"",
    ) -> Settled:
        if transition != "commit":
            names.check_label(reason)
        args = {"release": names.check_hex(release_id, length=32), "reason": reason, **(extra or {})}
        found, _ = await self._transition(transition, tenant, args, blob)
        return Settled(release_id, found["outcome"], int(found["at_ms"]))

    async def _transition(
        self, script: str, tenant: str, args: Mapping[str, Any], blob: bytes = b""
    ) -> tuple[dict[str, Any], bytes]:
        """Run a script of this tenant and raise what it refused with."""
        full = {**args, "tombstone_ttl_ms": self._tombstone_ttl_ms}
        if self._clock:
            full["now_ms"] = self._clock()
        found, stored = await self._client.run(script, key=names.tenant_key(tenant), args=full, blob=blob)
        outcome = found["outcome"]
        if outcome in _REFUSALS:
            raise _REFUSALS[outcome]
        if outcome == "not-open":
            raise HoldNotOpen(state=found["state"])
        if outcome == "plan-mismatch":
            raise PlanMismatch(account=wire.account_state(tenant, found["account"]).account)
        if outcome == "denied":
            state, cost = wire.account_state(tenant, found["account"]), found["requested"]
            raise BudgetExhausted(
                account=state.account,
                requested=amount_of(cost),
                remaining=state.remaining,
                arms=state.arm_states(cost),
                basic_only=bool(cost[NO_SQUARE] and cost[NO_RHO]),
            )
        return found, stored
