"""The models of answers, the results of charging calls, and the progress of jobs.

A member that a later gateway adds is kept in `model_extra`. A result may consist of several releases. Progress bars are
drawn by `rich` where it is installed, else there are none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from privacy_gateway_client.wire import Matrix


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


R = TypeVar("R")


@dataclass(frozen=True)
class Release:
    """One release: which inputs it covers and what it guarantees.

    budget: the account with the least remaining after it; None for what costs nothing or comes from the cache.
    replayed: the answer was bought before, by the same idempotency key.
    cached: the answer is from the cache.
    """

    inputs: tuple[int, ...]
    privacy: Privacy
    budget: Account | None = None
    idempotency_key: str | None = None
    replayed: bool = False
    cached: bool = False


@dataclass(frozen=True)
class Partial(Generic[R]):
    """What a call had received when one of its parts failed, as `error.partial`.

    indices: the inputs that `result` covers, in its order. They are paid; repeat the call with the others.
    result: as the call would have returned it; None if nothing had arrived.
    """

    indices: list[int]
    result: R | None


@dataclass(frozen=True)
class Embeddings:
    """Released vectors, in the order of the input.

    vectors: float32 (or float16) `[n, dimension]`; without NumPy a list of `array.array`.
    rows: what the answer says about each input beside its vector; empty for vectors of the caller.
    """

    vectors: Matrix = field(repr=False)
    dimension: int
    model: str | None
    rows: list[EmbeddingRow]
    releases: list[Release]

    @property
    def privacy(self) -> Privacy:
        """Of the first release. All releases of one call have the same guarantee for each of their inputs."""
        return self.releases[0].privacy

    @property
    def budget(self) -> Account | None:
        """The account of the last release that charged."""
        return _last_budget(self.releases)


@dataclass(frozen=True)
class Sanitized:
    """Sanitised documents, in the order of the input.

    restore_token: of a reversible call, for `restore`; it is the originals, encrypted for the gateway.
    """

    rows: list[SanitizedRow] = field(repr=False)
    releases: list[Release]
    restore_token: str | None = field(default=None, repr=False)
    restore_until: int | None = None
    policy: str | None = None

    @property
    def texts(self) -> list[str]:
        """The sanitised texts; empty ones after a dry run."""
        return [row.text or "" for row in self.rows]

    @property
    def privacy(self) -> Privacy:
        return self.releases[0].privacy

    @property
    def budget(self) -> Account | None:
        return _last_budget(self.releases)


def _last_budget(releases: list[Release]) -> Account | None:
    return next((release.budget for release in reversed(releases) if release.budget is not None), None)


# Takes each state of a job. A method `close`, if there is one, is called at the end.
Progress: TypeAlias = Callable[[Job], None]


def bar() -> Progress:
    """A bar on standard error."""
    draw, close = meter(100)

    def show(state: Job) -> None:
        draw(round(100 * state.progress), state.stage or state.status)

    show.close = close  # type: ignore[attr-defined]
    return show


def meter(total: int) -> tuple[Callable[[int, str], None], Callable[[], None]]:
    """How a bar of `total` steps is drawn and closed; silent without `rich`."""
    try:
        from rich.console import Console
        from rich.progress import Progress as Bars
    except ImportError:
        return silent, silent
    bars = Bars(console=Console(stderr=True), transient=True)
    task = bars.add_task("", total=total)
    bars.start()
    return lambda done, text: bars.update(task, completed=done, description=text), bars.stop


def silent(*_: Any) -> None:
    pass
