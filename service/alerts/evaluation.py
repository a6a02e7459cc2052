"""The rules in memory, and one round of evaluation: which conditions hold now, and which alerts fire or end.

A round reads only the rules of owners that have changed since the last one.

Guarantee: an alert is written with the new state of its rule in one step, so it fires once and ends once. A rule that
cannot be evaluated keeps its state, and the other rules are still evaluated.
"""

import asyncio
import logging
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
from pydantic import ValidationError

from core.errors import LedgerNotTrusted, LedgerUnavailable, UnknownName
from core.redis.names import SHARED_OWNER
from core.state.alerts import Alert, AlertStore, JournalPositions, NewDelivery, RuleState, new_alert_id
from service import metrics
from service.alerts.rules import KINDS_BY_NAME, Look, RuleKind, Sources, TenantView

log = logging.getLogger("privacy_gateway.alerts")


@dataclass(frozen=True)
class Rule:
    """A rule as the gateway uses it. `secret` is that of its webhook, and part of no `repr`.

    `tenants`: of a rule of the operator; None for all. `revision` differs after every change of the owner's rules.
    """

    owner: str
    name: str
    kind: RuleKind
    terms: Any
    url: str | None = field(repr=False)
    secret: str | None = field(repr=False)
    tenants: tuple[str, ...] | None
    revision: int = 0

    def content(self) -> dict[str, Any]:
        """What is stored."""
        return {
            "when": self.terms.model_dump(),
            "url": self.url,
            "secret": self.secret,
            "tenants": None if self.tenants is None else list(self.tenants),
        }


def parse_rule(owner: str, name: str, content: Mapping[str, Any], *, revision: int = 0) -> Rule:
    """Return a stored rule. Raises KeyError or ValidationError for one of a later version."""
    kind = KINDS_BY_NAME[content["when"]["kind"]]
    tenants = content["tenants"]
    return Rule(
        owner=owner,
        name=name,
        kind=kind,
        terms=kind.terms.model_validate(content["when"]),
        url=content["url"],
        secret=content["secret"],
        tenants=None if tenants is None else tuple(tenants),
        revision=revision,
    )


class RuleBook:
    """The rules of all owners, as of the last `refresh`."""

    def __init__(self, store: AlertStore) -> None:
        self._store = store
        self._version = 0
        self._rules: dict[str, dict[str, Rule]] = {}
        self._reading = asyncio.Lock()

    async def refresh(self) -> None:
        """Read the rules of owners that have changed. Raises LedgerUnavailable."""
        async with self._reading:
            version = await self._store.version()
            if version == self._version:
                return
            for owner in await self._store.owners_changed(self._version):
                found = await self._read(owner, version)
                self._rules.pop(owner, None)
                if found:
                    self._rules[owner] = found
            self._version = version

    def find(self, owner: str, name: str) -> Rule | None:
        return self._rules.get(owner, {}).get(name)

    def __iter__(self) -> Iterator[Rule]:
        for rules in list(self._rules.values()):
            yield from list(rules.values())

    async def _read(self, owner: str, version: int) -> dict[str, Rule]:
        found = {}
        for name in await self._store.rule_names(owner):
            try:
                found[name] = parse_rule(owner, name, await self._store.rule(owner, name), revision=version)
            except UnknownName:
                continue  # deleted since
            except (LedgerNotTrusted, KeyError, ValidationError) as error:  # of a later version, or changed in Redis
                log.warning("alert-rule-unreadable", extra={"fields": {"tenant": owner, "kind": type(error).__name__}})
        return found


_Key = tuple[str, str, str]


class Evaluator:
    """Evaluates the rules of a book for the gateway that holds the lease."""

    def __init__(self, store: AlertStore, book: RuleBook, sources: Sources, *, holder: str) -> None:
        self._store = store
        self._book = book
        self._sources = sources
        self._holder = holder
        self._stamps: dict[_Key, Hashable] = {}
        self._states: dict[_Key, RuleState] = {}

    def forget(self) -> None:
        """Read every state again: another gateway may have changed it."""
        self._stamps.clear()
        self._states.clear()

    async def round(self) -> int:
        """Evaluate what has changed. Returns how many rules were looked at. Raises LedgerUnavailable."""
        rules = list(self._book)
        if not rules:
            return 0
        now_ms = await self._store.now_ms()
        positions = await self._store.positions(_tenants(rules))
        views = {
            tenant: TenantView(self._sources, tenant, now_ms, positions.get(tenant, JournalPositions()))
            for tenant in (*positions, SHARED_OWNER)
        }
        self._sources.forecasts_left = self._sources.forecasts_max
        looked = 0
        for rule in rules:
            for tenant in _subjects(rule, positions):
                looked += await self._evaluate(rule, views[tenant])
        current = {(rule.owner, rule.name) for rule in rules}
        for cache in (self._stamps, self._states):
            for key in [key for key in cache if key[:2] not in current]:
                cache.pop(key, None)
        return looked

    async def _evaluate(self, rule: Rule, view: TenantView) -> bool:
        key = (rule.owner, rule.name, view.tenant)
        stamp = rule.kind.stamp(view)
        if stamp is not None and self._stamps.get(key) == (rule.revision, stamp):
            return False
        try:
            state = self._states.get(key)
            if state is None:
                state = self._states[key] = await self._store.state(*key)
            look = await rule.kind.look(rule.terms, view, state.memo)
            if look is None:
                return False
            if not await self._write(rule, view, state, look):
                return True
        except LedgerUnavailable:
            raise
        except Exception as error:  # one rule must not keep the others from being evaluated
            log.warning("alert-not-evaluated", extra={"fields": {"tenant": rule.owner, "kind": type(error).__name__}})
            return True
        self._stamps[key] = (rule.revision, stamp)
        return True

    async def _write(self, rule: Rule, view: TenantView, before: RuleState, look: Look) -> bool:
        """Write what has changed. Returns whether the state is now the one that was found."""
        found = {finding.target: finding for finding in look.findings}
        ended = [replace(alert, over_ms=view.now_ms) for target, alert in before.open.items() if target not in found]
        fired = [
            Alert(
                alert_id=new_alert_id(),
                rule=rule.name,
                kind=rule.kind.name,
                tenant=view.tenant if rule.kind.of_tenants else rule.owner,
                target=target,
                fired_ms=view.now_ms,
                over_ms=view.now_ms if finding.is_event else None,
                facts=finding.facts,
            )
            for target, finding in found.items()
            if target not in before.open
        ]
        still = {target: alert for target, alert in before.open.items() if target in found}
        still |= {alert.target: alert for alert in fired if alert.over_ms is None}
        after = RuleState.of(still, look.memo)
        if after.raw == before.raw:
            return True
        dropped = await self._store.change(
            self._holder,
            rule.owner,
            rule.name,
            view.tenant,
            before,
            after,
            alerts=[*ended, *fired],
            deliveries=[*_deliveries(rule, fired, "fired"), *_deliveries(rule, ended, "over")],
        )
        key = (rule.owner, rule.name, view.tenant)
        if dropped is None:
            self._states.pop(key, None)
            return False
        self._states[key] = after
        metrics.ALERTS_FIRED.labels(rule.kind.name).inc(len(fired))
        if dropped:
            metrics.ALERT_DELIVERIES.labels("dropped").inc(dropped)
            log.warning("alert-outbox-full", extra={"fields": {"tenant": rule.owner, "deliveries": dropped}})
        return True


def event_body(event: str, alert: Alert) -> bytes:
    """The body of a webhook: `alert.fired`, `alert.over` or `alert.sample`."""
    return orjson.dumps({"type": f"alert.{event}", "alert": alert.block()})


def _deliveries(rule: Rule, alerts: Iterable[Alert], event: str) -> list[NewDelivery]:
    return [NewDelivery(f"{alert.alert_id}.{event}", event_body(event, alert)) for alert in alerts if rule.url]


def _tenants(rules: Iterable[Rule]) -> set[str] | None:
    """The tenants that rules are about; None for all."""
    found: set[str] = set()
    for rule in rules:
        if not rule.kind.of_tenants:
            continue
        if rule.owner != SHARED_OWNER:
            found.add(rule.owner)
        elif rule.tenants is None:
            return None
        else:
            found.update(rule.tenants)
    return found


def _subjects(rule: Rule, positions: dict[str, JournalPositions]) -> Sequence[str]:
    """What a rule is evaluated for: tenants that exist, or SHARED_OWNER for the operator's own."""
    if not rule.kind.of_tenants:
        return (SHARED_OWNER,)
    if rule.owner != SHARED_OWNER:
        return (rule.owner,) if rule.owner in positions else ()
    if rule.tenants is not None:
        return [tenant for tenant in rule.tenants if tenant in positions]
    return [*positions, *((SHARED_OWNER,) if rule.kind.of_operator else ())]
