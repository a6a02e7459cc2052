"""Alerts of a tenant and, with the admin key, of the operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privacy_gateway_client.alert_answers import Alert, AlertRule
from privacy_gateway_client.alert_requests import OperatorRuleBody, RuleBody
from privacy_gateway_client.core import Core
from privacy_gateway_client.effects import Op, Outgoing
from privacy_gateway_client.exchange import (
    JSON_TYPE,
    body_of,
    call,
    get,
    parsed,
    parsed_json,
    post,
    validated,
    validated_answer,
)
from privacy_gateway_client.operations.catalogue import delete
from privacy_gateway_client.operations.paging import pages
from privacy_gateway_client.requests import Body

OWN, OPERATOR = "/alerts", "/admin/alerts"


def fired(core: Core, *, status: str | None = None, limit: int | None = None) -> Op[None]:
    """The alerts that fired, newest first."""
    yield from pages(core, OWN, "alerts", Alert, status=status, limit=limit)


def rules(core: Core) -> Op[list[AlertRule]]:
    """The rules of the tenant's alerts. The API key needs the role `admin`, as for the calls below."""
    return (yield from _rules(core, OWN))


def rule(core: Core, name: str) -> Op[AlertRule]:
    """One rule, and its last delivery."""
    return (yield from _rule(core, get(f"{OWN}/rules/{name}")))


def put_rule(core: Core, name: str, rule: RuleBody | Mapping[str, Any]) -> Op[AlertRule]:
    """Store a rule. The answer shows the secret of a new webhook once."""
    return (yield from _put(core, OWN, name, validated(RuleBody, rule)))


def delete_rule(core: Core, name: str) -> Op[None]:
    yield from delete(core, f"{OWN}/rules/{name}")


def send_sample(core: Core, name: str) -> Op[dict[str, str]]:
    """Send a sample to the receivers of a rule: the result of each channel."""
    return (yield from _sample(core, post(f"{OWN}/rules/{name}/test", None, repeatable=False)))


def operator_fired(core: Core, *, status: str | None = None, limit: int | None = None) -> Op[None]:
    """The alerts of the operator's rules that fired, newest first."""
    yield from pages(core, OPERATOR, "alerts", Alert, status=status, limit=limit)


def operator_rules(core: Core) -> Op[list[AlertRule]]:
    """The operator's rules."""
    return (yield from _rules(core, OPERATOR))


def operator_rule(core: Core, name: str) -> Op[AlertRule]:
    """One rule of the operator, and its last delivery."""
    return (yield from _rule(core, get(f"{OPERATOR}/rules/{name}")))


def put_operator_rule(core: Core, name: str, rule: OperatorRuleBody | Mapping[str, Any]) -> Op[AlertRule]:
    """Store a rule of the operator. The answer shows the secret of a new webhook once."""
    return (yield from _put(core, OPERATOR, name, validated(OperatorRuleBody, rule)))


def delete_operator_rule(core: Core, name: str) -> Op[None]:
    yield from delete(core, f"{OPERATOR}/rules/{name}")


def send_operator_sample(core: Core, name: str) -> Op[dict[str, str]]:
    """Send a sample to the receivers of a rule of the operator: the result of each channel."""
    return (yield from _sample(core, post(f"{OPERATOR}/rules/{name}/test", None, repeatable=False)))


def _rules(core: Core, path: str) -> Op[list[AlertRule]]:
    answer = yield from call(core.retry, get(f"{path}/rules"))
    return [validated_answer(AlertRule, row) for row in parsed_json(answer.content)["rules"]]


def _put(core: Core, path: str, name: str, rule: Body) -> Op[AlertRule]:
    headers = {"Content-Type": JSON_TYPE}
    request = Outgoing("PUT", f"{path}/rules/{name}", headers=headers, content=body_of(rule), repeatable=False)
    return (yield from _rule(core, request))


def _rule(core: Core, request: Outgoing) -> Op[AlertRule]:
    answer = yield from call(core.retry, request)
    return parsed(AlertRule, answer.content)


def _sample(core: Core, request: Outgoing) -> Op[dict[str, str]]:
    answer = yield from call(core.retry, request)
    results: dict[str, str] = parsed_json(answer.content)
    return results
