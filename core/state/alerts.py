"""Rules of alerts, the alerts that fired, and the outbox of their deliveries.

Guarantee: an alert, the state of its rule and its deliveries are written in one durable step (alert.lua). A condition
fires once and ends once, whatever crashes. A delivery stays in the outbox until it is settled: it happens at least
once, always with the same id. Only the gateway that holds the lease changes states and takes deliveries.

Rules and deliveries are sealed under the master key: whoever controls Redis alone reads no address and no secret, and
cannot send an alert elsewhere. An owner is a tenant, or SHARED_OWNER for the operator. Times are milliseconds since the
epoch by the Redis clock.
"""

from __future__ import annotations

import re
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

from core.errors import InvalidInput, LedgerNotTrusted, TenantLimitReached, UnknownName
from core.ledger.tenant_rounds import TENANT_BATCH
from core.master_key import MasterKey, Purpose
from core.redis import names
from core.redis.client import LedgerClient

_MEMBER = re.compile(r"[0-9]{13}-[0-9a-f]{32}")
_FAR_MS = 10**13

Place = Literal["open", "over"]
Facts = Mapping[str, Any]  # numbers and fixed words


@dataclass(frozen=True)
class AlertLimits:
    """`rules_max`, `outbox_max` and `kept_max` are those of one owner. Open alerts do not count in `kept_max`.

    The rules are few because each round evaluates every one of them.
    """

    rules_max: int = 32
    outbox_max: int = 1000
    kept_max: int = 1000


@dataclass(frozen=True)
class Alert:
    """One crossing of a rule. `target` is an account, a job or the ledger. `over_ms` is None while it lasts."""

    alert_id: str
    rule: str
    kind: str
    tenant: str
    target: str
    fired_ms: int
    over_ms: int | None
    facts: Facts

    @property
    def member(self) -> str:
        """Its place in lists that are sorted newest first."""
        return f"{_FAR_MS - self.fired_ms:013d}-{self.alert_id}"

    def block(self) -> dict[str, Any]:
        """The content of answers and deliveries."""
        return {
            "id": self.alert_id,
            "rule": self.rule,
            "kind": self.kind,
            "tenant": self.tenant,
            "target": self.target,
            "status": "open" if self.over_ms is None else "over",
            "fired_ms": self.fired_ms,
            "over_ms": self.over_ms,
            "facts": dict(self.facts),
        }

    @classmethod
    def parse(cls, block: Mapping[str, Any]) -> Alert:
        given = {name: block[name] for name in ("rule", "kind", "tenant", "target", "fired_ms", "over_ms", "facts")}
        return cls(alert_id=block["id"], **given)


@dataclass(frozen=True)
class RuleState:
    """The open alerts of a rule about one tenant by target, and what its kind remembers. `raw` is the stored text."""

    raw: str = ""
    open: Mapping[str, Alert] = field(default_factory=dict)
    memo: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, open_alerts: Mapping[str, Alert], memo: Mapping[str, Any]) -> RuleState:
        if not open_alerts and not memo:
            return cls()
        blocks = {target: alert.block() for target, alert in open_alerts.items()}
        raw = orjson.dumps({"open": blocks, "memo": memo}, option=orjson.OPT_SORT_KEYS).decode()
        return cls(raw, open_alerts, memo)


@dataclass(frozen=True)
class NewDelivery:
    """What the webhook of a rule is to receive. `event_id` is the same at every attempt."""

    event_id: str
    body: bytes


@dataclass(frozen=True)
class TakenDelivery:
    """A delivery that this gateway has taken. `attempt` counts from 1."""

    owner: str
    rule: str
    event_id: str
    body: bytes
    attempt: int


@dataclass(frozen=True)
class JournalPositions:
    """The last journal entry of a tenant, the last that the series and the spending contain, and how often a current
    limit was set, which has no entry."""

    seq: int = 0
    series: int = 0
    spending: int = 0
    limit_changes: int = 0


@dataclass(frozen=True)
class AlertPage:
    """Alerts, newest first; `next_cursor` is None on the last page."""

    alerts: tuple[Alert, ...]
    next_cursor: str | None


class AlertStore:
    """Every method may raise LedgerUnavailable. `clock` replaces the Redis time in tests."""

    def __init__(
        self,
        client: LedgerClient,
        master_key: MasterKey,
        *,
        limits: AlertLimits | None = None,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self._client = client
        self._master_key = master_key
        self._limits = limits or AlertLimits()
        self._clock = clock

    @property
    def is_untrusted(self) -> bool:
        """Whether the ledger contradicts its seals: every other method then raises LedgerUnavailable."""
        return self._client.is_stopped

    async def now_ms(self) -> int:
        return self._clock() if self._clock else await self._client.now_ms()

    # Rules

    async def put_rule(self, owner: str, rule: str, content: Mapping[str, Any]) -> bool:
        """Store a rule. Returns whether it is new. Raises TenantLimitReached."""
        bound = f"rule/{names.check_owner(owner)}/{names.check_rule(rule)}"
        sealed = b64encode(self._master_key.wrap(Purpose.ALERT, orjson.dumps(content), bound_to=bound)).decode()
        found = await self._run("put", owner, rule=rule, sealed=sealed, rules_max=self._limits.rules_max)
        if found["outcome"] == "too-many":
            raise TenantLimitReached(limit="alert_rules_per_tenant_max")
        return bool(found["outcome"] == "new")

    async def delete_rule(self, owner: str, rule: str) -> None:
        """Delete a rule and end its open alerts. They are not delivered as over. Raises UnknownName."""
        names.check_rule(rule)
        if (await self._run("delete", owner, rule=rule))["outcome"] == "unknown":
            raise UnknownName(code="unknown-alert-rule")
        now_ms = await self.now_ms()
        for tenant in await self._client.call("SMEMBERS", names.alerts_key("states", owner, rule)):
            state = await self.state(owner, rule, tenant.decode())
            ended = [_ended(alert, now_ms) for alert in state.open.values()]
            await self._change(owner, rule, tenant.decode(), state.raw, RuleState(), alerts=ended, closing=True)

    async def forget(self, owner: str) -> None:
        """Remove the alerts of an owner, whose rules were deleted before."""
        while (await self._run("forget", owner))["more"]:
            pass

    async def rule(self, owner: str, rule: str) -> dict[str, Any]:
        """Return the content of a rule. Raises UnknownName."""
        sealed = await self._client.call("GET", names.alerts_key("rule", owner, names.check_rule(rule)))
        if sealed is None:
            raise UnknownName(code="unknown-alert-rule")
        bound = f"rule/{owner}/{rule}"
        plain = self._master_key.unwrap(Purpose.ALERT, b64decode(sealed), bound_to=bound)
        if plain is None:
            raise LedgerNotTrusted("A stored rule of alerts is not authentic under this master key.")
        content: dict[str, Any] = orjson.loads(plain)
        return content

    async def rule_names(self, owner: str) -> list[str]:
        found = await self._client.call("SMEMBERS", names.alerts_key("rules", names.check_owner(owner)))
        return sorted(name.decode() for name in found)

    async def version(self) -> int:
        """Return the version of all rules, which grows with every change of one."""
        return int(await self._client.call("GET", names.alerts_key("version")) or 0)

    async def owners_changed(self, after: int) -> list[str]:
        """Return the owners whose rules have changed after a version."""
        found = await self._client.call("ZRANGEBYSCORE", names.alerts_key("owners"), f"({after}", "+inf")
        return [owner.decode() for owner in found]

    async def last_delivery(self, owner: str, rule: str) -> tuple[int, str] | None:
        """Return when the last delivery of a rule was tried, and the result."""
        found = await self._client.call("GET", names.alerts_key("last", owner, rule))
        if found is None:
            return None
        at_ms, _, result = found.decode().partition(" ")
        return int(at_ms), result

    # States and alerts

    async def take_lease(self, holder: str, *, ttl_ms: int) -> bool:
        """Take or renew the lease. Returns whether `holder` has it."""
        return bool((await self._run("lease", "", holder=holder, ttl_ms=ttl_ms))["outcome"] == "held")

    async def release_lease(self, holder: str) -> None:
        await self._run("release", "", holder=holder)

    async def state(self, owner: str, rule: str, tenant: str) -> RuleState:
        raw = await self._client.call("GET", names.alerts_key("state", owner, rule, tenant))
        if raw is None:
            return RuleState()
        content = orjson.loads(raw)
        alerts = {target: Alert.parse(block) for target, block in content["open"].items()}
        return RuleState(raw.decode(), alerts, content["memo"])

    async def change(
        self,
        holder: str,
        owner: str,
        rule: str,
        tenant: str,
        before: RuleState,
        after: RuleState,
        *,
        alerts: Sequence[Alert],
        deliveries: Iterable[NewDelivery],
    ) -> int | None:
        """Write a new state of a rule, the alerts that fired or ended, and their deliveries, in one step.

        Returns the number of deliveries for which the outbox had no place; None if nothing was written, because another
        gateway holds the lease or has changed the state, or because the rule was deleted.
        """
        if alerts and before.raw == after.raw:
            raise ValueError("an alert changes the state of its rule")
        return await self._change(
            owner, rule, tenant, before.raw, after, alerts=alerts, deliveries=deliveries, holder=holder
        )

    async def page(self, owner: str, place: Place | None, *, cursor: str | None, limit: int) -> AlertPage:
        """Return up to `limit` alerts after `cursor`, newest first. Raises InvalidInput for a malformed cursor."""
        if cursor is not None and not _MEMBER.fullmatch(cursor):
            raise InvalidInput("`cursor` is the `next_cursor` of the page before.", field="cursor")
        first = f"({cursor}" if cursor else "-"
        places: tuple[Place, ...] = (place,) if place else ("open", "over")
        found = await self._client.call_many(
            [("ZRANGEBYLEX", names.alerts_key(one, owner), first, "+", "LIMIT", 0, limit + 1) for one in places]
        )
        members = sorted({member.decode() for listed in found for member in listed})
        shown = members[:limit]
        records = await self._client.call_many([("GET", names.alerts_key("alert", owner, one)) for one in shown])
        alerts = tuple(Alert.parse(orjson.loads(record)) for record in records if record is not None)
        return AlertPage(alerts, shown[-1] if len(members) > limit else None)

    async def positions(self, tenants: Iterable[str] | None = None) -> dict[str, JournalPositions]:
        """Return how far the journals of these tenants have come; by default of all. Unknown ones are left out."""
        if tenants is None:
            tenants = await self._client.tenants()
        listed, found = sorted(tenants), {}
        fields = ("seq", names.SERIES_POSITION, names.SPENDING_POSITION, "limit_changes")
        for start in range(0, len(listed), TENANT_BATCH):
            batch = listed[start : start + TENANT_BATCH]
            commands = [("HMGET", names.tenant_key(name), *fields) for name in batch]
            replies = await self._client.call_many(commands)
            for name, reply in zip(batch, replies, strict=True):
                if reply[0] is not None:
                    found[name] = JournalPositions(*(int(value or 0) for value in reply))
        return found

    # Outbox

    async def due_owners(self, *, limit: int) -> list[str]:
        """Return owners with a delivery that is due, the longest due first."""
        found = await self._client.call(
            "ZRANGEBYSCORE", names.alerts_key("due"), "-inf", await self.now_ms(), "LIMIT", 0, limit
        )
        return [owner.decode() for owner in found]

    async def take(self, holder: str, owner: str, *, limit: int, claim_ms: int) -> list[TakenDelivery]:
        """Take deliveries of an owner that are due. One that is not settled within `claim_ms` is due again."""
        found = await self._run("take", owner, holder=holder, limit=limit, claim_ms=claim_ms)
        return [self._delivery(owner, *row) for row in found.get("deliveries", [])]

    async def settle(self, delivery: TakenDelivery, *, result: str, wait_ms: int | None) -> None:
        """End a delivery, or with `wait_ms` try it again after that time. `result` is a fixed label."""
        wait = {} if wait_ms is None else {"wait_ms": wait_ms}
        await self._run(
            "settle",
            delivery.owner,
            rule=delivery.rule,
            delivery=delivery.event_id,
            result=names.check_label(result),
            **wait,
        )

    def _delivery(self, owner: str, event_id: str, attempt: int, sealed: str) -> TakenDelivery:
        plain = self._master_key.unwrap(Purpose.ALERT, b64decode(sealed), bound_to=f"delivery/{owner}/{event_id}")
        if plain is None:
            return TakenDelivery(owner, "", event_id, b"", attempt)  # it has no rule, so it is dropped
        rule, _, body = plain.partition(b"\n")
        return TakenDelivery(owner, rule.decode(), event_id, body, attempt)

    async def _change(
        self,
        owner: str,
        rule: str,
        tenant: str,
        expected: str,
        after: RuleState,
        *,
        alerts: Sequence[Alert],
        deliveries: Iterable[NewDelivery] = (),
        **given: Any,
    ) -> int | None:
        rows = []
        for one in deliveries:
            plain = rule.encode() + b"\n" + one.body
            sealed = self._master_key.wrap(Purpose.ALERT, plain, bound_to=f"delivery/{owner}/{one.event_id}")
            rows.append([one.event_id, b64encode(sealed).decode()])
        found = await self._run(
            "change",
            owner,
            rule=rule,
            tenant=tenant,
            expected=expected,
            state=after.raw,
            alerts=[
                [one.member, orjson.dumps(one.block()).decode(), "open" if one.over_ms is None else "over"]
                for one in alerts
            ],
            deliveries=rows,
            outbox_max=self._limits.outbox_max,
            kept_max=self._limits.kept_max,
            **given,
        )
        return int(found["dropped"]) if found["outcome"] == "changed" else None

    async def _run(self, action: str, owner: str, **given: Any) -> dict[str, Any]:
        args: dict[str, Any] = {"action": action, "owner": names.check_owner(owner) if owner else "", **given}
        if self._clock:
            args["now_ms"] = self._clock()
        found, _ = await self._client.run("alert", key=names.ALERTS_KEY, args=args)
        return found


def new_alert_id() -> str:
    return secrets.token_hex(16)


def _ended(alert: Alert, now_ms: int) -> Alert:
    return Alert.parse({**alert.block(), "over_ms": now_ms})
