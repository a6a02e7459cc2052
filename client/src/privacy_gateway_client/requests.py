"""The models of requests: their members are those of the gateway's OpenAPI document, and a test compares them.

Only members that were given are sent, so the gateway's own defaults apply. The representation of a model shows no text.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Body(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        allow_inf_nan=False,
        hide_input_in_errors=True,
        populate_by_name=True,
        protected_namespaces=(),
        defer_build=True,
    )


class Target(Body):
    epsilon: float
    delta: float


class CalibrateRequest(Body):
    target: Target
    sampling_rate: float = 1.0
    steps: int | None = None
    noise_multiplier: float | None = None


class ColumnRule(Body):
    action: Literal["mask", "keep", "drop"] = "mask"
    type: str | None = None
    name: str | None = None
    index: int | None = None


class GaussianPlan(Body):
    kind: Literal["gaussian"]
    noise_multiplier: float
    adjacency: Literal["add-remove", "replace-one"] = "add-remove"


class SubsampledGaussianPlan(Body):
    kind: Literal["subsampled_gaussian"]
    sampling_rate: float
    noise_multiplier: float
    adjacency: Literal["add-remove", "replace-one"] = "add-remove"


class LaplacePlan(Body):
    kind: Literal["laplace"]
    epsilon: float
    adjacency: Literal["add-remove", "replace-one"] = "add-remove"


class PurePlan(Body):
    kind: Literal["pure"]
    epsilon: float
    adjacency: Literal["add-remove", "replace-one"] = "add-remove"


class CompareRequest(Body):
    mechanism: LaplacePlan | GaussianPlan | SubsampledGaussianPlan | PurePlan
    steps: int = 1
    delta: float


class CsvOptions(Body):
    columns: list[ColumnRule] = Field(default_factory=list)
    header: Literal["auto", "yes", "no"] = "auto"
    delimiter: Literal["auto", "comma", "semicolon", "tab", "pipe"] = "auto"


class Document(Body):
    id: str | None = None
    text: str | None = Field(None, repr=False)
    sentences: list[str] | None = Field(None, repr=False)
    embeddings: list[list[float]] | None = Field(None, repr=False)
    subject: str | None = None


class RecogniserBody(Body):
    entity: str = ""
    patterns: list[str] = Field(default_factory=list, repr=False)
    deny: list[str] = Field(default_factory=list, repr=False)
    allow: list[str] = Field(default_factory=list, repr=False)
    context: list[str] = Field(default_factory=list)
    score: float = 0.6
    case_sensitive: bool = False
    whole_words: bool = True


class DraftBody(Body):
    recogniser: RecogniserBody
    text: str = Field(repr=False)
    threshold: float | None = None


class EmailOptions(Body):
    attachments: Literal["refuse", "drop", "pass"] = "refuse"


class EmbeddingsRequest(Body):
    model: str
    input: str | list[str] | list[int] | list[list[int]] = Field(repr=False)
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = None
    user: str | None = None


class Fill(Body):
    mode: Literal["marker", "class_marker", "surrogate", "metric_dp", "top1", "topk", "dp"] = "class_marker"
    epsilon: float | None = None
    mechanism: Literal["exponential", "laplace"] | None = None
    k: int | None = None
    scope: Literal["slot", "document"] | None = None
    model: str | None = None
    consistency: Literal["document", "tenant"] | None = None


class PathRule(Body):
    action: Literal["mask", "keep", "drop"] = "mask"
    type: str | None = None
    path: str


class JsonOptions(Body):
    rules: list[PathRule] = Field(default_factory=list)
    lines: bool = False


class HtmlOptions(Body):
    scripts: Literal["mask", "drop", "refuse"] = "mask"
    comments: Literal["mask", "drop", "refuse"] = "mask"


class FormatOptions(Body):
    json_: JsonOptions = Field(default_factory=JsonOptions, alias="json")
    csv: CsvOptions = Field(default_factory=CsvOptions)
    html: HtmlOptions = Field(default_factory=HtmlOptions)
    email: EmailOptions = Field(default_factory=EmailOptions)


KeyRole = Literal["release", "read", "jobs", "admin"]


class KeyTerms(Body):
    roles: list[KeyRole] | None = None
    expires_s: int | None = None
    label: str = ""


class LimitBody(Body):
    epsilon: float
    delta: float = 0.0
    basic_delta: float | None = None


Thresholds = dict[str, float]


class Mask(Body):
    techniques: list[Literal["entity", "vocabulary", "allow_list", "all"]] = ["entity"]
    entities: list[str] | None = None
    profile: str | None = None
    recognisers: list[str] | None = None
    vocabulary_size: int = 10000
    allow_list: str = "general"
    thresholds: Thresholds | None = None
    language: str = "auto"
    unknown_language: Literal["patterns", "refuse"] = "patterns"


class ModelRequest(Body):
    model_config = ConfigDict(extra="allow")

    model: str


class CurrentLimit(Body):
    epsilon: float


class NewTenant(Body):
    epsilon: float
    delta: float = 0.0
    basic_delta: float | None = None
    name: str
    token: LimitBody | None = None
    sentence: LimitBody | None = None
    vector: LimitBody | None = None
    record: LimitBody | None = None
    plans: dict[str, float] = Field(default_factory=dict)
    subject_epsilon: float | None = None


class RestoreRequest(Body):
    texts: list[str] = Field(repr=False)
    restore_token: str = Field(repr=False)


class Rotation(Body):
    overlap_s: int
    expires_s: int | None = None


class SampleRequest(Body):
    rows: int | None = None
    format: Literal["jsonl", "csv"] = "jsonl"


class TextDocument(Body):
    id: str | None = None
    text: str = Field(repr=False)
    format: Literal["text", "json", "csv", "email", "markdown", "html", "log"] = "text"
    format_options: FormatOptions | None = None
    subject: str | None = None


class SanitizeRequest(Body):
    policy: str | None = None
    mask: Mask = Field(default_factory=Mask)
    fill: Fill = Field(default_factory=Fill)
    return_spans: bool = False
    dry_run: bool = False
    documents: list[TextDocument] = Field(repr=False)
    reversible: bool = False


class SentDPRequest(Body):
    documents: list[Document] = Field(repr=False)
    epsilon: float
    mechanism: Literal["sentence_codes", "clipped_cosine", "deep_candidate", "document_selection"] = "sentence_codes"
    domain: str = "general"
    subject: str | None = None
    segmentation: Literal["sentences", "words"] = "sentences"
    window_words: int = 12
    normalize: bool = False
    encoding_format: Literal["float", "base64"] = "float"


SubjectClass = Literal["tenant", "subject"]


Unit = Literal["token", "sentence", "vector", "record"]


class VectorRequest(Body):
    epsilon: float
    mechanism: Literal["privemb", "laplace", "privunit", "codebook"] | None = None
    dimension: int | None = None
    clip_norm: float | None = None
    projection: Literal["orthonormal", "gaussian", "identity", "pca"] | None = None
    strict: bool = True
    beta: float | None = None
    delta: float | None = None
    subject: str | None = None
    texts: list[str] | None = Field(None, repr=False)
    vectors: list[list[float]] | None = Field(None, repr=False)
    encoding_format: Literal["float", "base64"] = "float"
