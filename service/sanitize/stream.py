"""`POST /sanitize/batch`: documents in, one a line; rows out in the same order, and a summary at the end.

The lines that wait form a group of up to `STREAM_GROUP_MAX` documents. Each group is one release
(`service/releases/pipeline.py`): reserve, run, commit, and only then its rows leave. One group is processed at a time,
so that a stream of any length holds little memory. A line that cannot be used, and a document that fails, is a problem
of that line. An error that would stop every further document ends the stream, and the summary names it.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from core.errors import BudgetExhausted, ClientGone, GatewayError, InvalidInput, NotStarted, Started
from core.files.disk import FileVersion
from core.redis.names import parse_account_id
from core.state.masking_counts import MaskingCounts
from core.text.formats.builder import TEXT
from core.text.formats.form import Form
from core.text.policy import Sanitised
from gpu_workers.engine.protocol import Task
from gpu_workers.engine.task_queue import Engine
from service.config.settings import Settings
from service.http import problems
from service.http.auth import Caller
from service.http.body import BodyMemory, JsonLimits, json_limits, parse_json
from service.http.exchange import OpenStream
from service.http.ndjson import JsonLine, LineReader
from service.http.strict import findings
from service.preparation import Preparation
from service.releases.pipeline import ReleasePipeline, without_guarantee
from service.releases.request import Buffer, Price, ReleaseRequest
from service.sanitize.fills import role_of
from service.sanitize.rows import answer_size, counts, language_refused, row
from service.sanitize.schemas import SanitizeRequest, Terms, TextDocument
from service.sanitize.service import SanitizeService

_GROUP_BYTES = 512 * 1024  # of lines: an answer may be many times as large, and the rows of a group wait for its end
_LINE_SIZE = 8 * 1024  # what a line costs beside its text, as a number of characters
_ROUTE = "sanitize/batch"  # as the journal names it


@dataclass(frozen=True)
class StreamParts:
    """What a stream of documents works with."""

    settings: Settings
    sanitize: SanitizeService
    releases: ReleasePipeline
    engine: Engine
    preparation: Preparation
    body_memory: BodyMemory
    counts: MaskingCounts


def parse_line(line: JsonLine, limits: JsonLimits) -> Any:
    """The JSON value of a line. Raises HTTPException 413 and 400, InvalidInput as `check_json`."""
    if line.content is None:
        raise HTTPException(413)
    try:
        return parse_json(line.content, limits)
    except orjson.JSONDecodeError:
        raise HTTPException(400) from None


@dataclass(frozen=True)
class _Part:
    """One document of a group: its place, its price and its task."""

    index: int
    line: int
    document: TextDocument = field(repr=False)
    cost: Price
    tasks: Sequence[Task] = field(repr=False)


@dataclass
class _Entry:
    """A line of a group, and what has become of it."""

    index: int
    line: JsonLine
    document: TextDocument | None = field(default=None, repr=False)
    forms: Sequence[Form | None] = field(default=(), repr=False)
    problem: dict[str, Any] | None = None


@contextmanager
def _problem_of(entry: _Entry) -> Iterator[None]:
    """Make what a line cannot be used for its problem."""
    try:
        yield
    except HTTPException as error:
        entry.problem = problems.http_block(error.status_code)
    except ValidationError as error:
        entry.problem = problems.unfit_block(findings(error))
    except InvalidInput as error:
        error.field = (error.field or "").removeprefix("documents.0.") or None
        entry.problem = problems.error_block(error)


class DocumentStream:
    """The documents of one request, all sanitised by the same `terms`.

    Raises InvalidInput where no document could be sanitised by them.
    """

    def __init__(self, parts: StreamParts, caller: Caller, terms: Terms, lines: LineReader, stream: OpenStream) -> None:
        self._parts = parts
        self._caller = caller
        self._terms = terms
        self._lines = lines
        self._stream = stream
        self._answers: dict[int, Buffer] = {}
        self._seen = 0
        self._written = 0
        self._released = 0
        self._charged = 0
        self._usage: Counter[str] = Counter()
        self._results: list[Any] = []  # of the current group
        self._budget: dict[str, Any] | None = None
        self._role = role_of(terms.fill.mode, dry_run=terms.dry_run)
        self._limits = json_limits(parts.settings)
        self._cost = self._priced(TextDocument(text="text"), None)[0]

    async def rows(self, first: Sequence[JsonLine]) -> AsyncGenerator[bytes, None]:
        """The answer, some lines at a time. `first`: lines that were taken already."""
        problem = None
        try:
            group = first or await self._take()
            while group:
                stop = await self._stream.finished(self._work(group), abandon=self._lines.client_disconnected.set)
                yield b"".join(self._ready())
                if stop is not None:
                    raise stop
                group = await self._take()
        except (GatewayError, HTTPException) as error:
            self._parts.counts.note_refusal(self._caller.tenant, self._caller.key_id, error)
            problem = problems.block_of(error)
        finally:
            self._lines.close()
        yield self._summary(problem)

    async def _take(self) -> list[JsonLine]:
        return await self._lines.take(
            self._parts.settings.stream_group_max, bytes_max=_GROUP_BYTES, stream=self._stream
        )

    async def _work(self, group: Sequence[JsonLine]) -> GatewayError | None:
        """Process a group. Returns the error that ends the stream, if there is one."""
        try:
            model = await self._parts.sanitize.model_of(self._caller.tenant, self._terms)
        except GatewayError as error:
            return error
        entries = [_Entry(self._seen + place, line) for place, line in enumerate(group)]
        self._seen += len(group)
        size = sum(len(line.content or b"") + _LINE_SIZE for line in group)
        await self._parts.preparation.run(self._caller.tenant, size, self._read, entries)
        for entry in entries:
            if entry.document is not None and entry.document.format != TEXT:
                await self._form(entry)
        read = [entry for entry in entries if entry.document is not None]
        size = sum(entry.document.preparation_size + _LINE_SIZE for entry in read if entry.document is not None)
        parts = await self._parts.preparation.run(self._caller.tenant, size, self._priced_parts, read, model)
        for entry in entries:
            if entry.problem is not None:
                self._answers[entry.index] = _line(_refused(entry.index, entry.line.number, entry.problem))
        try:
            if parts:
                await self._release(parts)
        except GatewayError as error:
            return error
        return None

    def _read(self, entries: Sequence[_Entry]) -> None:
        """Give each entry its document or its problem."""
        for entry in entries:
            with _problem_of(entry):
                entry.document = TextDocument.model_validate(parse_line(entry.line, self._limits))

    async def _form(self, entry: _Entry) -> None:
        assert entry.document is not None
        with _problem_of(entry):
            entry.forms = await self._parts.sanitize.forms_of(self._caller.tenant, self._body_of(entry.document))

    def _priced_parts(self, entries: Sequence[_Entry], model: FileVersion | None) -> list[_Part]:
        """The parts of the entries that have no problem."""
        found = []
        for entry in entries:
            if entry.document is not None and entry.problem is None:
                with _problem_of(entry):
                    cost, tasks = self._priced(entry.document, model, entry.forms)
                    found.append(_Part(entry.index, entry.line.number, entry.document, cost, tasks))
        return found

    def _priced(
        self, document: TextDocument, model: FileVersion | None, forms: Sequence[Form | None] = ()
    ) -> tuple[Price, list[Task]]:
        """Price and task of one document."""
        return self._parts.sanitize.prepare(self._caller.tenant, self._body_of(document), model, forms)

    def _body_of(self, document: TextDocument) -> SanitizeRequest:
        """The body of a call of `/sanitize` with this document alone."""
        return SanitizeRequest.model_construct(
            _fields_set=self._terms.model_fields_set | {"documents"}, documents=[document], **dict(self._terms)
        )

    async def _release(self, parts: Sequence[_Part]) -> None:
        """One release of `parts`. Raises what ends the stream.

        If the ledger refuses several documents together, each is tried alone, so that as many as possible are released.
        """
        release_request = ReleaseRequest(
            charges=[charge for part in parts for charge in part.cost.charges],
            role=self._role,
            tasks=[task for part in parts for task in part.tasks],
            render=lambda results, common: self._rendered(parts, results, common),
            answer_size=lambda results: answer_size(results, self._terms),
            privacy=parts[0].cost.facts,
            isolate_failures=True,
        )
        if self._lines.client_disconnected.is_set():
            raise ClientGone
        try:
            await self._wait_for_capacity(release_request.tasks)
            await self._run(release_request, parts)
        except (InvalidInput, BudgetExhausted) as error:
            if len(parts) > 1:
                for part in parts:
                    await self._release([part])
            elif isinstance(error, BudgetExhausted) and not self._of_a_subject(error.account):
                raise
            else:
                self._refuse(parts[0].index, parts[0].line, problems.error_block(error))
        except Started as error:
            for part in parts:
                self._refuse(part.index, part.line, problems.error_block(error))

    async def _wait_for_capacity(self, tasks: Sequence[Task]) -> None:
        """A stream can wait where a call is refused. Raises QueueFull and TenantLimitReached after the time that a
        request may take."""
        timeout_s = self._parts.settings.request_timeout_s
        await self._parts.engine.wait_for_capacity(self._role, tasks, tenant=self._caller.tenant, timeout_s=timeout_s)

    async def _run(self, release_request: ReleaseRequest, parts: Sequence[_Part]) -> None:
        if not release_request.charges:
            rows = await self._parts.releases.run_free(self._caller, release_request, self._lines.client_disconnected)
        else:
            # Counted before the hold exists: a stream that ends in this moment must not state less than it spends.
            self._charged += len(parts)
            try:
                held = await self._parts.releases.hold(self._caller, release_request, _ROUTE)
            except Exception:
                self._charged -= len(parts)
                raise
            try:
                rows = await self._parts.releases.run_held(
                    self._caller, release_request, held, self._lines.client_disconnected, stored=False
                )
            except NotStarted:
                self._charged -= len(parts)
                raise
        self._answers |= zip((part.index for part in parts), rows, strict=True)
        for result in self._results:
            if isinstance(result, Sanitised) and not result.refused:
                self._released += 1
                self._usage.update(counts([result], self._terms))

    def _of_a_subject(self, account: str) -> bool:
        return parse_account_id(self._caller.tenant, account)[1] != ""

    def _rendered(self, parts: Sequence[_Part], results: list[Any], common: dict[str, Any]) -> list[Buffer]:
        rows: list[Buffer] = []
        self._results, self._budget = results, common["budget"]
        for part, result in zip(parts, results, strict=True):
            if isinstance(result, Sanitised) and result.refused:
                problem = problems.error_block(language_refused(field="text"))
                rows.append(_line(_refused(part.index, part.line, problem)))
            elif isinstance(result, Sanitised):
                shown = row(part.index, part.document, result, self._terms)
                if "release_id" in common["privacy"]:
                    shown["release_id"] = common["privacy"]["release_id"]
                rows.append(_line(shown))
            else:
                problem = problems.error_block(result) | {"charged": bool(part.cost.charges)}
                rows.append(_line(_refused(part.index, part.line, problem)))
        return rows

    def _refuse(self, index: int, line: int, problem: dict[str, Any]) -> None:
        self._answers[index] = _line(_refused(index, line, problem))

    def _ready(self) -> list[Buffer]:
        """The next rows in order. A missing row holds back the rows after it."""
        rows = []
        while self._written in self._answers:
            rows.append(self._answers.pop(self._written))
            self._written += 1
        self._answers.clear()
        return rows

    def _summary(self, problem: dict[str, Any] | None) -> bytes:
        charges, facts = self._cost.charges, self._cost.facts
        summary = {
            "documents": self._written,
            "released": self._released,
            "failed": self._written - self._released,
            "charged": self._charged,
            "complete": problem is None,
            "privacy": {**charges[0].event.privacy_block(), **facts}
            if charges
            else without_guarantee(facts)["privacy"],
            "budget": self._budget,
            "usage": {"documents": self._released, **self._usage},
        }
        if self._terms.policy is not None:
            summary["policy"] = self._terms.policy
        if self._terms.dry_run:
            summary["dry_run"] = True
        if problem is not None:
            summary["problem"] = problem
        return _line({"summary": summary})


def _refused(index: int, line: int, problem: dict[str, Any]) -> dict[str, Any]:
    return {"index": index, "line": line, "problem": problem}


def _line(value: dict[str, Any]) -> bytes:
    return orjson.dumps(value) + b"\n"
