"""What a caller may set: the settings of a client, and the keyword arguments of its calls.

The arguments of a call are the members of its request that a caller may leave out. A test compares them with the
OpenAPI document. The gateway checks their values; the client has no model of a request.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx
from typing_extensions import TypedDict

from privacy_gateway_client.cache import Cache

_USER_AGENT = "privacy-gateway-client"
# longer than the gateway works on a request (REQUEST_TIMEOUT_S), since an early end would only repeat it
_TIMEOUT = httpx.Timeout(30.0, read=120.0)


@dataclass(frozen=True)
class Retry:
    """When a call is sent again.

    attempts: how often a request is sent, at most. Waiting for a request that is in work does not count.
    seconds_max: no attempt starts later than this after the first, in seconds.
    first_s, longest_s: the pauses double from `first_s` to `longest_s`, with jitter. `Retry-After` replaces them.
    """

    attempts: int = 8
    seconds_max: float = 300.0
    first_s: float = 0.5
    longest_s: float = 10.0

    def pause_s(self, number: int, retry_after_s: float | None) -> float:
        """The pause after the attempt with this number, which counts from 0."""
        if retry_after_s is not None:
            return retry_after_s
        longest = min(self.first_s * 2.0 ** min(number, 16), self.longest_s)
        return longest * (0.5 + random.random() / 2)  # noqa: S311 - spreads clients over time, protects nothing


@dataclass(frozen=True)
class Limits:
    """What one request may hold. Larger inputs are sent as several requests.

    The defaults are those of the gateway (docs/reference/settings.md).

    documents: of `embed_documents` and `sanitize` (DOCUMENTS_MAX).
    vector_texts, vectors, codebook_vectors: of one call of `/embed/vector`.
    body_bytes: of a JSON body (BODY_BYTES_MAX).
    vectors_bytes: of a file of vectors (VECTORS_BYTES_MAX).
    stored_bytes: of an answer that the gateway keeps for a repetition (RESPONSE_STORED_BYTES_MAX). The client sends
        vectors in parts whose answers are smaller, so that a lost answer can always be fetched again.
    job_json_bytes, job_json_rows: of a job as JSON; larger ones are sent as JSON lines.
    stream_documents, stream_bytes: of one stream of documents; the client sends several streams, one after another.
    concurrency: requests of one call at the same time (LARGE_REQUESTS_PER_TENANT_MAX).
    """

    documents: int = 256
    vector_texts: int = 2048
    vectors: int = 100_000
    codebook_vectors: int = 8192
    body_bytes: int = 8 << 20
    vectors_bytes: int = 256 << 20
    stored_bytes: int = 8 << 20
    job_json_bytes: int = 64 << 20
    job_json_rows: int = 100_000
    stream_documents: int = 64
    stream_bytes: int = 256 << 10
    concurrency: int = 4


class Settings(TypedDict, total=False):
    """The settings of a client, all optional.

    retry: when a call is repeated. limits: what one request may hold. cache: of paid answers.
    tenant: the tenant's name, for the cache; asked from the gateway if it is not given.
    timeout: of httpx; the time without an answer must exceed the gateway's REQUEST_TIMEOUT_S.
    transport, async_transport: of httpx, for tests and own connections. verify: of httpx, for TLS.
    """

    retry: Retry
    limits: Limits
    cache: Cache | None
    tenant: str | None
    timeout: httpx.Timeout | float
    transport: httpx.BaseTransport
    async_transport: httpx.AsyncBaseTransport
    verify: Any


def http_options(base_url: str, api_key: str, settings: Settings) -> dict[str, Any]:
    """The arguments of httpx's client."""
    concurrency = settings.get("limits", Limits()).concurrency
    return {
        "base_url": base_url,
        "headers": {"Authorization": f"Bearer {api_key}", "User-Agent": _USER_AGENT},
        "timeout": settings.get("timeout", _TIMEOUT),
        "verify": settings.get("verify", True),
        "limits": httpx.Limits(max_connections=max(100, concurrency)),
        "follow_redirects": False,  # a redirect would carry the texts to another address
    }


class DocumentOptions(TypedDict, total=False):
    """The options of `embed_documents`; docs/concepts/sentence-privacy.md describes them."""

    mechanism: str
    domain: str
    subject: str | None
    segmentation: str
    window_words: int
    normalize: bool


class VectorOptions(TypedDict, total=False):
    """The options of `embed_texts` and `embed_vectors`; docs/reference/vectors.md describes them."""

    mechanism: str | None
    dimension: int | None
    clip_norm: float | None
    projection: str | None
    strict: bool
    beta: float | None
    delta: float | None
    subject: str | None


class StreamOptions(TypedDict, total=False):
    """The options of `sanitize_stream`; docs/reference/sanitize.md describes them."""

    policy: str | None
    mask: Mapping[str, Any]
    fill: Mapping[str, Any]
    return_spans: bool
    dry_run: bool


class SanitizeOptions(StreamOptions, total=False):
    """The options of `sanitize`; docs/reference/sanitize.md describes them."""

    reversible: bool


class DomainOptions(TypedDict, total=False):
    """The options of `build_domain`."""

    source: str
    licence: str
    steps: int


class InfillOptions(TypedDict, total=False):
    """The options of `tune_infill`."""

    policy: str | None
    mask: Mapping[str, Any]
    fill: Mapping[str, Any]
    rounds: int
    steps: int


class SynthesisOptions(TypedDict, total=False):
    """The options of `synthesize`; docs/reference/synthesis.md describes them."""

    outside: str
    subject: str | None
    design: str | None
    frequencies: int | None
    steps: int | None
    bins: int | None


class FinetuneOptions(TypedDict, total=False):
    """The options of `finetune`; docs/reference/finetune.md describes them."""

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
    """The options of the calls that make an API key."""

    roles: list[str] | None
    expires_s: int | None
    label: str


class TenantOptions(TypedDict, total=False):
    """The options of `create_tenant`."""

    delta: float
    basic_delta: float | None
    token: Mapping[str, Any] | None
    sentence: Mapping[str, Any] | None
    vector: Mapping[str, Any] | None
    record: Mapping[str, Any] | None
    plans: dict[str, float]
    subject_epsilon: float | None
