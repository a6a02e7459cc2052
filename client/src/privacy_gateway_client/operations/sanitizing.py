"""Sanitised text, whole or as a stream, and its way back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from typing_extensions import Unpack

from privacy_gateway_client.answers import RestoredRow, SanitizedRow, StreamSummary
from privacy_gateway_client.core import Core
from privacy_gateway_client.effects import Op, Outgoing, close_flow, emit, next_line
from privacy_gateway_client.errors import (
    AnswerInvalid,
    ConnectionLost,
    FieldError,
    GatewayError,
    InvalidRequest,
    Problem,
    StreamInterrupted,
)
from privacy_gateway_client.exchange import LINES_TYPE, call_flow, given, json_of, parsed_json, post
from privacy_gateway_client.operations.paid import (
    Found,
    Item,
    PartAnswer,
    bought,
    cache_names,
    contents_of,
    members_of,
    part_answer,
)
from privacy_gateway_client.operations.reading import rows
from privacy_gateway_client.options import SanitizeOptions, StreamOptions
from privacy_gateway_client.problems import line_problem
from privacy_gateway_client.results import Sanitized

PATH, STREAM = "/sanitize", "/sanitize/batch"
PRICED = frozenset({"metric_dp", "dp"})
Text = str | Mapping[str, Any]


def sanitize(
    core: Core, documents: Iterable[Text], *, idempotency_key: str | None = None, **options: Unpack[SanitizeOptions]
) -> Op[Sanitized]:
    """Mask and fill documents. No formal guarantee, except by the fills `dp` and `metric_dp`, which cost budget.

    A document is a text, or has `text`, `format`, `subject` and others. Documents beyond the limits of one request are
    sent as several; a `reversible` call has one restore token and must fit into one request.
    """
    terms, rows = given(options), [members_of(one) for one in documents]
    reversible = bool(terms.get("reversible"))
    if reversible and len(rows) > core.limits.documents:
        raise InvalidRequest((FieldError("documents", f"at most {core.limits.documents} in a reversible call"),))
    names = None
    if terms.get("fill", {}).get("mode") in PRICED:
        names = yield from cache_names(core, PATH, terms, lambda: contents_of(rows), domain=None)
    stand_in = _stand_in(rows, terms)

    def buy(indices: list[int], key: str) -> Op[PartAnswer]:
        part = {**terms, "documents": [rows[index] for index in indices]}
        answer = yield from core.charged(post(PATH, part), key, stand_in, len(indices))
        members = parsed_json(answer.content)
        if not isinstance(members, dict) or len(members.get("data", ())) != len(indices):
            raise AnswerInvalid("the answer does not have the expected members", ("data",))
        items = [Item(row, members.get("privacy", {})) for row in members["data"]]
        return part_answer(answer, items, members)

    return (
        yield from bought(
            core,
            [len(json_of(row)) for row in rows],
            buy,
            lambda found: _assembled(found, rows),
            names=names,
            items_max=core.limits.documents,
            weight_max=core.limits.body_bytes if reversible else core.limits.body_bytes * 3 // 4,
            key=idempotency_key,
            members=() if reversible else ("documents",),
        )
    )


def restore(core: Core, texts: Iterable[str], restore_token: str) -> Op[list[str]]:
    """Put the originals back for the surrogates in any texts. Costs nothing."""
    request = post("/restore", {"texts": list(texts), "restore_token": restore_token})
    return [row.text for row in (yield from rows(core, request, "data", RestoredRow))]


def sanitize_stream(core: Core, documents: Iterable[Text], **options: Unpack[StreamOptions]) -> Op[None]:
    """Sanitise documents as they come, one row or error each, in order; for inputs that do not fit into memory.

    Yields `SanitizedRow`, and a `Problem` in place of the row of a document that failed. A named fill without a price
    uses streams of documents, which continue after a lost connection. Any other fill may cost budget: its documents
    are sent as calls of `sanitize` with keys of their own, so that a lost connection does not charge twice.
    """
    source = iter(documents)
    answered = 0
    terms = given(options)
    while group := list(_group(core, source)):
        if terms.get("dry_run") or _named_and_free(terms):
            yield from _streamed(core, terms, group, answered)
        else:
            yield from _called(core, terms, group, answered)
        answered += len(group)


def _group(core: Core, source: Iterator[Text]) -> Iterator[dict[str, Any]]:
    """The next documents, as many as one stream has. The last of them may exceed its size."""
    size = 0
    for count, document in enumerate(map(members_of, source), start=1):
        yield document
        size += len(str(document.get("text")))
        if count >= core.limits.stream_documents or size >= core.limits.stream_bytes:
            return


def _streamed(core: Core, terms: Mapping[str, Any], documents: Sequence[Mapping[str, Any]], offset: int) -> Op[None]:
    """One stream of documents; the answer of a few documents fits into the buffers of a connection."""
    done, failures = 0, 0
    while done < len(documents):
        lines = map(json_of, [terms, *documents[done:]])
        request = Outgoing("POST", STREAM, headers={"Content-Type": LINES_TYPE}, content=b"\n".join(lines))
        before = done
        try:
            flow = yield from call_flow(core.retry, request)
            while (line := (yield from next_line(flow))) is not None:
                row = parsed_json(line)
                if "summary" in row:
                    summary = StreamSummary.model_validate(row["summary"])
                    yield from close_flow(flow)
                    if not summary.complete:
                        raise StreamInterrupted(offset + done, str((summary.problem or {}).get("code", "incomplete")))
                    return
                yield from emit(_row(row, offset + done))
                done += 1
        except ConnectionLost as lost:
            failures = 0 if done > before else failures + 1
            if failures >= core.retry.attempts:
                raise StreamInterrupted(offset + done, lost.cause) from None
    return


def _row(row: Mapping[str, Any], index: int) -> SanitizedRow | Problem:
    if "problem" in row:
        return line_problem(row["problem"])
    return SanitizedRow.model_validate({**row, "index": index})


def _called(core: Core, terms: Mapping[str, Any], documents: Sequence[Mapping[str, Any]], offset: int) -> Op[None]:
    """The documents by `sanitize`; if the group is refused, each by itself."""
    try:
        result = yield from sanitize(core, documents, **terms)
    except Problem as refused:
        if refused.status != 422:
            yield from _emit_partial(refused, offset)
            raise
        if len(documents) == 1:
            yield from emit(refused)
            return
        for index, document in enumerate(documents):
            yield from _called(core, terms, [document], offset + index)
        return
    except GatewayError as error:
        yield from _emit_partial(error, offset)
        raise
    for row in result.rows:
        yield from emit(row.model_copy(update={"index": offset + row.index}))


def _emit_partial(error: GatewayError, offset: int) -> Op[None]:
    """The rows that were paid before the error, up to the first gap; `partial` keeps all of them."""
    partial = error.partial
    if partial is None or partial.result is None:
        return
    for place, row in enumerate(partial.result.rows):
        if partial.indices[place] != place:
            return
        yield from emit(row.model_copy(update={"index": offset + place}))


def _named_and_free(terms: Mapping[str, Any]) -> bool:
    return "fill" in terms and terms["fill"].get("mode") not in PRICED


def _stand_in(documents: Sequence[Mapping[str, Any]], terms: Mapping[str, Any]) -> dict[str, Any] | None:
    if terms.get("dry_run") or terms.get("reversible") or _named_and_free(terms):
        return None
    subject = next((document["subject"] for document in documents if document.get("subject")), None)
    # the estimate distinguishes the body of this endpoint from others by the member `policy`
    return {"policy": None, **terms, "documents": [given({"text": "sample", "subject": subject})]}


def _assembled(found: Found, documents: Sequence[Mapping[str, Any]]) -> Sanitized:
    rows = [
        SanitizedRow.model_validate({**item.row, "index": index, **given({"id": documents[index].get("id")})})
        for index, item in found.items.items()
    ]
    return Sanitized(
        rows=rows,
        releases=found.releases,
        restore_token=found.extra.get("restore_token"),
        restore_until=found.extra.get("restore_until"),
        policy=found.extra.get("policy"),
    )
