# Written by `make client` from asynchronous/sanitizing.py. Do not edit.
"""Sanitised text, whole or as a stream, and its way back."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from typing_extensions import Unpack

from privacy_gateway_client.answers import RestoredRow, SanitizedRow, StreamSummary
from privacy_gateway_client.generated.connection import Group
from privacy_gateway_client.generated.paid import (
    Found,
    Item,
    PartAnswer,
    bought,
    cache_names,
    contents_of,
    members_of,
)
from privacy_gateway_client.errors import AnswerInvalid, ConnectionLost, FieldError, GatewayError, InvalidRequest, Problem, StreamInterrupted
from privacy_gateway_client.options import SanitizeOptions, StreamOptions
from privacy_gateway_client.errors import line_problem
from privacy_gateway_client.answers import Sanitized
from privacy_gateway_client.wire import LINES_TYPE, Outgoing, given, json_of, parsed_json, post

PATH, STREAM = "/sanitize", "/sanitize/batch"
PRICED = frozenset({"metric_dp", "dp"})
Text = str | Mapping[str, Any]


class Sanitizing(Group):
    """The calls that sanitise and restore texts."""

    def sanitize(
        self, documents: Iterable[Text], *, idempotency_key: str | None = None, **options: Unpack[SanitizeOptions]
    ) -> Sanitized:
        """Mask and fill documents. No formal guarantee, except by the fills `dp` and `metric_dp`, which cost budget.

        A document is a text, or has `text`, `format`, `subject` and others. Documents beyond the limits of one request
        are sent as several; a `reversible` call has one restore token and must fit into one request.
        """
        connection, limits = self._connection, self._connection.limits
        terms, rows = given(options), [members_of(one) for one in documents]
        reversible = bool(terms.get("reversible"))
        if reversible and len(rows) > limits.documents:
            raise InvalidRequest((FieldError("documents", f"at most {limits.documents} in a reversible call"),))
        names = None
        if terms.get("fill", {}).get("mode") in PRICED:
            names = cache_names(connection, PATH, terms, lambda: contents_of(rows), domain=None)
        stand_in = _stand_in(rows, terms)

        def buy(indices: list[int], key: str) -> PartAnswer:
            part = {**terms, "documents": [rows[index] for index in indices]}
            answer = connection.charged(post(PATH, part), key, stand_in, len(indices))
            members = parsed_json(answer.content)
            if not isinstance(members, dict) or len(members.get("data", ())) != len(indices):
                raise AnswerInvalid("the answer does not have the expected members", ("data",))
            items = [Item(row, members.get("privacy", {})) for row in members["data"]]
            return PartAnswer.of(answer, items, members)

        return bought(
            connection,
            [len(json_of(row)) for row in rows],
            buy,
            lambda found: _assembled(found, rows),
            names=names,
            items_max=limits.documents,
            weight_max=limits.body_bytes if reversible else limits.body_bytes * 3 // 4,
            key=idempotency_key,
            members=() if reversible else ("documents",),
        )

    def restore(self, texts: Iterable[str], restore_token: str) -> list[str]:
        """Put the originals back for the surrogates in any texts. Costs nothing."""
        request = post("/restore", {"texts": list(texts), "restore_token": restore_token})
        return [row.text for row in self._connection.rows_as(RestoredRow, request, "data")]

    def sanitize_stream(
        self, documents: Iterable[Text], **options: Unpack[StreamOptions]
    ) -> Iterator[SanitizedRow | Problem]:
        """Sanitise documents as they come, one row or error each, in order; for inputs that do not fit into memory.

        Yields `SanitizedRow`, and a `Problem` in place of the row of a document that failed. A named fill without a
        price uses streams of documents, which continue after a lost connection. Any other fill may cost budget: its
        documents are sent as calls of `sanitize` with keys of their own, so that a lost connection does not charge
        twice.
        """
        source = iter(documents)
        answered = 0
        terms = given(options)
        send = self._streamed if terms.get("dry_run") or _named_and_free(terms) else self._called
        while group := list(self._group(source)):
            with closing(send(terms, group, answered)) as rows:
                for row in rows:
                    yield row
            answered += len(group)

    def _group(self, source: Iterator[Text]) -> Iterator[dict[str, Any]]:
        """The next documents, as many as one stream has. The last of them may exceed its size."""
        limits = self._connection.limits
        size = 0
        for count, document in enumerate(map(members_of, source), start=1):
            yield document
            size += len(str(document.get("text")))
            if count >= limits.stream_documents or size >= limits.stream_bytes:
                return

    def _streamed(
        self, terms: Mapping[str, Any], documents: Sequence[Mapping[str, Any]], offset: int
    ) -> Generator[SanitizedRow | Problem]:
        """One stream of documents; the answer of a few documents fits into the buffers of a connection."""
        done, failures = 0, 0
        while done < len(documents):
            lines = map(json_of, [terms, *documents[done:]])
            request = Outgoing("POST", STREAM, headers={"Content-Type": LINES_TYPE}, content=b"\n".join(lines))
            before, cause = done, "no-summary"
            try:
                with self._connection.stream(request) as answer:
                    for line in answer.lines():
                        row = parsed_json(line)
                        if "summary" in row:
                            _check_complete(row["summary"], offset + done)
                            return
                        yield _row(row, offset + done)
                        done += 1
            except ConnectionLost as lost:
                cause = lost.cause
            failures = 0 if done > before else failures + 1
            if failures >= self._connection.retry.attempts:
                raise StreamInterrupted(offset + done, cause)

    def _called(
        self, terms: Mapping[str, Any], documents: Sequence[Mapping[str, Any]], offset: int
    ) -> Generator[SanitizedRow | Problem]:
        """The documents by `sanitize`; if the group is refused, each by itself.

        The rows that were paid before an error come first, up to the first gap; `partial` of the error keeps all.
        """
        failure: GatewayError
        try:
            result = self.sanitize(documents, **terms)
        except GatewayError as error:
            failure = error
        else:
            for row in result.rows:
                yield row.model_copy(update={"index": offset + row.index})
            return
        if not isinstance(failure, Problem) or failure.status != 422:
            for row in _paid_before(failure, offset):
                yield row
            raise failure
        if len(documents) == 1:
            yield failure
            return
        for index, document in enumerate(documents):
            with closing(self._called(terms, [document], offset + index)) as rows:
                for one in rows:
                    yield one


def _check_complete(summary: Any, answered: int) -> None:
    """Raises StreamInterrupted unless this is the summary of a stream that is complete."""
    found = StreamSummary.model_validate(summary)
    if not found.complete:
        raise StreamInterrupted(answered, str((found.problem or {}).get("code", "incomplete")))


def _row(row: Mapping[str, Any], index: int) -> SanitizedRow | Problem:
    if "problem" in row:
        return line_problem(row["problem"])
    return SanitizedRow.model_validate({**row, "index": index})


def _paid_before(error: GatewayError, offset: int) -> Iterator[SanitizedRow]:
    """The rows that were paid before the error, up to the first gap."""
    partial = error.partial
    if partial is None or partial.result is None:
        return
    for place, row in enumerate(partial.result.rows):
        if partial.indices[place] != place:
            return
        yield row.model_copy(update={"index": offset + place})


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
        restore_token=found.members.get("restore_token"),
        restore_until=found.members.get("restore_until"),
        policy=found.members.get("policy"),
    )
