"""The domain job: build a domain pack from a public corpus.

    survey -> encode, one encrypted shard at a time -> drop near-duplicates -> build_pack -> write

Guarantee: the job writes only vectors, weights, counts and the caller's names outside its encrypted folder, and no
text, also none of a label. A resumed attempt skips the finished shards.
"""

from __future__ import annotations

import hashlib
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import orjson

from core.errors import BadCorpus
from core.mechanisms.sentences.domain_pack import DomainPack, DomainPackInfo
from gpu_workers.domains.spec import DomainSpec, Embedded, check_memory, mean_by_document
from gpu_workers.jobs import corpus
from gpu_workers.jobs.protocol import (
    Charge,
    EncryptedCheckpoint,
    JobOrder,
    ReportProgress,
    card,
    cell,
    kept_part,
    publish,
)

if TYPE_CHECKING:
    from gpu_workers.models.encoder import Encoder

FloatArray = npt.NDArray[np.float32]

# With fewer, the mechanisms have too few candidates to choose from. docs/operating/jobs.md has the measurement.
DOCUMENTS_MIN = 100
LABEL_DOCUMENTS_MIN = 10  # a label that fewer documents have is left out
_SHARD_ROWS = 100
# Two documents whose means are this near are copies of each other except for a few words (see the same page). For an
# unknown encoder nothing was measured, and some encoders map all texts close together, so only exact copies count.
NEAR_DUPLICATE_COSINE = 0.98
COPY_COSINE = 0.9999
_BLOCK_ROWS = 1024
OWN_ENCODER = "caller"


@dataclass(frozen=True)
class _Shard:
    """Encoded rows: `vectors` float16 `[rows, d]`, `lengths` int64 `[n]`, `labels` `[n]`, and how many rows were too
    short."""

    vectors: npt.NDArray[np.float16]
    lengths: npt.NDArray[np.int64]
    labels: list[str]
    short: int

    def as_bytes(self) -> bytes:
        buffer = io.BytesIO()
        labels = np.frombuffer(orjson.dumps(self.labels), dtype=np.uint8)
        np.savez(buffer, vectors=self.vectors, lengths=self.lengths, labels=labels, short=np.int64(self.short))
        return buffer.getvalue()

    @classmethod
    def of_bytes(cls, content: bytes) -> _Shard:
        """Raises ValueError or KeyError."""
        with np.load(io.BytesIO(content), allow_pickle=False) as stored:
            labels = orjson.loads(stored["labels"].tobytes())
            return cls(stored["vectors"], stored["lengths"], labels, int(stored["short"]))


@dataclass(frozen=True)
class _Source:
    """The source of the vectors: the gateway's encoder, or the caller's own (`encoder` None)."""

    encoder: Encoder | None
    dimension: int | None

    def facts(self, dimension: int) -> tuple[str, str]:
        if self.encoder is not None:
            return self.encoder.name, self.encoder.packs_of
        return OWN_ENCODER, hashlib.sha256(f"{OWN_ENCODER}-{dimension}".encode()).hexdigest()


def run(order: JobOrder, report: ReportProgress, _charge: Charge) -> dict[str, Any]:
    """Write the pack to every target. Returns counts and warnings. Raises JobFailed."""
    spec: DomainSpec = order.spec
    report("reading", 0.0)
    found = corpus.survey(
        corpus.corpus_lines(order.received()),
        documents_max=spec.documents_max,
        chars_max=spec.document_chars_max,
        labelled=True,
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
    public = replace(public, labels=class_numbers(public.labels))
    # imports torch, which a rejected corpus does not need
    from gpu_workers.domains.build_pack import build_pack, known_space

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
        steps=spec.steps,
        progress=lambda stage, fraction: report(stage, 0.72 + 0.26 * fraction),
        aspect_weights={0: (1.0,)} if any(public.labels) else {},
        known=known_space(fingerprint),
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
    from gpu_workers.models.device import torch_device
    from gpu_workers.models.encoder import Encoder

    device = torch_device(spec.device, spec.threads)
    encoder = Encoder(Path(spec.encoder_path) if spec.encoder_path else None, device=device)
    return _Source(encoder, encoder.dimension)


def _embedded(order: JobOrder, found: corpus.Survey, source: _Source, report: ReportProgress) -> tuple[Embedded, int]:
    """Return the chosen documents with enough sentences, and the number of those with too few. Every finished shard is
    stored encrypted."""
    spec: DomainSpec = order.spec
    count = -(-len(found.chosen) // _SHARD_ROWS)
    shards: list[_Shard] = []
    short = sentences = 0
    dimension = source.dimension
    rest = corpus.chosen_lines(order.received(), found)
    for index in range(count):
        rows = tuple(islice(rest, _SHARD_ROWS))
        shard = kept_part(
            EncryptedCheckpoint(order, f"shard-{index:06d}"),
            partial(_encoded, rows, source, dimension, chars_max=spec.document_chars_max),
            packed=_Shard.as_bytes,
            unpacked=_Shard.of_bytes,
        )
        if len(shard.lengths):
            rows_added, dimension = shard.vectors.shape
            check_memory(sentences=sentences + rows_added, dimension=dimension, bytes_max=order.memory_bytes_max)
            sentences += rows_added
            shards.append(shard)
        short += shard.short
        report("encoding", min(0.7, 0.05 + 0.65 * (index + 1) / count))
    if not shards:
        raise _too_few(0)
    return Embedded(
        vectors=np.concatenate([shard.vectors for shard in shards]).astype(np.float32),
        lengths=np.concatenate([shard.lengths for shard in shards]),
        labels=[label for shard in shards for label in shard.labels],
    ), short


def _encoded(rows: tuple[tuple[int, bytes], ...], source: _Source, dimension: int | None, *, chars_max: int) -> _Shard:
    texts: list[str] = []
    matrices: list[FloatArray] = []
    lengths: list[int] = []
    labels: list[str] = []
    for number, line in rows:
        form, content, label = corpus.parse(line, number, chars_max=chars_max, labelled=True)
        if source.encoder is None:
            matrix = corpus.vectors(content, number, dimension=dimension)
            dimension = matrix.shape[1]
            count = len(matrix)
            matrices += [matrix] if count >= corpus.SENTENCES_MIN else []
        else:
            sentences = corpus.units(form, content)
            count = len(sentences)
            texts += sentences if count >= corpus.SENTENCES_MIN else []
        if count >= corpus.SENTENCES_MIN:
            lengths.append(count)
            labels.append(label)
    if not lengths:
        vectors = np.zeros((0, dimension or 0), dtype=np.float32)
    else:
        vectors = np.concatenate(matrices) if source.encoder is None else source.encoder.encode(texts)
    return _Shard(vectors.astype(np.float16), np.array(lengths, dtype=np.int64), labels, len(rows) - len(lengths))


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
    labels = [label for label, kept in zip(documents.labels, fresh, strict=True) if kept]
    return Embedded(np.concatenate(parts), documents.lengths[fresh], labels), int((~fresh).sum())


def class_numbers(labels: Sequence[str]) -> list[str]:
    """Replace each label by a number, as text. Labels of fewer than `LABEL_DOCUMENTS_MIN` documents become "", and if
    fewer than two remain, all do."""
    counts = Counter(label for label in labels if label)
    frequent = sorted(label for label, count in counts.items() if count >= LABEL_DOCUMENTS_MIN)
    numbers = {label: str(number) for number, label in enumerate(frequent)} if len(frequent) > 1 else {}
    return [numbers.get(label, "") for label in labels]


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
        "labelled_documents": sum(map(bool, public.labels)),
        "candidates": pack.info.candidates,
        "steps": spec.steps,
        "warnings": corpus.left_out(found, {"short-documents": short, "near-duplicates": near}),
    }


def _saved(pack: DomainPack, path: Path) -> None:
    pack.save(path)
    DomainPack.load(path)


def domain_card(info: DomainPackInfo, result: Mapping[str, Any]) -> str:
    """The card of a pack that a domain job built. `result` is the job's result."""
    return card(
        f"Domain pack `{info.name}`",
        ["Computed from public documents by a domain job. The file holds vectors and weights, no text."],
        {
            "source, as the caller declared it": cell(info.source),
            "licence, as the caller declared it": cell(info.licence),
            "encoder": f"{cell(info.encoder)} (`{info.encoder_fingerprint}`)",
            "dimension": info.dimension,
            "documents used": f"{result['documents']} of {result['rows']} rows",
            "documents with a label": result["labelled_documents"],
            "sentences": result["sentences"],
            "candidates": info.candidates,
            "steps of each training, at most": result["steps"],
        },
        result,
        "The guarantee of a release does not depend on this file, but its utility does: the corpus must be public",
        "and similar to the documents that will be released.",
        "",
    )
