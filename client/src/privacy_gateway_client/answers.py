"""The models of answers. A member that a later gateway adds is kept in `model_extra`."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Answer(BaseModel):
    model_config = ConfigDict(extra="allow", protected_namespaces=(), hide_input_in_errors=True, defer_build=True)


class Cost(Answer):
    epsilon: float
    delta: float = 0.0


class Privacy(Answer):
    """What an answer guarantees. `guarantee` is `none` for what was only masked; further members: the mechanism's."""

    guarantee: str
    unit: str | None = None
    units: list[str] = Field(default_factory=list)
    adjacency: str | None = None
    public: list[str] = Field(default_factory=list)
    epsilon: float | None = None
    delta: float | None = None
    epsilon_worst_case: float | None = None
    per: str | None = None
    mechanism: str | None = None
    release_id: str | None = None
    note: str | None = None


class Account(Answer):
    """An account of the tenant, or of one of its subjects."""

    account: str
    unit: str
    adjacency: str
    kind: str
    subject_hash: str | None = None
    limit: Cost
    current_limit: Cost | None = None
    committed: Cost
    reserved: Cost
    remaining: Cost
    accountants: list[dict[str, Any]] = Field(default_factory=list)
    arms: list[dict[str, Any]] | None = None
    plan: dict[str, Any] | None = None


class EstimateLine(Answer):
    account: str
    unit: str
    cost: Cost
    remaining: Cost
    remaining_after: Cost | None = None
    allowed: bool
    fits: int | None = None


class Estimate(Answer):
    """What a request would cost, and how often it fits."""

    privacy: Privacy
    allowed: bool
    fits: int | None = None
    accounts: list[EstimateLine]


class Span(Answer):
    """A region of the sanitised text, and of the original, in code points."""

    type: str
    technique: str | None = None
    start: int | None = None
    end: int | None = None
    original_start: int | None = None
    original_end: int | None = None
    score: float | None = None
    recogniser: str | None = None


class Suppressed(Answer):
    type: str
    rule: str
    original_start: int
    original_end: int
    score: float
    recogniser: str
    by: str | None = None


class SanitizedRow(Answer):
    """One document. `text` is None after a dry run."""

    index: int
    id: str | None = None
    language: str | None = None
    note: str | None = None
    text: str | None = Field(None, repr=False)
    spans: list[Span] | None = None
    suppressed: list[Suppressed] | None = None
    suppressed_left_out: int | None = None
    masked_tokens: int | None = None
    tokens: int | None = None
    release_id: str | None = None


class RestoredRow(Answer):
    text: str


class StreamSummary(Answer):
    documents: int
    released: int
    failed: int
    charged: int
    complete: bool
    problem: dict[str, Any] | None = None
    privacy: Privacy | None = None
    budget: Account | None = None
    usage: dict[str, int] | None = None


class EmbeddingRow(Answer):
    """What an answer says about a document or text, beside its vector."""

    index: int
    id: str | None = None
    space: str | None = None
    domain: str | None = None
    sentences: int | None = None
    windows: int | None = None
    utility: str | None = None


class Job(Answer):
    """A job. `problem` of a failed one, `result` of one that succeeded, `metrics` while it trains."""

    job_id: str
    kind: str
    label: str
    status: str
    progress: float
    stage: str | None = None
    attempts: int
    cancel_requested: bool
    created_ms: int
    started_ms: int | None = None
    ended_ms: int | None = None
    reserved: Cost
    spent: Cost
    metrics: dict[str, Any] | None = None
    problem: dict[str, Any] | None = None
    result: dict[str, Any] | None = None

    @property
    def ended(self) -> bool:
        return self.status in ("succeeded", "failed", "cancelled")


class Recogniser(Answer):
    """A recogniser of the tenant. A list names its parts by their numbers only."""

    name: str
    entity: str
    score: float
    case_sensitive: bool
    whole_words: bool
    patterns: list[str] | int = Field(repr=False)
    deny: list[str] | int = Field(repr=False)
    allow: list[str] | int = Field(repr=False)
    context: list[str] | int = Field(repr=False)
    updated_ms: int


class ApiKey(Answer):
    """An API key of a tenant. `key` is shown once, by the answer that made it."""

    key_id: str
    key: str | None = Field(None, repr=False)
    tenant: str | None = None
    label: str | None = None
    roles: list[str] | None = None
    created_ms: int | None = None
    expires_ms: int | None = None
    revoked_ms: int | None = None
    last_used_ms: int | None = None


class NewTenantAnswer(Answer):
    tenant: str | None = None
    key: str = Field(repr=False)


class Delivery(Answer):
    """A delivery of an alert. `result`: `delivered`, or why it was not."""

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
