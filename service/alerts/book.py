"""Every rule in memory. A round reads only the rules of owners that have changed since the last one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from core.alert_errors import UnknownAlertRule
from core.errors import LedgerNotTrusted
from core.ledger.alerts import AlertStore
from service.alerts.rules import KINDS_BY_NAME, Kind

log = logging.getLogger("privacy_gateway.alerts")


@dataclass(frozen=True)
class Rule:
    """A rule as the gateway uses it. `secret` is that of its webhook, and part of no `repr`.

    `tenants`: of a rule of the operator; None for all. `revision` differs after every change of the owner's rules.
    """

    owner: str
    name: str
    kind: Kind
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
            except UnknownAlertRule:
                continue  # deleted since
            except (LedgerNotTrusted, KeyError, ValidationError) as error:  # of a later version, or changed in Redis
                log.warning("alert-rule-unreadable", extra={"fields": {"tenant": owner, "kind": type(error).__name__}})
        return found
