"""The models of rules of alerts; see `requests.py`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from privacy_gateway_client.requests import Body


class BudgetUsed(Body):
    accounts: list[str] | None = None
    kind: Literal["budget_used"]
    share: float


class UnusualSpending(Body):
    kind: Literal["unusual_spending"]
    factor: float = 2.0
    epsilon: float = 0.0


class RunsOut(Body):
    accounts: list[str] | None = None
    kind: Literal["forecast"]
    days: float
    case: Literal["earliest", "middle", "latest"] = "middle"


class JobEnded(Body):
    kind: Literal["job_ended"]
    statuses: list[Literal["succeeded", "failed", "cancelled"]] = Field(["succeeded", "failed", "cancelled"])


class Integrity(Body):
    kind: Literal["integrity"]
    seal_age_s: int = 300


class SpentWithoutOutput(Body):
    kind: Literal["spent_without_output"]
    hours: int = 24
    epsilon: float = 0.0


class Webhook(Body):
    url: str
    new_secret: bool = False


class RuleBody(Body):
    when: BudgetUsed | UnusualSpending | RunsOut | JobEnded | Integrity | SpentWithoutOutput
    webhook: Webhook | None = None


class OperatorRuleBody(Body):
    when: BudgetUsed | UnusualSpending | RunsOut | JobEnded | Integrity | SpentWithoutOutput
    webhook: Webhook | None = None
    tenants: list[str] | None = None
