"""The budget ledger. It never under-counts and never admits a release past a limit.

Every transition is one Lua script in one round trip. It is durable before it returns, and it is replay-safe. Every
method raises LedgerUnavailable if Redis does not answer correctly; the caller then must not release anything.
Amounts are integers: nano-epsilon and femto-delta. Times are milliseconds since the epoch by the Redis clock.
"""

import asyncio
import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from core import errors
from core.accounting.events import Unit
from core.ledger.archive.store import LedgerArchive
from core.ledger.counters import NO_RHO, NO_SQUARE, Vector, amount_of
from core.ledger.headroom import AccountHeadroom, fit, headroom, lowered_limits
from core.ledger.reader import LedgerReader
from core.ledger.records import (
    Account,
    AccountState,
    Charge,
    Debits,
    Estimate,
    EstimateLine,
    Limit,
    Orders,
    Replay,
    Reserved,
    Settled,
    Tenant,
    TenantMode,
    account_state,
    account_states,
    account_terms,
    mechanism_label,
)
from core.ledger.tenant_rounds import OverdueHolds, TenantPosition, over_tenants
from core.master_key import Claim, MasterKey, Purpose
from core.redis import names
from core.redis.client import LedgerClient, check_configuration
from core.redis.identity import SCHEMA, check_schema

DAY_MS = 24 * 3600 * 1000
TOMBSTONE_TTL_MS = 30 * DAY_MS
RESPONSE_RETENTION_MS = 3600 * 1000
HOLD_TTL_MS = 5 * 60 * 1000
PRICINGS_MAX = 5

_REFUSALS: dict[str, Callable[[], Exception]] = {
    "unknown-tenant": errors.UnknownTenant,
    "unknown-account": errors.UnknownAccount,
    "tenant-exists": errors.TenantExists,
    "tenant-suspended": errors.TenantInactive,
    "tenant-closed": partial(errors.TenantInactive, code="tenant-closed"),
    "subject-required": partial(errors.InvalidInput, code="subject-required"),
    "subject-not-allowed": partial(errors.InvalidInput, code="subject-not-allowed"),
    "conflict": errors.IdempotencyConflict,
    "in-flight": errors.ReleaseInFlight,
    "gone": errors.ReleaseGone,
}


@dataclass(frozen=True)
class TenantCaps:
    """What one tenant may keep in Redis without spending epsilon. Beyond a cap `reserve` raises TenantLimitReached.

    `holds_max` limits the holds that are open at a time. `uncharged_per_hour_max` limits the holds that are refunded
    and the denials that are kept: each uses up one hour divided by this number, and the time used up never exceeds an
    hour. `stored_bytes_max` limits the encrypted responses that are kept for replay. Responses to requests that were
    admitted before the cap was reached are still stored, so the sum can exceed the cap by those of the open holds.
    `jobs_max` limits the records of jobs, ended or not: beyond it, `JobStore.create` raises TenantLimitReached.
    """

    holds_max: int = 4096
    uncharged_per_hour_max: int = 10_000
    stored_bytes_max: int = 256 * 1024 * 1024
    jobs_max: int = 20_000


class Ledger(LedgerReader):
    """The transitions of the ledger. `LedgerReader` has the reads.

    A stored response lives for `response_retention_ms` (0 stores none). The claim of an ended release lives for
    `tombstone_ttl_ms`, which must be longer, or for `generated_ttl_ms` if the gateway generated the key. Between the
    two, a replay raises ReleaseGone. After the claim expires, the idempotency key can be used for a new release.
    Counters never expire. `expire_overdue` spends a hold that nobody settles within `hold_ttl_ms`. `clock` replaces the
    Redis time in tests.
    """

    def __init__(
        self,
        client: LedgerClient,
        master_key: MasterKey,
        *,
        hold_ttl_ms: int = HOLD_TTL_MS,
        response_retention_ms: int = RESPONSE_RETENTION_MS,
        tombstone_ttl_ms: int = TOMBSTONE_TTL_MS,
        generated_ttl_ms: int = DAY_MS,
        caps: TenantCaps | None = None,
        clock: Callable[[], int] | None = None,
        archive: LedgerArchive | None = None,
    ) -> None:
        if hold_ttl_ms <= 0:
            raise ValueError("the hold TTL must be at least one millisecond")
        if not 0 <= response_retention_ms < tombstone_ttl_ms:
            raise ValueError("a tombstone must outlive the stored response")
        super().__init__(client, archive=archive)
        self._master_key = master_key
        self._hold_ttl_ms = hold_ttl_ms
        self._response_retention_ms = response_retention_ms
        self._limits = {
            "tombstone_ttl_ms": tombstone_ttl_ms,
            "generated_ttl_ms": min(tombstone_ttl_ms, max(generated_ttl_ms, response_retention_ms)),
            **asdict(caps or TenantCaps()),
        }
        self._clock = clock
        self._overdue = OverdueHolds(client, lambda tenant, release: self.expire(tenant, release, reason="overdue"))
        self._orders: dict[tuple[str, Unit, bool], Orders] = {}  # the flag separates own accounts from subjects'

    async def check(self) -> None:
        """Check Redis, the schema and the master key. Call this at start.

        The first check of an empty ledger stores the schema and a MAC of the master key. Under another key every
        subject would get a new account and a fresh budget. Raises LedgerUnavailable for a Redis that could lose a hold,
        for another schema, or for another key.
        """
        await check_configuration(self._client.call)
        await self._client.call("SET", names.VERSION_KEY, SCHEMA, "NX")
        await check_schema(self._client.call)
        mac = self._master_key.mac(Purpose.CHECK).encode()
        await self._client.call("SET", names.KEY_CHECK_KEY, mac, "NX")
        if await self._client.call("GET", names.KEY_CHECK_KEY) != mac:
            raise errors.LedgerUnavailable("The master key is not the one that this ledger was opened with.")

    async def open_tenant(
        self, name: str, *, limits: Mapping[Unit, Limit], subject_limits: Mapping[Unit, Limit] | None = None
    ) -> Tenant:
        """Open a tenant with one account for each unit, all or nothing. `subject_limits` selects `subject` mode.

        Both mappings contain every unit. In `subject` mode `limits` is a quota over the sum of all subjects. Raises
        InvalidInput for an invalid name or limit, TenantExists.
        """
        mode = TenantMode.TENANT if subject_limits is None else TenantMode.SUBJECT
        args = {
            "operation": secrets.token_hex(16),
            "mode": mode.value,
            "accounts": account_terms(limits),
            "subject_accounts": account_terms(subject_limits) if subject_limits else [],
        }
        names.check_tenant(name)
        # The list of tenants is in another slot than the tenant, so the two writes are not atomic. The list comes
        # first: readers skip a name without a record, but sweeps would miss a record without a name.
        await self._client.call("SADD", names.TENANTS_KEY, name)
        await self._transition("open", name, args)
        return await self.tenant(name)

    async def reserve(
        self,
        tenant: str,
        charges: Sequence[Charge],
        *,
        claim: Claim | None = None,
        key_id: str | None = None,
        route: str | None = None,
        words: Mapping[str, str] | None = None,
        hold_ttl_ms: int | None = None,
        release_id: str | None = None,
    ) -> Reserved | Replay:
        """Hold the cost of a release, or return the result of an earlier release under the same claim.

        All charges compose by summation. An event is also debited in the accounts of the finer units. In `subject` mode
        each subject's account and the tenant's quota must both admit the release. Either every account holds or none.
        `hold_ttl_ms` overrides the ledger's value, for work that takes longer than a request.

        A `claim` is an Idempotency-Key with its body. Under a caller's key a denial repeats with the same numbers for
        as long as its tombstone lives. A claim whose release was cancelled can be used again.

        `key_id` is the id of the API key that causes the release, and `route` the route of the gateway that it is sent
        to, such as `embed/sentdp`. `words` are the `purpose` and the `recipient` of the release, as its request states
        them. The journal entries of the release contain all of these.

        A second call with the same `release_id` returns the hold of the first one while that is open, and then raises
        HoldNotOpen for a while. Without one the release gets a random id.

        Raises BudgetExhausted, PlanMismatch, IdempotencyConflict, ReleaseInFlight, ReleaseGone, UnknownTenant,
        UnknownAccount, InvalidInput, TenantLimitReached, TenantInactive.
        """
        if hold_ttl_ms is None:
            hold_ttl_ms = self._hold_ttl_ms
        elif hold_ttl_ms <= 0:
            raise ValueError("the hold TTL must be at least one millisecond")
        release_id = names.check_hex(release_id, length=32) if release_id else secrets.token_hex(16)
        found, stored = await self._priced(
            tenant,
            Debits(tenant, charges, self._master_key),
            {
                "release": release_id,
                "scope": names.check_hex(claim.scope, length=64) if claim else "",
                "fingerprint": names.check_hex(claim.fingerprint, length=64) if claim else "",
                "key": names.check_hex(key_id, length=names.KEY_ID_LENGTH) if key_id else "",
                "route": names.check_route(route) if route else "",
                "words": [
                    part
                    for name in names.RELEASE_WORDS
                    if (text := (words or {}).get(name))
                    for part in (name, names.check_words(text, field=name))
                ]
                or None,
                "generated": claim is not None and claim.generated,
                "mechanism": mechanism_label(charges),
                "hold_ttl_ms": hold_ttl_ms,
            },
        )
        if found["outcome"] == "replay":
            earlier = found["release"]
            return Replay(earlier, self._master_key.decrypt(stored, tenant=tenant, release_id=earlier))
        return Reserved(found["release"], account_states(tenant, found["accounts"]))

    async def commit(self, tenant: str, release_id: str, *, response: bytes | None = None) -> Settled:
        """Count a hold as committed and store `response`, encrypted, for replays. Send the response only afterwards.

        Pass None for a response that must not be stored. Repeating the call returns the same answer and stores nothing
        new. Raises HoldNotOpen if the hold was cancelled or spent; the caller must then discard the output.
        """
        blob = b""
        if response is not None and self._response_retention_ms > 0:
            blob = self._master_key.encrypt(response, tenant=tenant, release_id=release_id)
        args = {"retention_ms": self._response_retention_ms}
        return await self._settle("commit", tenant, release_id, "", args, blob)

    async def cancel(self, tenant: str, release_id: str, *, reason: str) -> Settled:
        """Refund a hold. Call this only if it is certain that no noise was drawn. `reason` is a fixed label.

        Repeating the call returns the same answer. Raises HoldNotOpen if the hold was committed or spent.
        """
        return await self._settle("cancel", tenant, release_id, reason)

    async def expire(self, tenant: str, release_id: str, *, reason: str) -> Settled:
        """Count a hold as spent without an output, for example after a worker died or a deadline passed. No refund.

        Repeating the call returns the same answer. Raises HoldNotOpen if the hold was committed or cancelled.
        """
        return await self._settle("expire", tenant, release_id, reason)

    async def expire_overdue(self, positions: Mapping[str, TenantPosition] | None = None) -> int:
        """Spend every overdue hold of every tenant. Returns the number of holds. Call it regularly.

        `positions` are those of all tenants, as TenantActivity returns them: tenants without new entries and overdue
        holds then cost nothing. Without it every tenant is read.
        """
        now_ms = self._clock() if self._clock else await self._client.now_ms()
        if positions is not None:
            return await self._overdue.expire_all(positions, now_ms)
        return await over_tenants(await self._client.tenants(), lambda tenant: self._overdue.expire_of(tenant, now_ms))

    async def estimate(self, tenant: str, charges: Sequence[Charge]) -> Estimate:
        """Return what `reserve` would decide at this moment, computed by the same script. Writes nothing.

        Raises the errors of `reserve`, except BudgetExhausted, TenantLimitReached and the errors of a claim.
        """
        debits = Debits(tenant, charges, self._master_key)
        found, _ = await self._priced(tenant, debits, {"estimate": True, "release": "", "scope": ""})
        lines = []
        for row, cost, fits in zip(found["accounts"], found["costs"], found["fits"], strict=True):
            state = account_state(tenant, row)
            after = state.remaining_after(cost) if fits else None
            times = fit(state, tuple(cost), (state.plan_signature,)).releases  # the script has refused another plan
            lines.append(EstimateLine(state, amount_of(cost), after, times))
        return Estimate(tuple(lines))

    async def headroom(
        self, tenant: str, account_id: str, offers: Sequence[Sequence[Charge]]
    ) -> tuple[AccountState, tuple[AccountHeadroom, ...]]:
        """Return an account, and how many more of each release fit. The charges of `offers` name no subject.

        Each release is counted alone, as if nothing else were reserved. The limits of `TenantCaps` are not considered.
        Writes nothing. Raises UnknownAccount, UnknownTenant, InvalidInput.
        """
        found = await self.debited_accounts(tenant, account_id)
        groups = [found.own] if found.subject is None else [found.subject, found.own]
        answers = []
        for charges in offers:
            debits = Debits(tenant, charges, self._master_key)
            new_subject = None
            if found.subject is None and found.new_subject is not None:
                new_subject = headroom(debits, [found.new_subject])
            answers.append(AccountHeadroom(debits.units, headroom(debits, groups), new_subject))
        return found.account, tuple(answers)

    async def lowered_limits(
        self, tenant: str, account_id: str, epsilon_nano: int
    ) -> tuple[AccountState, list[Vector]]:
        """Return an account and the current limit of this epsilon for each of its divisions. Writes nothing.

        Raises InvalidInput for an epsilon above that of the guarantee, an account with a plan or of a subject;
        UnknownAccount, UnknownTenant.
        """
        state = await self.account(tenant, account_id)
        return state, await asyncio.to_thread(lowered_limits, state, epsilon_nano)

    async def set_current_limit(self, tenant: str, account_id: str, epsilon_nano: int) -> AccountState:
        """Set what an account of the tenant may spend now; the epsilon of its guarantee removes the current limit.

        Returns the account. Its guarantee does not change (`core.ledger.headroom`). Raises as `lowered_limits`.
        """
        state, lowered = await self.lowered_limits(tenant, account_id, epsilon_nano)
        args = {"unit": state.unit.value, "epsilon": str(epsilon_nano), "lowered": lowered}
        found, _ = await self._transition("current_limit", tenant, args)
        return account_state(tenant, found["account"])

    async def ping_write(self) -> None:
        """Write one small key durably. Raises LedgerUnavailable if a transition could not be written now."""
        await self._client.call("SET", names.READINESS_KEY, secrets.token_hex(8))

    async def _priced(self, tenant: str, debits: Debits, args: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
        """Run reserve.lua with every debit priced at the orders of its account.

        The orders of an account never change, so this method caches them. If the cached orders are wrong, the script
        returns the right ones. If a sum does not fit a counter, the script returns how far each counter can still grow.
        Both cases price the release again.
        """
        headroom: list[list[int]] | None = None
        for _ in range(PRICINGS_MAX):
            orders = {account: self._orders_of(tenant, account) for account in debits.accounts}
            own, subjects = debits.amounts(orders, headroom)
            digest = hashlib.sha256(subjects).hexdigest() if subjects else ""
            rows = {"subject_rows": subjects.decode(), "digest": digest}
            found, stored = await self._transition("reserve", tenant, {**args, **rows, **debits.args(orders)}, own)
            if found["outcome"] == "counter-overflow":
                headroom = found["headroom"]
            elif found["outcome"] == "other-orders":
                for account, learnt in zip(debits.accounts, found["orders"], strict=True):
                    self._orders[tenant, account[0], bool(account[1])] = tuple(learnt.split())
            else:
                return found, stored
        raise errors.LedgerUnavailable("Concurrent changes of the accounts prevented pricing the release. Try again.")

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
        """Run a script of this tenant. Raise the error that corresponds to a refusal."""
        full = {**args, **self._limits}
        if self._clock:
            full["now_ms"] = self._clock()
        found, stored = await self._client.run(script, key=names.tenant_key(tenant), args=full, blob=blob)
        outcome = found["outcome"]
        if outcome in _REFUSALS:
            raise _REFUSALS[outcome]()
        if outcome == "not-open":
            raise errors.HoldNotOpen(state=found["state"])
        if outcome == "tenant-limit":
            raise errors.TenantLimitReached(limit=found["limit"])
        if outcome == "plan-mismatch":
            raise errors.PlanMismatch(account=account_state(tenant, found["account"]).account)
        if outcome == "denied":
            state, cost = account_state(tenant, found["account"]), found["requested"]
            raise errors.BudgetExhausted(
                account=state.account,
                requested=amount_of(cost),
                remaining=state.remaining,
                arms=state.arm_states(cost),
                basic_only=bool(cost[NO_SQUARE] and cost[NO_RHO]),
            )
        return found, stored
