"""What one request may hold. The defaults are those of the gateway (docs/reference/settings.md)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits of a gateway. Larger inputs are sent as several requests.

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
