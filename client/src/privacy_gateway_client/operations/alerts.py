"""Alerts of a tenant and, with the admin key, of the operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from privacy_gateway_client.answers import Answer
from privacy_gateway_client.core import Core
from privacy_gateway_client.effects import Op
from privacy_gateway_client.exchange import get, post, put
from privacy_gateway_client.operations.catalogue import delete
from privacy_gateway_client.operations.reading import fetched, fetched_json, pages, rows


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


def fired(core: Core, *, status: str | None = None, limit: int | None = None) -> Op[None]:
    """The alerts that fired, newest first."""
    yield from pages(core, core.alerts, "alerts", None, status=status, limit=limit)


def rules(core: Core) -> Op[list[AlertRule]]:
    """The rules. The API key needs the role `admin`, as for the calls below."""
    return (yield from rows(core, get(f"{core.alerts}/rules"), "rules", AlertRule))


def rule(core: Core, name: str) -> Op[AlertRule]:
    """One rule, and its last delivery."""
    return (yield from fetched(core, AlertRule, get(f"{core.alerts}/rules/{name}")))


def put_rule(core: Core, name: str, rule: Mapping[str, Any]) -> Op[AlertRule]:
    """Store a rule. The answer shows the secret of a new webhook once."""
    return (yield from fetched(core, AlertRule, put(f"{core.alerts}/rules/{name}", rule, repeatable=False)))


def delete_rule(core: Core, name: str) -> Op[None]:
    yield from delete(core, f"{core.alerts}/rules/{name}")


def send_sample(core: Core, name: str) -> Op[dict[str, str]]:
    """Send a sample to the receivers of a rule: the result of each channel."""
    return (yield from fetched_json(core, post(f"{core.alerts}/rules/{name}/test", repeatable=False)))
