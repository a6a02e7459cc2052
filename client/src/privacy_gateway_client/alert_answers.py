"""The models of alerts and of entries of the vault; see `answers.py`."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from privacy_gateway_client.answers import Answer


class Delivery(Answer):
    """`result`: `delivered`, or why it was not."""

    at_ms: int
    result: str


class RuleWebhook(Answer):
    """`secret` is shown once, by the answer that made it."""

    url: str
    secret: str | None = Field(None, repr=False)


class AlertRule(Answer):
    """A rule. `when`: its members as they were stored. `last_delivery`: of `webhook`. `tenants`: of the operator's."""

    name: str
    when: dict[str, Any]
    webhook: RuleWebhook | None = None
    last_delivery: dict[str, Delivery]
    tenants: list[str] | None = None


class Alert(Answer):
    """An alert that fired. `target`: an account, a job or `ledger`. `facts`: numbers and fixed words."""

    id: str
    rule: str
    kind: str
    tenant: str | None = None
    target: str
    status: str
    fired_ms: int
    over_ms: int | None = None
    facts: dict[str, Any]


class VaultEntry(Answer):
    id: str
    bytes: int
    expires_ms: int
