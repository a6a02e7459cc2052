# Written by `make client` from the gateway's OpenAPI document. Do not edit.

from __future__ import annotations

from typing import Any

from privacy_gateway_client.model import Answer


class AccountArm(Answer):
    """A rule that may admit a release, in its own unit."""

    name: str
    """The rule: `basic`, or an accountant."""
    order: float | None
    """The order of a Rényi divergence; null for other rules."""
    spent: float
    """What is committed or held."""
    limit: float
    """What it may reach."""
    spent_delta: float | None = None
    """The delta that is committed or held; of `basic` alone."""
    limit_delta: float | None = None
    """The delta that it may reach; of `basic` alone."""
    open: bool
    """Whether it can still admit a release."""


class AccountantLine(Answer):
    """What an account has spent, by one accountant."""

    name: str
    """The accountant: `basic`, `rdp` or `edgeworth`."""
    epsilon: float | None
    """The epsilon of all releases so far; null if this accountant has none."""
    delta: float | None
    """The delta at which epsilon is stated; null without a value."""
    kind: str
    """`bound`, `estimate`, `vacuous` or `no-unique-root`."""
    note: str | None = None
    """Why there is no value, or what it assumes; null if nothing is said."""


class BudgetAmount(Answer):
    """An amount of privacy budget."""

    epsilon: float
    """The epsilon, exact to 1e-9."""
    delta: float
    """The delta, exact to 1e-15."""


class CostLine(Answer):
    """What a request would cost one account."""

    account: str
    """The id of the account."""
    unit: str
    """Its unit."""
    cost: BudgetAmount
    """What the request would debit."""
    remaining: BudgetAmount
    """What the account has left."""
    remaining_after: BudgetAmount | None
    """What it would have left; null if it refuses the request."""
    allowed: bool
    """Whether the account admits the request."""
    fits: int | None
    """How many such requests fit; null if there is no number for it."""


class DeliveryResult(Answer):
    """The last delivery of an alert."""

    at_ms: int
    """When, in milliseconds since the epoch."""
    result: str
    """`delivered`, or why it was not, as a word."""


class FieldProblem(Answer):
    """What is wrong with a member of a request."""

    field: str
    """The member, by its path. An unknown one is named if it is at most 40 letters and underscores."""
    message: str | None = None
    """What is wrong; absent where `kind` says it."""
    kind: str | None = None
    """What is wrong, as a code of pydantic; absent where `message` says it."""
    permitted: list[str] | None = None
    """The members or values that there are; of an unknown one."""
    nearest: str | None = None
    """Of `permitted` the one within two letters of what was sent, if any."""


class KeyFacts(Answer):
    """An API key, without its secret."""

    key_id: str
    """The id, which the journal and the log of the operator show."""
    tenant: str
    """The tenant whose key it is."""
    label: str
    """The name that its creator gave."""
    purpose: str
    """What its releases are for, as its creator says."""
    recipient: str
    """Who receives its releases, as its creator says."""
    roles: list[str]
    """What it may do: of `admin`, `jobs`, `read` and `release`, sorted."""
    created_ms: int
    """When it was made, in milliseconds since the epoch."""
    expires_ms: int | None
    """When it ends by itself; null for never."""
    revoked_ms: int | None
    """When it was revoked; null if it was not."""
    last_used_ms: int | None
    """When it was last used, to a minute or so; null before."""


class KeySecret(Answer):
    """A new API key."""

    key_id: str
    """The id, which the journal and the log of the operator show."""
    tenant: str
    """The tenant whose key it is."""
    label: str
    """The name that its creator gave."""
    purpose: str
    """What its releases are for, as its creator says."""
    recipient: str
    """Who receives its releases, as its creator says."""
    roles: list[str]
    """What it may do: of `admin`, `jobs`, `read` and `release`, sorted."""
    created_ms: int
    """When it was made, in milliseconds since the epoch."""
    expires_ms: int | None
    """When it ends by itself; null for never."""
    revoked_ms: int | None
    """When it was revoked; null if it was not."""
    last_used_ms: int | None
    """When it was last used, to a minute or so; null before."""
    key: str
    """The key itself, which is shown once."""


class PlannedReleases(Answer):
    """The releases of a plan, as numbers of them."""

    limit: int
    """How many the plan certifies."""
    committed: int
    """How many were made."""
    reserved: int
    """How many are being made."""
    remaining: int
    """How many are left."""


class Prediction(Answer):
    """The answer for a text."""

    index: int
    """The place of the text in the request, from 0."""
    label: str
    """The label with the highest score."""
    scores: list[float]
    """The probability of each label by the model, in the order of `labels`."""


class RecogniserFacts(Answer):
    """The same with the numbers of its patterns and terms."""

    name: str
    """The name."""
    entity: str
    """The type of what it finds; empty for one that only allows terms."""
    score: float
    """The score of a find, in (0, 1]."""
    case_sensitive: bool
    """Whether the case of letters matters."""
    whole_words: bool
    """Whether only whole words are found."""
    updated_ms: int
    """When it was stored, in milliseconds since the epoch."""
    patterns: int
    """How many patterns."""
    deny: int
    """How many terms it finds."""
    allow: int
    """How many terms it does not find."""
    context: int
    """How many words of context."""


class RecogniserRow(Answer):
    """A recogniser of the tenant, with the numbers of its patterns and terms."""

    name: str
    """The name."""
    usable: bool
    """Whether its file can be used; if not, there is no other member."""
    entity: str | None = None
    """The type of what it finds."""
    score: float | None = None
    """The score of a find, in (0, 1]."""
    case_sensitive: bool | None = None
    """Whether the case of letters matters."""
    whole_words: bool | None = None
    """Whether only whole words are found."""
    patterns: int | None = None
    """How many patterns."""
    deny: int | None = None
    """How many terms it finds."""
    allow: int | None = None
    """How many terms it does not find."""
    context: int | None = None
    """How many words of context."""
    updated_ms: int | None = None
    """When it was stored, in milliseconds since the epoch."""


class RefusingArm(Answer):
    """What a rule of an account has left, and what the refused request needs of it."""

    name: str
    """The rule: `basic`, or an accountant."""
    order: float | None
    """The order of a Rényi divergence; null for other rules."""
    requested: float | None
    """What the request needs; null if the rule cannot price it."""
    remaining: float
    """What is left, in the unit of the rule."""
    remaining_delta: float | None = None
    """The delta that is left; of the rule `basic` alone."""


class RestoredText(Answer):
    """A text with its originals."""

    index: int
    """The place of the text in the request, from 0."""
    text: str
    """The text."""


class Routing(Answer):
    """The part of a price that pays for the choice of a domain."""

    epsilon: float
    """The part of epsilon."""


class RuleWebhook(Answer):
    """Where the alerts of a rule are posted."""

    url: str | None
    """The address."""
    secret: str | None = None
    """What signs the deliveries; shown once, when it is new."""


class SanitizeUsage(Answer):
    """What an answer is about, in numbers."""

    documents: int
    """How many documents."""
    masked_tokens: int | None = None
    """How many words were masked; absent with the fill `dp`."""
    tokens: int | None = None
    """How many words they have; absent with the fill `dp`."""


class StoredRecogniser(Answer):
    """The same with its patterns and terms."""

    name: str
    """The name."""
    entity: str
    """The type of what it finds; empty for one that only allows terms."""
    score: float
    """The score of a find, in (0, 1]."""
    case_sensitive: bool
    """Whether the case of letters matters."""
    whole_words: bool
    """Whether only whole words are found."""
    updated_ms: int
    """When it was stored, in milliseconds since the epoch."""
    patterns: list[str]
    """The patterns."""
    deny: list[str]
    """The terms that it finds."""
    allow: list[str]
    """The terms that it does not find."""
    context: list[str]
    """Words of context, which raise a score."""


class Suppressed(Answer):
    """A find that is not masked."""

    type: str
    """The type of what was found."""
    rule: str
    """Why it is not masked, as a word."""
    original_start: int
    """Its start in the text as sent, in code points."""
    original_end: int
    """Its end in the text as sent, exclusive."""
    score: float
    """Its score, in [0, 1]."""
    recogniser: str
    """What found it."""
    by: str | None = None
    """The list or recogniser that suppresses it; absent for other rules."""


class TableFault(Answer):
    """One kind of fault of a table's rows."""

    reason: str
    """What is wrong, as a fixed word."""
    column: str | None = None
    """The declared column."""
    position: int | None = None
    """The place of an unknown column in its row, from 1."""
    nearest: str | None = None
    """The declared column with a name like that of the unknown one."""
    permitted: str | None = None
    """What the column permits, from its declaration."""
    lines: list[int]
    """The first rows with it, at most five: lines, or rows of a JSON body, from 1."""
    count: int
    """How many rows have it."""


class TenantKey(Answer):
    """A new tenant and its first key."""

    tenant: str
    """The name of the tenant."""
    key: str
    """The key itself, which is shown once."""
    key_id: str
    """The id of the key."""


class TextSpan(Answer):
    """A find: a region of the sanitised text, and of the text as sent, in code points."""

    type: str
    """The type of what was found."""
    technique: str | None = None
    """The technique that found it; absent from a reversible answer."""
    start: int | None = None
    """Its start in the output; absent after a dry run."""
    end: int | None = None
    """Its end in the output, exclusive; absent after a dry run."""
    original_start: int | None = None
    """Its start in the text as sent; absent with a priced fill."""
    original_end: int | None = None
    """Its end in the text as sent; absent with a priced fill."""
    score: float | None = None
    """Its score, in [0, 1]; absent where there is none."""
    recogniser: str | None = None
    """What found it; absent where there is no recogniser."""


class Training(Answer):
    """The guarantee of a training."""

    guarantee: str
    """Always `approx-dp`."""
    unit: str
    """Always `record`: one row."""
    adjacency: str
    """Always `add-remove`."""
    epsilon: float
    """The certified epsilon."""
    delta: float
    """The delta."""


class AccountPlan(Answer):
    """The one release that an account with a plan admits."""

    mechanism: str
    """The mechanism."""
    epsilon: float
    """Its fixed epsilon."""
    releases: PlannedReleases
    """How many of them."""


class AlertRule(Answer):
    """A rule of alerts."""

    name: str
    """The name."""
    when: dict[str, Any]
    """When it fires, in the members of its kind."""
    webhook: RuleWebhook | None
    """Where its alerts go; null for nowhere but the list of alerts."""
    last_delivery: dict[str, DeliveryResult]
    """The last delivery to its `webhook`; empty before."""
    tenants: list[str] | None = None
    """Whom it watches, null for all; of the operator's rules."""


class PredictionPrivacy(Answer):
    """What a prediction guarantees."""

    guarantee: str
    """Always `none`: the texts of the request are not protected."""
    note: str
    """Why nothing is charged, in a sentence."""
    training: Training
    """The guarantee for the rows of the training."""


class Predictions(Answer):
    """What a classifier answers."""

    model: str
    """The name of the classifier."""
    labels: list[str]
    """Its labels, in the order of the scores."""
    data: list[Prediction]
    """A row for each text, in their order."""
    privacy: PredictionPrivacy
    """Why nothing is charged, and what the training guarantees."""
    budget: None
    """Always null: nothing is charged."""


class Privacy(Answer):
    """What an answer guarantees. The members from `adjacency` on are there where the mechanism has them."""

    guarantee: str
    """`pure-dp`, `approx-dp`, `metric-dp`, or `none` for what was only masked."""
    unit: str | None = None
    """What is protected: `token`, `sentence`, `document`, `vector` or `record`."""
    units: list[str] | None = None
    """The units whose accounts pay, and which the guarantee covers."""
    adjacency: str | None = None
    """Which inputs are neighbours, in words or as an account names it."""
    public: list[str] | None = None
    """The facts of the input that the guarantee does not cover."""
    epsilon: float | None = None
    """The price of one input; for `metric-dp` per unit of distance."""
    delta: float | None = None
    """The delta of one input."""
    epsilon_worst_case: float | None = None
    """The pure epsilon for any two inputs; of `metric-dp`."""
    per: str | None = None
    """What epsilon is per, where one input has several places."""
    mechanism: str | None = None
    """The mechanism that drew the output."""
    release_id: str | None = None
    """The release, as the journal names it; absent if nothing was charged."""
    note: str | None = None
    """What is left unprotected, in a sentence."""
    reused: int | None = None
    """How many inputs were answered by earlier releases, at no cost."""
    repeats: str | None = None
    """What a repeated input gets, by the setting of the operator."""
    routing: Routing | None = None
    """The choice of the domain, where the gateway makes it."""
    window_words: int | None = None
    """Words of a window; with the segmentation `words`."""
    clip_norm: float | None = None
    """The length to which longer vectors are clipped."""
    projection: str | None = None
    """The public projection before the noise."""
    dimension: int | None = None
    """The dimension in which the noise is drawn."""
    stretch: float | None = None
    """How much the projection may lengthen a vector."""
    strict: bool | None = None
    """Whether the form of `privemb` with a proof is used."""
    beta: float | None = None
    """A parameter of the request; of the paper's form of `privemb`."""
    epsilon_asked: float | None = None
    """The epsilon of the request, where `epsilon` is larger."""
    codebook: int | None = None
    """The number of entries of the public codebook."""
    neighbours: int | None = None
    """How many entries of the codebook make a vector."""
    candidates: int | None = None
    """The length of the public word list that is drawn from."""
    candidates_fingerprint: str | None = None
    """A digest of the public word list."""


class ProblemDocument(Answer):
    """An error (RFC 9457). It repeats no value of the request; docs/reference/problems.md lists the codes."""

    request_id: str | None = None
    """The X-Request-ID of the request; absent in the record of a job."""
    errors: list[FieldProblem] | None = None
    """What is wrong with which member, at most 20."""
    charged: bool | None = None
    """Whether the budget was charged; absent where the code says it."""
    released: bool | None = None
    """False: nothing was released. Absent where the code says it."""
    reason: str | None = None
    """A fixed word for what has failed; of some codes."""
    account: str | None = None
    """The account that refuses the request; of some codes."""
    requested: BudgetAmount | None = None
    """What the request needs; of `budget-exhausted`."""
    remaining: BudgetAmount | None = None
    """What the account has left; of `budget-exhausted`."""
    arms: list[RefusingArm] | None = None
    """What each rule has left; of `budget-exhausted`."""
    role: str | None = None
    """The role that the key lacks; of `role-missing`."""
    limit: str | None = None
    """The setting that was exceeded; null if there is no name for it."""
    row: int | None = None
    """The number of the row, from 0; of `bad-row`."""
    line: int | None = None
    """The number of the line, from 1; of jobs that failed."""
    count: int | None = None
    """How many there are; of jobs that failed."""
    faults: list[TableFault] | None = None
    """What is wrong with the rows of a table, at most 50 kinds; of a synthesis."""
    cause: str | None = None
    """The code of the cause; of `not-ready`."""
    workers: dict[str, Any] | None = None
    """The stage of each worker; of `not-ready`."""
    type: str
    """A link, relative to the gateway, to the page that explains the code."""
    code: str
    """The stable name of the error."""
    title: str
    """The error in a sentence, fixed for the code."""
    status: int | None = None
    """The HTTP status; absent in the record of a job."""
    detail: str | None = None
    """What is wrong in this case; absent if `title` says it."""


class SanitizedRow(Answer):
    """One sanitised document."""

    index: int
    """The place of the document in the request, from 0."""
    id: str | None = None
    """The id that the caller gave; absent for none."""
    language: str | None = None
    """The language in which it was read; absent where none is needed."""
    note: str | None = None
    """What may be missed in an unknown language."""
    text: str | None = None
    """The sanitised text; absent after a dry run."""
    spans: list[TextSpan] | None = None
    """The finds, where they were asked for."""
    suppressed: list[Suppressed] | None = None
    """The first finds that are not masked, where asked for."""
    suppressed_left_out: int | None = None
    """How many more there are."""
    masked_tokens: int | None = None
    """How many words were masked; absent with the fill `dp`."""
    tokens: int | None = None
    """How many words it has; absent with the fill `dp`."""
    release_id: str | None = None
    """The release of the document; of a stream with a priced fill."""
    reused_from: str | None = None
    """The earlier release that answers it; where releases are reused."""


class Account(Answer):
    """An account of the tenant, or of one of its subjects. `remaining` is what can still be released."""

    account: str
    """The id, `TENANT/UNIT`, with a digest of the subject behind it for a subject's."""
    unit: str
    """What one privacy unit is: `token`, `sentence`, `vector` or `record`."""
    adjacency: str
    """Which inputs are neighbours: `replace-one`, `add-remove` or `metric`."""
    kind: str
    """`filter`, or `plan` for one fixed release."""
    subject_hash: str | None = None
    """A digest of the subject's name; of a subject's account."""
    limit: BudgetAmount
    """The guarantee of everything that the account ever admits."""
    current_limit: BudgetAmount | None = None
    """What it may spend now, where that is less."""
    committed: BudgetAmount
    """The sum of what was charged."""
    reserved: BudgetAmount
    """The sum of what is held for releases in work."""
    remaining: BudgetAmount
    """What a release may still cost."""
    accountants: list[AccountantLine]
    """What was spent, by each accountant, `basic` first."""
    plan: AccountPlan | None = None
    """The plan; of the kind `plan`."""
    arms: list[AccountArm] | None = None
    """The rules; of an account with a delta and without a plan."""


class CostEstimate(Answer):
    """What a request would cost, and how often it fits. Nothing is charged or held."""

    privacy: Privacy
    """What the request would guarantee for each of its inputs."""
    allowed: bool
    """Whether every account admits the request."""
    fits: int | None
    """How many such requests fit; null if there is no number for it."""
    accounts: list[CostLine]
    """The accounts that would pay."""


class Job(Answer):
    """A job."""

    job_id: str
    """The id, random."""
    kind: str
    """`synthesis`, `finetune`, `domain`, `infill`, `release`, `batch` or `evaluation`."""
    label: str
    """The name that its creator gave."""
    status: str
    """`queued`, `running`, `paused`, or an end: `succeeded`, `failed` or `cancelled`."""
    progress: float
    """How much is done, from 0 to 1."""
    stage: str | None
    """What it does now, as a word; null before it runs."""
    attempts: int
    """How often its process was started."""
    cancel_requested: bool
    """Whether it will be cancelled."""
    created_ms: int
    """When it was created, in milliseconds since the epoch."""
    started_ms: int | None
    """When it was first started; null before."""
    ended_ms: int | None
    """When it ended; null before."""
    reserved: BudgetAmount
    """What is held for it."""
    spent: BudgetAmount
    """What was charged for it."""
    metrics: dict[str, Any] | None = None
    """Public figures of its training; absent before the first."""
    problem: ProblemDocument | None = None
    """Why it failed; of a failed one."""
    result: dict[str, Any] | None = None
    """What it made, by its kind; of one that succeeded, or of a batch."""


class StreamSummary(Answer):
    """The end of a stream of documents."""

    documents: int
    """How many lines have a row."""
    released: int
    """How many documents were sanitised."""
    failed: int
    """How many lines have a problem."""
    charged: int
    """How many documents were charged."""
    complete: bool
    """Whether the stream came to its end."""
    problem: ProblemDocument | None = None
    """What ended the stream early."""
    policy: str | None = None
    """The policy that was applied; absent for none."""
    dry_run: bool | None = None
    """True after a dry run, else absent."""
    privacy: Privacy
    """The guarantee of each document."""
    budget: Account | None
    """The account after the last charge; null before the first."""
    usage: SanitizeUsage
    """What was sanitised."""
