"""The models of requests for jobs, and of their estimates; see `requests.py`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from privacy_gateway_client.requests import Body, Mask


class SynthesisEstimate(Body):
    name: str
    schema_: dict[str, Any] = Field(alias="schema")
    method: Literal["pearl", "marginals"]
    epsilon: float
    delta: float
    row_count: Literal["public", "protected"]
    outside: Literal["refuse", "clip"] = "refuse"
    subject: str | None = None
    design: Literal["low_order", "gaussian"] | None = None
    frequencies: int | None = None
    steps: int | None = None
    bins: int | None = None
    rows: list[dict[str, Any]] | None = Field(None, repr=False)


class FinetuneEstimate(Body):
    name: str
    labels: list[str]
    pairs: bool = False
    method: Literal["lora", "rgp", "full"] = "lora"
    model: str = "bundled"
    epsilon: float
    delta: float
    rows: int
    batch: int
    sampling: Literal["poisson", "random_allocation"] = "poisson"
    epochs: float | None = None
    steps: int | None = None
    rank: int = 8
    pieces_max: int = 128
    learning_rate: float | None = None
    weight_decay: float = 0.0
    subject: str | None = None
    private: list[dict[str, Any]] | None = Field(None, repr=False)
    public: list[dict[str, Any]] | None = Field(None, repr=False)


class CorpusRow(Body):
    text: str | None = Field(None, repr=False)
    sentences: list[str] | None = Field(None, repr=False)
    embeddings: list[list[float]] | None = Field(None, repr=False)
    label: str | None = None


class DomainJob(Body):
    name: str
    source: str = "not stated"
    licence: str = "not stated"
    steps: int = 600
    documents: list[CorpusRow] | None = Field(None, repr=False)
    embeddings: list[list[list[float]]] | None = Field(None, repr=False)


class InfillFill(Body):
    mode: Literal["topk", "top1"] = "topk"
    k: int | None = None


class TextRow(Body):
    text: str | None = Field(None, repr=False)
    sentences: list[str] | None = Field(None, repr=False)


class InfillJob(Body):
    name: str
    policy: str | None = None
    mask: Mask = Field(default_factory=Mask)
    fill: InfillFill = Field(default_factory=InfillFill)
    rounds: int = 1
    steps: int = 200
    documents: list[TextRow] = Field(repr=False)


class SynthesisJob(SynthesisEstimate):
    rows: list[dict[str, Any]] = Field(repr=False)


class LabelledRow(Body):
    text: str = Field(repr=False)
    text_pair: str | None = Field(None, repr=False)
    label: str


class FinetuneJob(FinetuneEstimate):
    private: list[LabelledRow] = Field(repr=False)  # type: ignore[assignment]
    public: list[LabelledRow] | None = Field(None, repr=False)  # type: ignore[assignment]
