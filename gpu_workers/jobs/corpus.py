"""Rows of a corpus: which are rejected, which are skipped, and which are sampled from a corpus that is too large.

A row is `{"text"}`, `{"sentences": [...]}` or `{"embeddings": [[...]]}`. Either all rows of a corpus have embeddings,
or none. Where the kind of job uses labels, a row may have a `label`, a string. Errors contain the line number, never
the content of the line.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from core.errors import BadCorpus
from core.mechanisms.sentences.domain_pack import DIMENSION_MAX
from core.text.segment import sentences

FloatArray = npt.NDArray[np.float32]

FORMS = ("text", "sentences", "embeddings")
LINE_BYTES_MAX = 64 * 1024 * 1024
ROWS_MAX = 5_000_000
SENTENCES_MIN = 8  # the mean of fewer sentences does not represent a document
SENTENCES_USED = 24
LABEL_CHARS_MAX = 200
MARK = b"\xef\xbb\xbf"  # of UTF-8, before the first byte


class Row(NamedTuple):
    """One row: its form, the content of that form, and its label ("" for none)."""

    form: str
    content: Any
    label: str = ""


@dataclass(frozen=True)
class Survey:
    """The result of one pass over a corpus. `chosen` are line numbers, ascending."""

    rows: int
    repeated: int
    chosen: tuple[int, ...]
    embeddings: bool


def lines(chunks: Iterable[bytes], start: int = 0, *, bytes_max: int) -> Iterator[tuple[int, bytes | None]]:
    """Each line's first byte, counted from `start`, and the line without its end; None for one that is longer."""
    rest = b""
    dropped = 0
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        rest += first
        for line in others:
            yield start, None if dropped or len(rest) > bytes_max else rest
            start += dropped + len(rest) + 1
            dropped, rest = 0, line
        if len(rest) > bytes_max:
            dropped += len(rest)
            rest = b""
    if dropped or rest:
        yield start, None if dropped else rest


def corpus_lines(chunks: Iterable[bytes]) -> Iterable[tuple[int, bytes]]:
    """Number (from 1) and bytes of each line that is not blank, without a byte order mark. Raises BadCorpus for a line
    that is too long."""
    for number, (_, line) in enumerate(lines(chunks, bytes_max=LINE_BYTES_MAX), start=1):
        if line is None:
            raise BadCorpus("A line is too long.", reason="line-too-long", line=number)
        if bare := (line.removeprefix(MARK) if number == 1 else line).strip(b" \t\r"):
            yield number, bare


def survey(
    numbered: Iterable[tuple[int, bytes]], *, documents_max: int, chars_max: int, labelled: bool = False
) -> Survey:
    """Check every row, and choose all of them or a sample of `documents_max` by a hash of their content.

    The sample depends on the rows alone, not on their order, so a resumed attempt finds the same rows. `repeated`
    counts rows whose content equals that of an earlier row among the chosen ones. Raises BadCorpus.
    """
    heap: list[tuple[int, int]] = []  # (-hash, line): the largest hash is first
    kept: set[int] = set()
    rows = repeated = 0
    embeddings: bool | None = None
    for number, line in numbered:
        rows += 1
        if rows > ROWS_MAX:
            raise BadCorpus(f"A corpus has at most {ROWS_MAX} rows.", reason="too-many-rows", count=ROWS_MAX)
        form, content, _ = parse(line, number, chars_max=chars_max, labelled=labelled)
        if embeddings is None:
            embeddings = form == "embeddings"
        if embeddings != (form == "embeddings"):
            raise BadCorpus("Either all rows have embeddings, or none.", reason="mixed-rows", line=number)
        digest = int.from_bytes(blake2b(orjson.dumps(content), digest_size=12).digest(), "big")
        if digest in kept:
            repeated += 1
        elif len(heap) < documents_max:
            heapq.heappush(heap, (-digest, number))
            kept.add(digest)
        elif digest < -heap[0][0]:
            dropped, _ = heapq.heapreplace(heap, (-digest, number))
            kept.discard(-dropped)
            kept.add(digest)
    if rows == 0:
        raise BadCorpus("The corpus is empty.", reason="empty", count=0)
    return Survey(rows, repeated, tuple(sorted(number for _, number in heap)), bool(embeddings))


def chosen_lines(chunks: Iterable[bytes], found: Survey) -> Iterator[tuple[int, bytes]]:
    """Yield the rows that a survey of the same chunks has chosen."""
    wanted = set(found.chosen)
    return ((number, line) for number, line in corpus_lines(chunks) if number in wanted)


def left_out(found: Survey, counts: Mapping[str, int]) -> list[dict[str, Any]]:
    """List the rows that were not used: `counts` by code, repeated rows, and rows outside the sample."""
    sampled = max(0, found.rows - found.repeated - len(found.chosen))
    every = {**counts, "repeated-documents": found.repeated, "sampled": sampled}
    return [
        {"code": code, "count": count, "share": round(count / found.rows, 4)} for code, count in every.items() if count
    ]


def parse(line: bytes, number: int, *, chars_max: int, labelled: bool = False) -> Row:
    """Return a row. Its label is read if the corpus may be `labelled`, and ignored otherwise. Raises BadCorpus."""
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        raise unreadable(line, number) from None
    if not isinstance(row, dict) or sum(form in row for form in FORMS) != 1:
        raise BadCorpus(
            "A row must be an object with one of text, sentences and embeddings.", reason="wrong-row", line=number
        )
    form = next(form for form in FORMS if form in row)
    content = row[form]
    label = row.get("label") if labelled else None
    if label is None:
        label = ""
    if not isinstance(label, str) or len(label) > LABEL_CHARS_MAX:
        raise BadCorpus(
            f"A label must be a string of at most {LABEL_CHARS_MAX} characters.", reason="wrong-row", line=number
        )
    if form == "embeddings":
        if not isinstance(content, list) or not content:
            raise BadCorpus("embeddings must be a list of vectors.", reason="wrong-row", line=number)
        return Row(form, content, label)
    parts = [content] if form == "text" else content
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise BadCorpus("text must be a string, sentences must be a list of strings.", reason="wrong-row", line=number)
    if sum(map(len, parts)) > chars_max:
        raise BadCorpus(
            f"A document has at most {chars_max} characters.", reason="document-too-long", line=number, count=chars_max
        )
    return Row(form, content, label)


def unreadable(line: bytes, number: int) -> BadCorpus:
    """Return the error of a line that cannot be parsed."""
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return BadCorpus("A line is not UTF-8.", reason="not-utf-8", line=number)
    return BadCorpus("A line is not JSON.", reason="malformed-json", line=number)


def units(form: str, content: Any) -> list[str]:
    """The first sentences of a document, without empty ones."""
    parts = sentences(content) if form == "text" else [part.strip() for part in content if part.strip()]
    return parts[:SENTENCES_USED]


def vectors(content: list[Any], number: int, *, dimension: int | None) -> FloatArray:
    """A row's embeddings, normalised to length 1, float32 `[k, d]`. Raises BadCorpus."""
    wanted = dimension
    for vector in content:
        if not isinstance(vector, list) or not all(type(x) in (int, float) for x in vector):
            raise BadCorpus("An embedding must be a list of numbers.", reason="wrong-row", line=number)
        if wanted is None:
            wanted = len(vector)
        if len(vector) != wanted:
            kind = "ragged" if dimension is None else "wrong-dimension"
            raise BadCorpus("All embeddings must have the same dimension.", reason=kind, line=number, count=wanted)
    if not wanted or not 2 <= wanted <= DIMENSION_MAX:
        raise BadCorpus(
            f"An embedding has 2 to {DIMENSION_MAX} dimensions.", reason="wrong-dimension", line=number, count=wanted
        )
    with np.errstate(over="ignore", invalid="ignore"):
        matrix = np.asarray(content[:SENTENCES_USED], dtype=np.float64)
        norms = np.linalg.norm(matrix, axis=1)
        if not np.isfinite(norms).all() or (norms == 0).any():
            raise BadCorpus("An embedding is zero or not finite.", reason="not-finite", line=number)
        return np.asarray(matrix / norms[:, None], dtype=np.float32)
