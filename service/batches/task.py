"""One attempt at a batch, on the event loop of the gateway (`JobProcess`).

Each line is a call of its endpoint (`service/http/local_calls.py`), as the caller who created the batch, under an
`Idempotency-Key` of the job and the line's number. Guarantee: a line is charged at most once, however often the batch
is resumed: a repeated call gets the stored answer, or the error `release-gone`, which says that it was charged. No line
is called after the key was revoked or has expired, or while its tenant is not active. At most LINES_AT_ONCE lines are
called at a time. A line that the gateway or an upstream cannot take now is called again later.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import orjson
from starlette.exceptions import HTTPException

from core.errors import GatewayError, JobFailed, LedgerUnavailable, StorageFull, UnknownTenant
from core.ledger.records import TenantState
from core.state.jobs import JobRecord
from core.state.keystore import KeyStore
from gpu_workers.jobs.protocol import Failed, JobOrder, JobProgress, Succeeded
from service.admission import LoadLimits
from service.batches.rows import ERROR, LOST, OUTPUT, KeptRows
from service.http.auth import Caller
from service.http.body import JsonLimits, parse_json
from service.http.local_calls import LocalAnswer, LocalCalls
from service.jobs.storage import Storage
from service.preparation import Preparation

LINES_MAX = 50_000  # as OpenAI's
LINES_AT_ONCE = 4
WINDOW_S = 24 * 3600
CUSTOM_ID_CHARS_MAX = 256
_MEMBERS = {"custom_id", "method", "url", "body"}
_FLUSH_S = 1.0
_RETRY_S, _RETRY_S_MAX = 0.5, 30.0
_TRIES_MAX = 8  # of a line that an upstream or a limit refuses; about two minutes
_LINE_MARGIN_BYTES = 4096  # of a line, around its body

log = logging.getLogger("privacy_gateway.batches")


@dataclass(frozen=True)
class BatchSpec:
    """`headers`: what the endpoint reads besides the body."""

    endpoint: str
    caller: Caller
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class BatchParts:
    """What attempts work with."""

    calls: LocalCalls
    keys: KeyStore
    limits: LoadLimits
    storage: Storage
    preparation: Preparation
    json_limits: JsonLimits
    body_bytes_max: int


@dataclass(frozen=True)
class Line:
    """A valid line. `body`: the request, as JSON."""

    custom_id: str
    body: bytes = field(repr=False)


def read_line(content: bytes, endpoint: str, limits: JsonLimits) -> Line:
    """Raises JobFailed with the reason that OpenAI's clients know."""
    try:
        line = parse_json(content, limits)
    except (orjson.JSONDecodeError, HTTPException, GatewayError):
        raise JobFailed("The line is not valid JSON, or too deep or large.", reason="invalid_json_line") from None
    if not isinstance(line, dict) or line.keys() != _MEMBERS:
        raise JobFailed("A line is an object with custom_id, method, url and body.", reason="invalid_request")
    custom_id, body = line["custom_id"], line["body"]
    if not isinstance(custom_id, str) or not 0 < len(custom_id) <= CUSTOM_ID_CHARS_MAX:
        raise JobFailed(f"custom_id has 1 to {CUSTOM_ID_CHARS_MAX} characters.", reason="invalid_custom_id")
    if line["method"] != "POST":
        raise JobFailed("method must be POST.", reason="invalid_method")
    if line["url"] != endpoint:
        raise JobFailed("url must be the endpoint of the batch.", reason="mismatched_url")
    if not isinstance(body, dict) or body.get("stream"):
        raise JobFailed("body must be an object, and no request for a stream.", reason="invalid_body")
    return Line(custom_id, orjson.dumps(body))


class BatchTask:
    """Runs from its construction until it has sent `Succeeded` or `Failed`, or was killed."""

    def __init__(
        self, parts: BatchParts, order: JobOrder, *, job: JobRecord, on_message: Callable[[Any], None]
    ) -> None:
        self._parts = parts
        self._order = order
        self._spec: BatchSpec = order.spec
        self._job = job
        self._tenant = job.owner
        self._on_message = on_message
        self._stop = asyncio.Event()
        self._problem: JobFailed | None = None
        self._ends_at = job.created_ms / 1000 + WINDOW_S
        self._total = 0
        self._places = asyncio.Semaphore(LINES_AT_ONCE)
        self._is_expired = False
        self._main = asyncio.create_task(self._run())

    def send(self, message: Any) -> None:
        """Nothing is asked for: each line is charged as its endpoint charges it."""

    def kill(self) -> None:
        """Call no further line, and leave the calls that run: what has not started is not charged."""
        self._stop.set()

    async def stop(self) -> None:
        await self._main

    async def _run(self) -> None:
        try:
            message = await self._outcome()
        except JobFailed as problem:
            message = Failed(problem)
        except StorageFull:
            message = Failed(JobFailed("There is no disk space for further rows.", reason="storage-full"))
        except Exception as error:
            log.error("batch-failed", extra={"fields": {"job_id": self._job.job_id, "kind": type(error).__name__}})
            message = Failed(JobFailed(reason=type(error).__name__.lower()[:40]))
        if message is not None:
            self._on_message(message)

    async def _outcome(self) -> Succeeded | Failed | None:
        """None if it was killed."""
        self._rows = rows = await asyncio.to_thread(KeptRows, self._order.folder, self._order.key)
        self._report("validating")
        self._total = rows.total or await self._validated()
        if self._stop.is_set():
            return None
        await asyncio.to_thread(rows.keep_total, self._total)
        self._report("in_progress")
        called = asyncio.Event()
        flushing = asyncio.create_task(self._flush_until(called))
        try:
            await self._call_lines()
        finally:
            called.set()
            await flushing
            await rows.flush()
        if self._problem is not None:
            return Failed(self._problem)
        if self._stop.is_set():
            return None
        self._report("finalizing")
        return Succeeded(rows.result | {"expired": self._is_expired})

    async def _validated(self) -> int:
        """The number of lines. Raises JobFailed for the first line that is none of a batch."""
        seen: set[bytes] = set()
        total = 0
        async for lines in self._lines():
            size = sum(len(content) for _, content in lines)
            await self._parts.preparation.run(self._tenant, size, self._check, lines, seen)
            total += len(lines)
            if self._stop.is_set():
                break
        if not total:
            raise JobFailed("The file has no requests.", reason="empty_file")
        return total

    def _check(self, lines: list[tuple[int, bytes]], seen: set[bytes]) -> None:
        for number, content in lines:
            try:
                line = read_line(content, self._spec.endpoint, self._parts.json_limits)
                digest = blake2b(line.custom_id.encode("utf-8", "surrogatepass"), digest_size=16).digest()
                if digest in seen:
                    raise JobFailed("An earlier line has this custom_id.", reason="duplicate_custom_id")
                seen.add(digest)
            except JobFailed as problem:
                problem.line = number
                raise

    async def _lines(self) -> AsyncIterator[list[tuple[int, bytes]]]:
        """The lines of the file with their numbers, some at a time. Raises JobFailed for one that is too long, and for
        too many."""
        chunks: Iterator[bytes] = self._order.received()
        waiting, number, is_last = b"", 0, False
        while not is_last:
            chunk = await asyncio.to_thread(next, chunks, b"")
            is_last = not chunk
            *whole, waiting = (waiting + chunk).split(b"\n")
            if is_last and waiting:
                whole.append(waiting)
            lines = [(at, content) for at, content in enumerate(whole, number + 1) if content.strip()]
            number += len(whole)
            if max(map(len, [*whole, waiting])) > self._parts.body_bytes_max + _LINE_MARGIN_BYTES:
                raise JobFailed("A line is longer than the body of a request may be.", reason="line_too_long")
            if number > LINES_MAX:
                raise JobFailed(f"A batch has at most {LINES_MAX} lines.", reason="too_many_tasks")
            if lines:
                yield lines

    async def _call_lines(self) -> None:
        calls = set[asyncio.Task[None]]()
        try:
            async for lines in self._lines():
                for number, content in lines:
                    if number in self._rows.done:
                        continue
                    await self._places.acquire()
                    if self._stop.is_set():
                        return
                    call = asyncio.create_task(self._call_line(number, content))
                    calls.add(call)
                    call.add_done_callback(calls.discard)
                    call.add_done_callback(lambda _: self._places.release())
        finally:
            if calls:
                await asyncio.wait(calls)

    async def _call_line(self, number: int, content: bytes) -> None:
        """Call one line until it has an answer, and add its row. Ends the batch for an unforeseen error."""
        parts = self._parts
        try:
            line = await parts.preparation.run(
                self._tenant, len(content), read_line, content, self._spec.endpoint, parts.json_limits
            )
            request_id = f"{self._job.job_id}-{number}"
            answer = await self._answer(line, request_id)
            if answer is not None:
                self._rows.add(number, *_row(line.custom_id, request_id, answer, is_left=self._stop.is_set()))
        except Exception as error:
            self._end(error if isinstance(error, JobFailed) else JobFailed(reason=type(error).__name__.lower()[:40]))

    async def _answer(self, line: Line, request_id: str) -> LocalAnswer | None:
        """The answer to a line; None if the batch ends before. One of status 0: the window has ended."""
        headers = {**self._spec.headers, "Idempotency-Key": f"batch-{request_id}", "X-Request-Id": request_id}
        tries = 0
        while True:
            if time.time() >= self._ends_at:
                self._is_expired = True
                return LocalAnswer(0)
            if not await self._may_call():
                return None
            if self._parts.limits.in_flight.is_full(self._tenant):
                await self._pause(_RETRY_S)
                continue
            with await self._parts.limits.in_flight.wait(self._tenant):
                answer = await self._parts.calls.post(
                    self._spec.endpoint, line.body, self._spec.caller, headers, left=self._stop
                )
            wait = _retry(answer, tries)
            if wait is None:
                return answer
            tries += wait.counts
            if wait.is_long:
                self._places.release()
            await self._pause(wait.seconds)
            if wait.is_long:
                await self._places.acquire()

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)

    async def _may_call(self) -> bool:
        """Whether a line may be called now. Ends the batch once its key or its tenant has ended."""
        while not self._stop.is_set():
            try:
                state = await self._parts.keys.tenant_state(self._tenant)
                is_valid = await self._parts.keys.is_valid(self._tenant, self._spec.caller.key_id)
            except UnknownTenant:
                state, is_valid = TenantState.CLOSED, False
            except LedgerUnavailable:
                await self._pause(_RETRY_S)
                continue
            if state is not TenantState.ACTIVE:
                self._end(JobFailed("The tenant was suspended or closed.", reason="tenant-inactive"))
            elif not is_valid:
                self._end(JobFailed("The key that created the batch was revoked or has expired.", reason="key-ended"))
            else:
                return True
        return False

    def _end(self, problem: JobFailed) -> None:
        if not self._stop.is_set():
            self._problem = problem
            self._stop.set()

    async def _flush_until(self, called: asyncio.Event) -> None:
        while not called.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(called.wait(), _FLUSH_S)
            await self._may_call()  # else calls that run would hold a batch whose key has ended
            try:
                used = await self._parts.storage.used_by(self._tenant)
                await asyncio.to_thread(self._parts.storage.check, self._tenant, 0, used=used)
                await self._rows.flush()
            except StorageFull:
                self._end(JobFailed("There is no disk space for further rows.", reason="storage-full"))
            except LedgerUnavailable:
                continue
            self._report("in_progress")

    def _report(self, stage: str) -> None:
        """Progress. Until the lines are known to be valid, there are no numbers."""
        counts = self._rows.counts
        if not self._total:
            self._on_message(JobProgress(stage, 0.0))
            return
        metrics = {"rows": self._total, "rows_written": counts[OUTPUT], "rows_failed": counts[ERROR]}
        self._on_message(JobProgress(stage, counts.total() / self._total, metrics))


@dataclass(frozen=True)
class _Wait:
    """Call a line again after some seconds. `counts`: whether it may be called only _TRIES_MAX times. `is_long`: let
    other lines be called meanwhile."""

    seconds: float
    counts: bool = False
    is_long: bool = False


def _retry(answer: LocalAnswer, tries: int) -> _Wait | None:
    """None: the answer stands. It does where it was charged, or where a repetition would be answered likewise."""
    if answer.status < 400 or answer.headers.get("x-should-retry") == "false":
        return None
    seconds = min(_RETRY_S * 2**tries, _RETRY_S_MAX)
    error = _error_of(answer)
    if error.get("code") == "release-in-flight":  # of an attempt that died; its hold ends by itself
        return _Wait(2 * _RETRY_S, is_long=True)
    if error.get("charged") or not (answer.status in (408, 429) or answer.status >= 500):
        return None
    if error.get("released") is False and answer.status == 503:  # the gateway has no capacity, or Redis is away
        return _Wait(2 * _RETRY_S)
    return None if tries + 1 >= _TRIES_MAX else _Wait(seconds, counts=True)


def _error_of(answer: LocalAnswer) -> dict[str, Any]:
    try:
        error = orjson.loads(answer.body)["error"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return {}
    return error if isinstance(error, dict) else {}


def _row(custom_id: str, request_id: str, answer: LocalAnswer, *, is_left: bool) -> tuple[str, bytes]:
    """The kind of a row, and the row in OpenAI's shape. `is_left`: the call may have been interrupted."""
    row: dict[str, Any] = {"id": f"batch_req_{request_id}", "custom_id": custom_id, "response": None, "error": None}
    if not answer.status:
        message = "The window of the batch ended before this request was made; nothing was charged."
        return ERROR, orjson.dumps(row | {"error": {"code": "batch_expired", "message": message}})
    body: Any = orjson.Fragment(answer.body or b"null")
    kind, error = OUTPUT, {}
    if answer.status >= 400:
        kind, error = ERROR, _error_of(answer)
    if is_left and error.get("code") == "client-gone":  # and no retry, so it was charged before
        kind = LOST
    if kind == LOST or error.get("code") == "release-gone":
        body = {"error": error | {"charged": True}}
    row["response"] = {"status_code": answer.status, "request_id": request_id, "body": body}
    return kind, orjson.dumps(row)
