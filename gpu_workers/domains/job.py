"""The domain job: build a domain pack from a public corpus.

    survey -> encode, one encrypted shard at a time -> drop near-duplicates -> build_pack -> write

Guarantee: the job writes only vectors, weights, counts and the caller's names outside its encrypted folder, and no
text. A resumed attempt skips the finished shards.
"""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from core.files.encrypted_file import decrypt, encrypt
from core.job_errors import BadCorpus, JobFilesLost
from core.mechanisms.sentences.domain_pack import DomainPack
from gpu_workers.domains.card import domain_card
from gpu_workers.domains.public_text import Embedded, mean_by_document
from gpu_workers.domains.spec import DomainSpec, check_memory
from gpu_workers.jobs import corpus
from gpu_workers.jobs.messages import Charge, JobOrder, ReportProgress
from gpu_workers.jobs.targets import publish

FloatArray = npt.NDArray[np.float32]

# With fewer, the mechanisms have too few candidates to choose from. docs/operating/jobs.md has the measurement.
DOCUMENTS_MIN = 100
_SHARD_ROWS = 100
# Two documents whose means are this near are copies of each other except for a few words (see the same page). For an
# unknown encoder nothing was measured, and some encoders map all texts close together, so only exact copies count.
NEAR_DUPLICATE_COSINE = 0.98
COPY_COSINE = 0.9999
_BLOCK_ROWS = 1024
OWN_ENCODER = "caller"


class _Encoder(Protocol):
    name: str
    fingerprint: str

    def encode(self, sentences: list[str]) -> FloatArray: ...


@dataclass(frozen=True)
class _Source:
    """The source of the vectors: the gateway's encoder, or the caller's own (`encoder` None)."""

    encoder: _Encoder | None
    dimension: int | None

    def facts(self, dimension: int) -> tuple[str, str]:
        if self.encoder is not None:
            return self.encoder.name, self.encoder.fingerprint
        return OWN_ENCODER, hashlib.sha256(f"{OWN_ENCODER}-{dimension}".encode()).hexdigest()


def run(order: JobOrder, report: ReportProgress, _charge: Charge) -> dict[str, Any]:
    """Write the pack to every target. Returns counts and warnings. Raises JobFailed."""
    spec: DomainSpec = order.spec
    report("reading", 0.0)
    found = corpus.survey(
        corpus.corpus_lines(order.received()),
        documents_max=spec.documents_max,
        chars_max=spec.document_chars_max,
    )
    if len(found.chosen) < DOCUMENTS_MIN:
        raise _too_few(len(found.chosen))
    report("loading", 0.05)
    source = _source(spec, embeddings=found.embeddings)
    documents, short = _embedded(order, found, source, report)
    if len(documents.lengths) < DOCUMENTS_MIN:
        raise _too_few(len(documents.lengths))
    report("comparing", 0.7)
    public, near = without_near_duplicates(documents, COPY_COSINE if found.embeddings else NEAR_DUPLICATE_COSINE)
    if len(public.lengths) < DOCUMENTS_MIN:
        raise BadCorpus(
            f"Fewer than {DOCUMENTS_MIN} documents remain without near-duplicates.",
            reason="near-duplicates",
            count=len(public.lengths),
        )
    from gpu_workers.domains.build_pack import build_pack  # imports torch, which a rejected corpus does not need

    dimension = public.vectors.shape[1]
    encoder, fingerprint = source.facts(dimension)
    pack = build_pack(
        [public],
        name=spec.name,
        source=spec.source,
        licence=spec.licence,
        encoder=encoder,
        encoder_fingerprint=fingerprint,
        seed=spec.seed,
        progress=lambda stage, fraction: report(stage, 0.72 + 0.26 * fraction),
    )
    report("writing", 0.98)
    result = _result(spec, found, pack, public, short=short, near=near)
    publish(lambda path: _saved(pack, path), domain_card(pack.info, result), spec.targets)
    return result


def _too_few(count: int) -> BadCorpus:
    return BadCorpus(
        f"At least {DOCUMENTS_MIN} different documents of {corpus.SENTENCES_MIN} sentences or more are needed.",
        reason="too-few-documents",
        count=count,
    )


def _source(spec: DomainSpec, *, embeddings: bool) -> _Source:
    if embeddings:
        return _Source(None, None)
    from gpu_workers.jobs.device import job_device
    from gpu_workers.models.encoder import Encoder

    device = job_device(spec.device, spec.threads)
    encoder = Encoder(Path(spec.encoder_path) if spec.encoder_path else None, device=device)
    return _Source(encoder, encoder.dimension)


def _embedded(order: JobOrder, found: corpus.Survey, source: _Source, report: ReportProgress) -> tuple[Embedded, int]:
    """Return the chosen documents with enough sentences, and the number of those with too few. Every finished shard is
    stored encrypted."""
    spec: DomainSpec = order.spec
    shards = -(-len(found.chosen) // _SHARD_ROWS)
    parts: list[tuple[FloatArray, npt.NDArray[np.int64]]] = []
    short = sentences = 0
    dimension = source.dimension
    rest = corpus.chosen_lines(order.received(), found)
    for index in range(shards):
        rows = tuple(islice(rest, _SHARD_ROWS))
        label = f"shard-{index:06d}"
        shard = _kept_shard(order, label)
        if shard is None:
            shard = _encoded(rows, source, dimension, chars_max=spec.document_chars_max)
            encrypt(order.folder / label, order.key, label, _shard_bytes(*shard))
        vectors, lengths, left_out = shard
        if len(lengths):
            dimension = vectors.shape[1]
            check_memory(sentences=sentences + len(vectors), dimension=dimension, bytes_max=order.memory_bytes_max)
            sentences += len(vectors)
            parts.append((vectors.astype(np.float32), lengths))
        short += left_out
        report("encoding", min(0.7, 0.05 + 0.65 * (index + 1) / shards))
    if not parts:
        raise _too_few(0)
    return Embedded(
        vectors=np.concatenate([vectors for vectors, _ in parts]),
        lengths=np.concatenate([lengths for _, lengths in parts]),
        labels=[""] * sum(len(lengths) for _, lengths in parts),
    ), short


def _encoded(
    rows: tuple[tuple[int, bytes], ...], source: _Source, dimension: int | None, *, chars_max: int
) -> tuple[npt.NDArray[np.float16], npt.NDArray[np.int64], int]:
    """Return vectors `[rows, d]`, lengths `[n]` and the number of documents that were too short."""
    texts: list[str] = []
    matrices: list[FloatArray] = []
    lengths: list[int] = []
    for number, line in rows:
        form, content = corpus.parse(line, number, chars_max=chars_max)
        if source.encoder is None:
            matrix = corpus.vectors(content, number, dimension=dimension)
            dimension = matrix.shape[1]
            if len(matrix) >= corpus.SENTENCES_MIN:
                matrices.append(matrix)
                lengths.append(len(matrix))
        else:
            sentences = corpus.units(form, content)
            if len(sentences) >= corpus.SENTENCES_MIN:
                texts += sentences
                lengths.append(len(sentences))
    if not lengths:
        vectors = np.zeros((0, dimension or 0), dtype=np.float32)
    else:
        vectors = np.concatenate(matrices) if source.encoder is None else source.encoder.encode(texts)
    return vectors.astype(np.float16), np.array(lengths, dtype=np.int64), len(rows) - len(lengths)


def _shard_bytes(vectors: npt.NDArray[np.float16], lengths: npt.NDArray[np.int64], left_out: int) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, vectors=vectors, lengths=lengths, left_out=np.int64(left_out))
    return buffer.getvalue()


def _kept_shard(order: JobOrder, label: str) -> tuple[npt.NDArray[np.float16], npt.NDArray[np.int64], int] | None:
    """Return a finished shard of an earlier attempt, or None if there is none. Raises JobFilesLost if it was
    modified."""
    path = order.folder / label
    if not path.exists():
        return None
    try:
        with np.load(io.BytesIO(decrypt(path, order.key, label)), allow_pickle=False) as stored:
            return stored["vectors"], stored["lengths"], int(stored["left_out"])
    except (ValueError, KeyError):
        raise JobFilesLost from None


def without_near_duplicates(documents: Embedded, cosine: float) -> tuple[Embedded, int]:
    """Drop each document whose mean has a cosine above `cosine` with an earlier one. Return the rest and the number of
    dropped ones."""
    means = mean_by_document(documents.vectors, documents.lengths)
    means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
    fresh = np.ones(len(means), dtype=np.bool_)
    for start in range(0, len(means), _BLOCK_ROWS):
        block = means[start : start + _BLOCK_ROWS]
        near = block @ means[: start + len(block)].T > cosine
        near &= np.arange(near.shape[1])[None, :] < np.arange(start, start + len(block))[:, None]
        fresh[start : start + len(block)] = ~near.any(axis=1)
    parts = [document for document, kept in zip(documents.documents(), fresh, strict=True) if kept]
    kept = Embedded(np.concatenate(parts), documents.lengths[fresh], [""] * len(parts))
    return kept, int((~fresh).sum())


def _result(
    spec: DomainSpec, found: corpus.Survey, pack: DomainPack, public: Embedded, *, short: int, near: int
) -> dict[str, Any]:
    used = len(public.lengths)
    return {
        "domain": spec.name,
        "encoder": pack.info.encoder,
        "dimension": pack.info.dimension,
        "rows": found.rows,
        "documents": used,
        "sentences": int(public.lengths.sum()),
        "candidates": pack.info.candidates,
        "warnings": corpus.left_out(found, {"short-documents": short, "near-duplicates": near}),
    }


def _saved(pack: DomainPack, path: Path) -> None:
    pack.save(path)
    DomainPack.load(path)
