"""The keyword arguments of the calls: the members of the requests that a caller may leave out.

A test compares them with the OpenAPI document. The gateway checks their values; the client has no model of a request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import TypedDict


class DocumentOptions(TypedDict, total=False):
    """Of `embed_documents`. `mechanism`, `domain` and the others: docs/concepts/sentence-privacy.md."""

    mechanism: str
    domain: str
    subject: str | None
    segmentation: str
    window_words: int
    normalize: bool


class VectorOptions(TypedDict, total=False):
    """Of `embed_texts` and `embed_vectors`: docs/reference/vectors.md."""

    mechanism: str | None
    dimension: int | None
    clip_norm: float | None
    projection: str | None
    strict: bool
    beta: float | None
    delta: float | None
    subject: str | None


class StreamOptions(TypedDict, total=False):
    """Of `sanitize_stream`: docs/reference/sanitize.md."""

    policy: str | None
    mask: Mapping[str, Any]
    fill: Mapping[str, Any]
    return_spans: bool
    dry_run: bool


class SanitizeOptions(StreamOptions, total=False):
    """Of `sanitize`: docs/reference/sanitize.md."""

    reversible: bool


class DomainOptions(TypedDict, total=False):
    source: str
    licence: str
    steps: int


class InfillOptions(TypedDict, total=False):
    policy: str | None
    mask: Mapping[str, Any]
    fill: Mapping[str, Any]
    rounds: int
    steps: int


class SynthesisOptions(TypedDict, total=False):
    """Of `synthesize`: docs/reference/synthesis.md."""

    outside: str
    subject: str | None
    design: str | None
    frequencies: int | None
    steps: int | None
    bins: int | None


class FinetuneOptions(TypedDict, total=False):
    """Of `finetune`: docs/reference/finetune.md."""

    pairs: bool
    method: str
    model: str
    sampling: str
    epochs: float | None
    steps: int | None
    rank: int
    pieces_max: int
    learning_rate: float | None
    weight_decay: float
    subject: str | None


class KeyOptions(TypedDict, total=False):
    roles: list[str] | None
    expires_s: int | None
    label: str


class TenantOptions(TypedDict, total=False):
    delta: float
    basic_delta: float | None
    token: Mapping[str, Any] | None
    sentence: Mapping[str, Any] | None
    vector: Mapping[str, Any] | None
    record: Mapping[str, Any] | None
    plans: dict[str, float]
    subject_epsilon: float | None
