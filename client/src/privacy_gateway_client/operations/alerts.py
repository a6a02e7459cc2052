"""Alerts of a tenant and, with the admin key, of the operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privacy_gateway_client.alert_requests import OperatorRuleBody, RuleBody
from privacy_gateway_client.core import Core
from privacy_gateway_client.effects import Op, Outgoing
from privacy_gateway_client.exchange import JSON_TYPE, body_of, call, get, parsed_json, post, validated
from privacy_gateway_client.operations.catalogue import delete
from privacy_gateway_client.operations.paging import rows_of_pages
from privacy_gateway_client.requests import Body

Answer = dict[str, Any]
OWN, OPERATOR = "/alerts", "/admin/alerts"


def fired(core: Core, *, status: str | None = None, limit: int | None = None) -> Op[None]:
    """The alerts that fired, newest first."""
    yield from rows_of_pages(core, OWN, "alerts", status=status, limit=limit)


def rules(core: Core) -> Op[list[Answer]]:
    """The rules of the tenant's alerts. The API key needs the role `admin`, as for the calls below."""
    return (yield from _rules(core, OWN))


def rule(core: Core, name: str) -> Op[Answer]:
    """One rule, and its last delivery."""
    return (yield from _json(core, get(f"{OWN}/rules/{name}")))


def put_rule(core: Core, name: str, rule: RuleBody | Mapping[str, Any]) -> Op[Answer]:
    """Store a rule. The answer shows the secret of a new webhook once."""
    return (yield from _put(core, OWN, name, validated(RuleBody, rule)))


def delete_rule(core: Core, name: str) -> Op[None]:
    yield from delete(core, f"{OWN}/rules/{name}")


def send_sample(core: Core, name: str) -> Op[Answer]:
    """Send a sample to the receivers of a rule."""
    return (yield from _json(core, post(f"{OWN}/rules/{name}/test", None, repeatable=False)))


def operator_fired(core: Core, *, status: str | None = None, limit: int | None = None) -> Op[None]:
    """The alerts of the operator's rules that fired, newest first."""
    yield from rows_of_pages(core, OPERATOR, "alerts", status=status, limit=limit)


def operator_rules(core: Core) -> Op[list[Answer]]:
    """The operator's rules."""
    return (yield from _rules(core, OPERATOR))


def operator_rule(core: Core, name: str) -> Op[Answer]:
    """One rule of the operator, and its last delivery."""
    return (yield from _json(core, get(f"{OPERATOR}/rules/{name}")))


def put_operator_rule(core: Core, name: str, rule: OperatorRuleBody | Mapping[str, Any]) -> Op[Answer]:
    """Store a rule of the operator. The answer shows the secret of a new webhook once."""
    return (yield from _put(core, OPERATOR, name, validated(OperatorRuleBody, rule)))


def delete_operator_rule(core: Core, name: str) -> Op[None]:
    yield from delete(core, f"{OPERATOR}/rules/{name}")


def send_operator_sample(core: Core, name: str) -> Op[Answer]:
    """Send a sample to the receivers of a rule of the operator."""
    return (yield from _json(core, post(f"{OPERATOR}/rules/{name}/test", None, repeatable=False)))


def _rules(core: Core, path: str) -> Op[list[Answer]]:
    answer = yield from _json(core, get(f"{path}/rules"))
    rows: list[Answer] = answer["rules"]
    return rows


def _put(core: Core, path: str, name: str, rule: Body) -> Op[Answer]:
    headers = {"Content-Type": JSON_TYPE}
    request = Outgoing("PUT", f"{path}/rules/{name}", headers=headers, content=body_of(rule), repeatable=False)
    return (yield from _json(core, request))


def _json(core: Core, request: Outgoing) -> Op[Answer]:
    answer = yield from call(core.retry, request)
    members: Answer = parsed_json(answer.content)
    return members
