"""A sanitised document as an answer shows it, in one answer or in a stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from core.errors import GatewayError, InvalidInput
from core.text.languages import LANGUAGES, UNKNOWN
from core.text.policy import DP, Sanitised, SuppressedFind
from service.sanitize.schemas import Terms, TextDocument

if TYPE_CHECKING:
    from core.text.reversible.mapping import Filled

UNKNOWN_NOTE = (
    "the language is none of those supported, or the text is too short to tell; forms and context words are found, "
    "names may be missed"
)

_SPAN_CHARS = 70  # of a span in JSON
_ORIGIN_CHARS = 110  # what an explanation adds to it
_SUPPRESSED_CHARS = 170
_SPANS_AT_ONCE = 1_024
_SCORE_DIGITS = 4


def language_refused(*, field: str) -> InvalidInput:
    """The error of a document whose language the mask refuses."""
    return InvalidInput(f"the document is in none of the languages {', '.join(LANGUAGES)}", field=field)


def row(index: int, document: TextDocument, result: Sanitised, terms: Terms) -> dict[str, Any]:
    """A document that was sanitised. After a dry run it has no text."""
    shown: dict[str, Any] = {"index": index}
    if document.id is not None:
        shown["id"] = document.id
    if result.language is not None:
        shown["language"] = result.language
    if result.language == UNKNOWN:
        shown["note"] = UNKNOWN_NOTE
    if not terms.dry_run:
        shown["text"] = result.text
    if terms.return_spans or terms.dry_run:
        shown["spans"] = _encoded(result, terms)
    if result.suppressed is not None:
        shown["suppressed"] = [_suppressed(find) for find in result.suppressed.finds]
        shown["suppressed_left_out"] = result.suppressed.left_out
    return shown | counts([result], terms)


def reversible_row(
    index: int, document: TextDocument, result: Sanitised, text: str, filled: Sequence[Filled] | None
) -> dict[str, Any]:
    """A document that was masked with surrogates that can be restored. `filled`: its places, if they are shown."""
    shown: dict[str, Any] = {"index": index}
    if document.id is not None:
        shown["id"] = document.id
    if result.language is not None:
        shown["language"] = result.language
    shown["text"] = text
    if filled is not None:
        shown["spans"] = [place._asdict() for place in filled]
    return shown | {"masked_tokens": result.masked_tokens, "tokens": result.tokens}


def _encoded(result: Sanitised, terms: Terms) -> orjson.Fragment:
    """The spans in JSON, made some at a time: all of them as objects would take several times the memory."""
    pieces = (
        orjson.dumps(list(_spans(result, start, dry_run=terms.dry_run)))[1:-1]
        for start in range(0, len(result.spans), _SPANS_AT_ONCE)
    )
    return orjson.Fragment(b"[" + b",".join(pieces) + b"]")


def _spans(result: Sanitised, first: int, *, dry_run: bool) -> Iterator[dict[str, Any]]:
    spans = result.spans[first : first + _SPANS_AT_ONCE]
    origins = [] if result.origins is None else result.origins[first : first + _SPANS_AT_ONCE]
    for place, span in enumerate(spans):
        shown: dict[str, Any] = {} if dry_run else {"start": span.start, "end": span.end}
        shown |= {"type": span.type, "technique": span.technique}
        if origins:
            origin = origins[place]
            shown |= {"original_start": origin.start, "original_end": origin.end}
            if origin.recogniser:
                shown |= {"score": round(origin.score, _SCORE_DIGITS), "recogniser": origin.recogniser}
        yield shown


def _suppressed(find: SuppressedFind) -> dict[str, Any]:
    shown = {
        "original_start": find.start,
        "original_end": find.end,
        "type": find.type,
        "score": round(find.score, _SCORE_DIGITS),
        "recogniser": find.recogniser,
        "rule": find.rule,
    }
    return shown if find.by is None else shown | {"by": find.by}


def answer_size(results: Sequence[Sanitised | GatewayError], terms: Terms) -> int:
    """About how many characters the rows of an answer have."""
    spans = terms.return_spans or terms.dry_run
    return sum(_size(result, spans=spans) for result in results if isinstance(result, Sanitised))


def _size(result: Sanitised, *, spans: bool) -> int:
    size = len(result.text)
    if spans:
        size += (_SPAN_CHARS + (0 if result.origins is None else _ORIGIN_CHARS)) * len(result.spans)
    if result.suppressed is not None:
        size += _SUPPRESSED_CHARS * len(result.suppressed.finds)
    return size


def counts(results: Sequence[Sanitised], terms: Terms) -> dict[str, int]:
    """The numbers of words and of masked words. Omitted for `dp`: the count depends on private text."""
    if terms.fill.mode == DP:
        return {}
    return {
        "masked_tokens": sum(result.masked_tokens for result in results),
        "tokens": sum(result.tokens for result in results),
    }
