# Written by `make client` from asynchronous/content.py. Do not edit.
"""The calls that charge for texts and vectors: private embeddings, and sanitised text and its way back.

Embeddings are of documents, of texts, of the caller's own vectors, and through OpenAI's format. Texts are sanitised
whole or as a stream.
"""

import base64
import json
from collections.abc import Generator, Iterator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import httpx
from typing_extensions import Unpack

from privacy_gateway_client.answers import EmbeddingRow, Embeddings, Partial, Release, Sanitized
from privacy_gateway_client.generated.connection import (
    BoughtItems,
    Item,
    MethodGroup,
    PartAnswer,
    bought,
    cache_names,
    in_parts,
    parts_done,
    ranges,
)
from privacy_gateway_client.errors import (
    AnswerInvalid,
    ConnectionLost,
    FieldError,
    GatewayError,
    InvalidRequest,
    Problem,
    Rejected,
    StreamInterrupted,
    line_problem,
)
from privacy_gateway_client.generated.models import Account, Privacy, RestoredText, SanitizedRow, StreamSummary
from privacy_gateway_client.inputs import (
    EMBEDDED,
    SANITIZED,
    check_filled,
    check_word,
    checked,
    contents_of,
    documents_of,
    listed,
    texts_of,
)
from privacy_gateway_client.options import (
    DocumentOptions,
    Limits,
    SanitizeOptions,
    StreamOptions,
    VectorOptions,
    active_caps,
)
from privacy_gateway_client.wire import (
    KEY,
    LINES_TYPE,
    TYPE,
    Outgoing,
    Tensor,
    VectorRows,
    in_thread,
    get,
    given,
    json_of,
    matrix_of,
    parsed,
    parsed_json,
    post,
    validated_answer,
    written,
)

DOCUMENTS, VECTORS, FILES = "/embed/sentdp", "/embed/vector", "/embed/vector/safetensors"
_DOMAIN = "general"  # the domain of a request that names none
_SAMPLE = "A sample."
_HEADER_BYTES = 1 << 16  # of a file, and of what the gateway adds when it stores an answer

# one file of released vectors, and its release
_File = tuple[Tensor, Release]


class Embedding(MethodGroup):
    """The calls that embed."""

    def embed_documents(
        self,
        documents: Iterable[str | Mapping[str, Any]],
        *,
        epsilon: float,
        as_many_as_fit: bool = False,
        idempotency_key: str | None = None,
        **options: Unpack[DocumentOptions],
    ) -> Embeddings:
        """Embed documents so that one sentence of each is protected, or what `privacy` of the result says.

        Each document costs `epsilon`. A document is a text, or has `text`, `sentences` or `embeddings` and a `subject`.
        Documents beyond the limits of one request are sent as several, after the budget was asked for all of them.
        as_many_as_fit: embed the first documents that the budget covers, instead of none.
        Raises BudgetExhausted and others with `partial`.
        """
        connection = self._connection
        terms = {**checked(DocumentOptions, options), "epsilon": epsilon, "encoding_format": "base64"}
        rows = documents_of(documents, EMBEDDED)
        check_filled(rows)
        domain = str(terms.get("domain", _DOMAIN))
        names = cache_names(connection, DOCUMENTS, terms, lambda: contents_of(rows), domain=domain)
        stand_in = document_stand_in(rows, terms)

        def buy(indices: list[int], key: str) -> PartAnswer:
            part = {**terms, "documents": [rows[index] for index in indices]}
            answer = connection.charged(post(DOCUMENTS, part), key, stand_in, len(indices))
            return _vectors_of(answer, len(indices))

        return bought(
            connection,
            [len(json_of(row)) for row in rows],
            buy,
            lambda found: _assembled(found, ids=[row.get("id") for row in rows]),
            names=names,
            items_max=connection.limits.documents,
            weight_max=connection.limits.body_bytes * 3 // 4,
            key=idempotency_key,
            members=("documents",),
            stand_in=stand_in,
            as_many_as_fit=as_many_as_fit,
            subjects=len({str(row.get("subject")) for row in rows}),
        )

    def embed_texts(
        self,
        texts: Iterable[str],
        *,
        epsilon: float,
        as_many_as_fit: bool = False,
        idempotency_key: str | None = None,
        **options: Unpack[VectorOptions],
    ) -> Embeddings:
        """Embed texts, each of which is one protected unit, however long. Each text costs `epsilon`.

        as_many_as_fit: as of `embed_documents`.
        """
        connection = self._connection
        terms = {**checked(VectorOptions, options), "epsilon": epsilon, "encoding_format": "base64"}
        all_texts = texts_of("texts", texts)
        contents = [json_of(text) for text in all_texts]
        names = cache_names(connection, VECTORS, terms, lambda: contents, domain=None)
        stand_in = {**terms, "texts": [_SAMPLE]}

        def buy(indices: list[int], key: str) -> PartAnswer:
            part = {**terms, "texts": [all_texts[index] for index in indices]}
            answer = connection.charged(post(VECTORS, part), key, stand_in, len(indices))
            return _vectors_of(answer, len(indices))

        return bought(
            connection,
            [len(content) for content in contents],
            buy,
            _assembled,
            names=names,
            items_max=connection.limits.vector_texts,
            weight_max=connection.limits.body_bytes * 3 // 4,
            key=idempotency_key,
            members=("texts",),
            stand_in=stand_in,
            as_many_as_fit=as_many_as_fit,
        )

    def embed_vectors(
        self,
        vectors: Any,
        *,
        epsilon: float,
        as_json: bool = False,
        output_dtype: str = "float32",
        as_many_as_fit: bool = False,
        idempotency_key: str | None = None,
        **options: Unpack[VectorOptions],
    ) -> Embeddings:
        """Release vectors, a matrix `[n, d]` of NumPy or lists of numbers, each of them protected on its own.

        epsilon: of each vector; for the metric mechanisms per unit of Euclidean distance.
        as_json: send one JSON request with full doubles, instead of float32 (or float16) files in parts.
        output_dtype: `float32` or `float16`.
        as_many_as_fit: as of `embed_documents`. With `as_json` there is one request, which fits or does not.
        Parts are so small that the gateway stores their answers: a lost answer costs nothing when it is asked for
        again.
        """
        terms = {**checked(VectorOptions, options), "epsilon": epsilon}
        check_word("output_dtype", output_dtype, ("float32", "float16"))
        if as_json:
            return self._vectors_as_json(vectors, terms, idempotency_key)
        connection, cache = self._connection, self._connection.cache
        rows = in_thread(lambda: VectorRows(vectors))
        asked = terms if output_dtype == "float32" else {**terms, "output_dtype": output_dtype}
        size, count = _part_size(connection.limits, rows, asked), rows.count
        stand_in = {**terms, "vectors": [[0.0] * rows.width]}
        if as_many_as_fit or (count > size and cache is None and idempotency_key is None):
            count = connection.fitting(stand_in, count, as_many_as_fit=as_many_as_fit)
        parts = [range(start, min(start + size, count)) for start in range(0, count, size)]
        names = cache_names(
            connection,
            FILES,
            {**asked, "dtype": rows.kind},
            lambda: [bytes(rows.part(part.start, part.stop)) for part in parts],
            domain=None,
        )
        known = {} if names is None else dict(zip(parts, names, strict=True))

        def release(part: range, key: str) -> _File:
            name = known.get(part)
            if name is not None and cache is not None:
                entry = (in_thread(partial(cache.get, [name]))).get(name)
                if entry is not None:
                    return _received(entry, part, None)
            shape, numbers = (len(part), rows.width), rows.part(part.start, part.stop)
            content = written("vectors", rows.kind, shape, numbers, request=json.dumps(asked))
            request = Outgoing("POST", FILES, headers={"Content-Type": TYPE}, content=content)
            answer = connection.charged(request, key, stand_in, len(part))
            result = _received(answer.content, part, answer)
            if name is not None and cache is not None:
                in_thread(partial(cache.put, [(name, answer.content)]))
            return result

        try:
            done = in_parts(connection, parts, release, key=idempotency_key, members=("vectors",))
        except GatewayError as error:
            finished = parts_done(error)
            indices = [index for part, _ in finished for index in part]
            error.partial = Partial(indices, _joined(finished) if finished else None)
            raise
        return _joined(done)

    def _vectors_as_json(self, vectors: Any, terms: Mapping[str, Any], key: str | None) -> Embeddings:
        rows = vectors.tolist() if hasattr(vectors, "tolist") else [list(row) for row in vectors]
        body = {**terms, "encoding_format": "base64", "vectors": rows}
        stand_in = {**terms, "vectors": [[0.0] * len(rows[0])]} if rows else None
        answer = self._connection.charged(post(VECTORS, body), key, stand_in, len(rows))
        part = _vectors_of(answer, len(rows))
        return _assembled(BoughtItems(dict(enumerate(part.items)), [part.release(range(len(rows)))], {}))

    def openai_embeddings(
        self,
        model: str,
        inputs: str | Sequence[str],
        *,
        user: str | None = None,
        encoding_format: str = "float",
        dimensions: int | None = None,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """`POST /v1/embeddings` with a preset, in OpenAI's format. Each input costs the preset's epsilon.

        Inputs beyond the limit of one request are sent as several, after the budget was asked for all of them.
        """
        connection, limits = self._connection, self._connection.limits
        terms = given({"model": model, "user": user, "encoding_format": encoding_format, "dimensions": dimensions})
        texts = texts_of("input", inputs)
        weights = [len(json_of(text)) for text in texts]
        parts = ranges(weights, items=limits.documents, weight=limits.body_bytes * 3 // 4) or [range(0)]
        asks = len(parts) > 1 and idempotency_key is None
        stand_in = self._preset_stand_in(model, user) if asks or active_caps() else None
        if asks and stand_in is not None:
            connection.fitting(stand_in, len(texts), as_many_as_fit=False)

        def one(part: range, key: str) -> dict[str, Any]:
            body = {**terms, "input": texts[part.start : part.stop]}
            try:
                answer = connection.charged(post("/v1/embeddings", body), key, stand_in, len(part))
            except Rejected as error:
                error.renumber(part)
                raise
            members: dict[str, Any] = parsed_json(answer.content)
            return members

        try:
            done = in_parts(connection, parts, one, key=idempotency_key, members=("input",))
        except GatewayError as error:
            finished = parts_done(error)
            indices = [index for part, _ in finished for index in part]
            error.partial = Partial(indices, _joined_openai(finished) if finished else None)
            raise
        return _joined_openai(done)

    def _preset_stand_in(self, model: str, user: str | None) -> dict[str, Any]:
        """The request that a preset stands for, with a sample in place of the input."""
        preset = dict((self._connection.json(get(f"/v1/models/{model}"))).get("preset") or {})
        of_documents = preset.pop("endpoint", None) == "sentdp"
        use = preset.pop("subject", "none")
        members = (DocumentOptions if of_documents else VectorOptions).__annotations__.keys() | {"epsilon"}
        terms = {name: value for name, value in preset.items() if name in members and value is not None}
        subject = user if use in ("user", "required") else None
        sample: dict[str, Any] = {"documents": [{"text": _SAMPLE}]} if of_documents else {"texts": [_SAMPLE]}
        return given({**terms, **sample, "subject": subject})


def document_stand_in(rows: Sequence[Mapping[str, Any]], terms: Mapping[str, Any]) -> dict[str, Any]:
    """The request for one of the documents, with a sample in its place."""
    subject = next((row["subject"] for row in rows if row.get("subject")), None)
    sample: dict[str, Any] = {"text": _SAMPLE}
    if rows and rows[0].get("embeddings") is not None:
        sample = {"embeddings": [[0.0] * len(one) for one in rows[0]["embeddings"][:1]]}
    return {**terms, "documents": [given({**sample, "subject": subject})]}


def _vectors_of(answer: httpx.Response, count: int) -> PartAnswer:
    """The answer to a JSON request for `count` vectors. Raises AnswerInvalid."""
    members = parsed_json(answer.content)
    failure = AnswerInvalid("the answer does not have the expected members", ("data",))
    try:
        items = [
            Item(
                row={name: value for name, value in row.items() if name != "embedding"},
                privacy=members["privacy"],
                vector=base64.b64decode(row["embedding"]),
                model=members["model"],
                dimension=members["dimension"],
            )
            for row in members["data"]
        ]
        if len(items) == count:
            return PartAnswer.of(answer, items, members)
    except (AttributeError, KeyError, TypeError, ValueError):
        pass
    raise failure


def _assembled(found: BoughtItems, ids: Sequence[str | None] | None = None) -> Embeddings:
    items = list(found.items.values())
    dimension = items[0].dimension if items else 0
    rows = [
        validated_answer(EmbeddingRow, {**item.row, "index": index, **given({"id": ids[index] if ids else None})})
        for index, item in found.items.items()
    ]
    return Embeddings(
        vectors=matrix_of("F32", (len(items), dimension), [item.vector for item in items]),
        dimension=dimension,
        model=items[0].model if items else None,
        rows=rows,
        releases=found.releases,
    )


def _part_size(limits: Limits, rows: VectorRows, asked: Mapping[str, Any]) -> int:
    """How many vectors a request has: what it may hold, and what the gateway stores of its answer."""
    number = 2 if asked.get("output_dtype") == "float16" else 4
    count = limits.codebook_vectors if asked.get("mechanism") == "codebook" else limits.vectors
    count = min(count, (limits.vectors_bytes - _HEADER_BYTES) // rows.row_bytes)
    count = min(count, (limits.stored_bytes - _HEADER_BYTES) // (number * _dimension_max(rows.width, asked)))
    if count < 1:
        raise InvalidRequest((FieldError("vectors", "one vector is larger than a request may be"),))
    return count


def _dimension_max(width: int, asked: Mapping[str, Any]) -> int:
    """The most dimensions that a released vector can have (docs/reference/vectors.md)."""
    if asked.get("projection") in ("identity", "pca") or asked.get("strict") is False:
        return width
    return min(width, int(asked.get("dimension") or 64))


def _received(content: bytes, part: range, answer: httpx.Response | None) -> _File:
    """A file of released vectors; `answer` is None for one from the cache."""
    tensor = Tensor(content, "embeddings")
    privacy = parsed(Privacy, tensor.metadata["privacy"])
    if answer is None:
        return tensor, Release(tuple(part), privacy, cached=True)
    return tensor, Release(
        inputs=tuple(part),
        privacy=privacy,
        budget=parsed(Account, tensor.metadata["budget"]),
        idempotency_key=answer.headers.get(KEY),
        replayed=answer.headers.get("Idempotency-Replayed") == "true",
    )


def _joined(done: Sequence[tuple[range, _File]]) -> Embeddings:
    first = done[0][1][0]
    count = sum(len(part) for part, _ in done)
    return Embeddings(
        vectors=matrix_of(first.kind, (count, first.shape[1]), [tensor.numbers for _, (tensor, _) in done]),
        dimension=first.shape[1],
        model=None,
        rows=[],
        releases=[release for _, (_, release) in done],
    )


def _joined_openai(done: Sequence[tuple[range, dict[str, Any]]]) -> dict[str, Any]:
    """The answers to the parts as one: rows numbered as the inputs, and the sums of what was used."""
    if len(done) == 1:
        return done[0][1]
    data = [{**row, "index": part.start + row["index"]} for part, answer in done for row in answer["data"]]
    usage = {name: sum(answer["usage"][name] for _, answer in done) for name in done[0][1]["usage"]}
    return {**done[-1][1], "data": data, "usage": usage}


PATH, STREAM = "/sanitize", "/sanitize/batch"
PRICED = frozenset({"metric_dp", "dp"})
Text = str | Mapping[str, Any]


class Sanitizing(MethodGroup):
    """The calls that sanitise and restore texts."""

    def sanitize(
        self,
        documents: Iterable[Text],
        *,
        as_many_as_fit: bool = False,
        idempotency_key: str | None = None,
        **options: Unpack[SanitizeOptions],
    ) -> Sanitized:
        """Mask and fill documents. No formal guarantee, except by the fills `dp` and `metric_dp`, which cost budget.

        A document is a text, or has `text`, `format`, `subject` and others. Documents beyond the limits of one request
        are sent as several; a `reversible` call has one restore token and must fit into one request.
        as_many_as_fit: as of `embed_documents`, for the fills with a price.
        """
        terms, rows = checked(SanitizeOptions, options), documents_of(documents, SANITIZED)
        check_filled(rows)
        return self._sanitize(rows, terms, key=idempotency_key, as_many_as_fit=as_many_as_fit)

    def _sanitize(
        self,
        rows: Sequence[Mapping[str, Any]],
        terms: Mapping[str, Any],
        *,
        key: str | None = None,
        as_many_as_fit: bool = False,
    ) -> Sanitized:
        connection, limits = self._connection, self._connection.limits
        reversible = bool(terms.get("reversible"))
        if reversible and len(rows) > limits.documents:
            raise InvalidRequest((FieldError("documents", f"at most {limits.documents} in a reversible call"),))
        names = None
        if terms.get("fill", {}).get("mode") in PRICED:
            names = cache_names(connection, PATH, terms, lambda: contents_of(rows), domain=None)
        stand_in = text_stand_in(rows, terms)

        def buy(indices: list[int], own_key: str) -> PartAnswer:
            part = {**terms, "documents": [rows[index] for index in indices]}
            answer = connection.charged(post(PATH, part), own_key, stand_in, len(indices))
            members = parsed_json(answer.content)
            if not isinstance(members, dict) or len(members.get("data", ())) != len(indices):
                raise AnswerInvalid("the answer does not have the expected members", ("data",))
            items = [Item(row, members.get("privacy", {})) for row in members["data"]]
            return PartAnswer.of(answer, items, members)

        return bought(
            connection,
            [len(json_of(row)) for row in rows],
            buy,
            lambda found: _assembled_texts(found, rows),
            names=names,
            items_max=limits.documents,
            weight_max=limits.body_bytes if reversible else limits.body_bytes * 3 // 4,
            key=key,
            members=() if reversible else ("documents",),
            stand_in=stand_in,
            as_many_as_fit=as_many_as_fit,
            subjects=len({str(row.get("subject")) for row in rows}),
        )

    def restore(self, texts: Iterable[str], restore_token: str) -> list[str]:
        """Put the originals back for the surrogates in any texts. Costs nothing."""
        request = post("/restore", {"texts": listed("texts", texts, str), "restore_token": restore_token})
        return [row.text for row in self._connection.rows_as(RestoredText, request, "data")]

    def sanitize_stream(
        self, documents: Iterable[Text], **options: Unpack[StreamOptions]
    ) -> Iterator[SanitizedRow | Problem]:
        """Sanitise documents as they come, one row or error each, in order; for inputs that do not fit into memory.

        Yields `SanitizedRow`, and a `Problem` in place of the row of a document that failed. A named fill without a
        price uses streams of documents, which continue after a lost connection. Any other fill may cost budget: its
        documents are sent as calls of `sanitize` with keys of their own, so that a lost connection does not charge
        twice.
        """
        source = iter([documents] if isinstance(documents, (str, Mapping)) else documents)
        answered = 0
        terms = checked(StreamOptions, options)
        send = self._streamed if terms.get("dry_run") or _named_and_free(terms) else self._called
        while group := list(self._group(source, answered)):
            with closing(send(terms, group, answered)) as rows:
                for row in rows:
                    yield row
            answered += len(group)

    def _group(self, source: Iterator[Text], answered: int) -> Iterator[dict[str, Any]]:
        """The documents after the answered ones, as many as one stream has. The last of them may exceed its size."""
        limits = self._connection.limits
        size = 0
        for count, one in enumerate(source, start=1):
            [document] = documents_of([one], SANITIZED, first=answered + count - 1)
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
            result = self._sanitize(documents, terms)
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
    found = validated_answer(StreamSummary, summary)
    if not found.complete:
        raise StreamInterrupted(answered, found.problem.code if found.problem else "incomplete")


def _row(row: Mapping[str, Any], index: int) -> SanitizedRow | Problem:
    if "problem" in row:
        return line_problem(row["problem"])
    return validated_answer(SanitizedRow, {**row, "index": index})


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


def text_stand_in(documents: Sequence[Mapping[str, Any]], terms: Mapping[str, Any]) -> dict[str, Any] | None:
    """As `document_stand_in`; None for what costs nothing."""
    if terms.get("dry_run") or terms.get("reversible") or _named_and_free(terms):
        return None
    subject = next((document["subject"] for document in documents if document.get("subject")), None)
    # the estimate distinguishes the body of this endpoint from others by the member `policy`
    return {"policy": None, **terms, "documents": [given({"text": "sample", "subject": subject})]}


def _assembled_texts(found: BoughtItems, documents: Sequence[Mapping[str, Any]]) -> Sanitized:
    rows = [
        validated_answer(SanitizedRow, {**item.row, "index": index, **given({"id": documents[index].get("id")})})
        for index, item in found.items.items()
    ]
    return Sanitized(
        rows=rows,
        releases=found.releases,
        restore_token=found.members.get("restore_token"),
        restore_until=found.members.get("restore_until"),
        policy=found.members.get("policy"),
    )
