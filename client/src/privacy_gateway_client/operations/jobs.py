"""Jobs: submit, follow until the end over lost connections, fetch what they made."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Union

from typing_extensions import Unpack

from privacy_gateway_client.answers import Job
from privacy_gateway_client.core import Core
from privacy_gateway_client.effects import Op, Outgoing, close_flow, emit, next_line, sleep
from privacy_gateway_client.errors import ConnectionLost, JobCancelled, JobFailed
from privacy_gateway_client.exchange import (
    JSON_HEADERS,
    LINES_TYPE,
    call,
    call_flow,
    get,
    given,
    json_of,
    parsed,
    parsed_json,
    post,
    rest_of,
)
from privacy_gateway_client.operations.catalogue import delete
from privacy_gateway_client.operations.reading import EventReader, fetched, pages
from privacy_gateway_client.options import DomainOptions, FinetuneOptions, InfillOptions, SynthesisOptions
from privacy_gateway_client.problems import line_problem
from privacy_gateway_client.progress import Progress, bar, silent

Rows = Union[Iterable[Mapping[str, Any]], str, "PathLike[str]"]


def build_domain(
    core: Core, name: str, documents: Rows, *, idempotency_key: str | None = None, **options: Unpack[DomainOptions]
) -> Op[Job]:
    """Build a domain pack from *public* documents: rows of `text`, `sentences` or `embeddings`. Costs no budget."""
    terms = {"name": name, **given(options)}
    return (yield from _submit(core, "domain", terms, {"documents": documents}, None, idempotency_key))


def tune_infill(
    core: Core, name: str, documents: Rows, *, idempotency_key: str | None = None, **options: Unpack[InfillOptions]
) -> Op[Job]:
    """Fine-tune the model that fills masked places, on masked documents. Guarantees nothing, costs no budget."""
    terms = {"name": name, **given(options)}
    return (yield from _submit(core, "infill", terms, {"documents": documents}, None, idempotency_key))


def synthesize(
    core: Core,
    name: str,
    rows: Rows,
    *,
    schema: Mapping[str, Any],
    method: str,
    epsilon: float,
    delta: float,
    row_count: str,
    idempotency_key: str | None = None,
    **options: Unpack[SynthesisOptions],
) -> Op[Job]:
    """Submit a release of a table, which charges once. `rows`: a list, or a file of JSON lines."""
    terms: dict[str, Any] = {"name": name, "schema": schema, "method": method, "epsilon": epsilon, "delta": delta}
    terms |= {"row_count": row_count, **given(options)}
    return (yield from _submit(core, "synthesis", terms, {"rows": rows}, terms, idempotency_key))


def finetune(
    core: Core,
    name: str,
    private: Rows,
    *,
    labels: Sequence[str],
    epsilon: float,
    delta: float,
    batch: int,
    rows: int | None = None,
    public: Rows | None = None,
    idempotency_key: str | None = None,
    **options: Unpack[FinetuneOptions],
) -> Op[Job]:
    """Submit a private training, which charges once. `private`, `public`: lists of rows, or files of JSON lines.

    rows: the number of private rows; counted if it is not given.
    """
    if not isinstance(private, (str, PathLike)):
        private = list(private)
    count = rows if rows is not None else sum(1 for _ in _lines(private))
    terms: dict[str, Any] = {"name": name, "labels": list(labels), "epsilon": epsilon, "delta": delta}
    terms |= {"rows": count, "batch": batch, **given(options)}
    parts = {"private": private, **({} if public is None else {"public": public})}
    return (yield from _submit(core, "finetune", terms, parts, terms, idempotency_key))


def list_jobs(core: Core, *, limit: int | None = None) -> Op[None]:
    """Every job of the tenant, newest first."""
    yield from pages(core, "/jobs", "jobs", Job, limit=limit)


def get_job(core: Core, job: Job | str) -> Op[Job]:
    return (yield from fetched(core, Job, get(f"/jobs/{_id(job)}")))


def cancel(core: Core, job: Job | str) -> Op[Job]:
    """Cancel a job; one that has ended stays what it is."""
    return (yield from fetched(core, Job, post(f"/jobs/{_id(job)}/cancel")))


def events(core: Core, job: Job | str) -> Op[None]:
    """The states of a job as they change, up to its end; continues after a lost connection."""
    yield from _follow(core, _id(job), lambda state: emit(state))


def wait(core: Core, job: Job | str, *, progress: bool | Progress = False) -> Op[Job]:
    """Wait for the end of a job, over lost connections and restarts of the gateway. Raises JobFailed, JobCancelled.

    progress: show a bar (by `rich`, where it is installed), or a function that takes each state of the job.
    """
    shown = bar() if progress is True else progress or silent

    def show(state: Job) -> Op[None]:
        shown(state)
        return
        yield  # a generator, as `_follow` expects

    try:
        last = yield from _follow(core, _id(job), show)
    finally:
        getattr(shown, "close", lambda: None)()
    if last.status == "cancelled":
        raise JobCancelled(last)
    if last.status == "failed":
        raise JobFailed(last)
    return last


def _follow(core: Core, job_id: str, on_state: Callable[[Job], Op[None]]) -> Op[Job]:
    seen: str | None = None
    failures = 0
    while True:
        try:
            request = Outgoing("GET", f"/jobs/{job_id}/events", headers=given({"Last-Event-ID": seen}))
            flow = yield from call_flow(core.retry, request)
            reader = EventReader()
            while (line := (yield from next_line(flow))) is not None:
                event = reader.take(line)
                if event is None:
                    continue
                failures = 0
                if event.name == "problem":
                    raise line_problem(parsed_json(event.data))
                state = parsed(Job, event.data)
                seen = event.id
                yield from on_state(state)
                if state.ended:
                    yield from close_flow(flow)
                    return state
        except ConnectionLost:
            failures += 1
            if failures >= core.retry.attempts:
                raise
        yield from sleep(core.retry.pause_s(failures, None))  # the gateway is stopping, or was lost


def artifact(core: Core, job: Job | str) -> Op[bytes]:
    """What the job made: a safetensors file."""
    return (yield from _file(core, job, "artifact"))


def delete_artifact(core: Core, job: Job | str) -> Op[None]:
    """Delete what the job made, with its card and report."""
    yield from delete(core, f"/jobs/{_id(job)}/artifact")


def card(core: Core, job: Job | str) -> Op[str]:
    """What the job made, described in Markdown."""
    return (yield from _file(core, job, "card")).decode()


def report(core: Core, job: Job | str) -> Op[bytes]:
    """The report of a synthesis: an HTML page."""
    return (yield from _file(core, job, "report"))


def sample(core: Core, job: Job | str, *, rows: int | None = None) -> Op[None]:
    """Fresh synthetic rows of a synthesis, as they arrive. Costs nothing."""
    flow = yield from call_flow(core.retry, _sample_request(job, rows, "jsonl"))
    while (line := (yield from next_line(flow))) is not None:
        if line:
            yield from emit(parsed_json(line))
    yield from close_flow(flow)


def sample_csv(core: Core, job: Job | str, *, rows: int | None = None) -> Op[bytes]:
    """Fresh synthetic rows as CSV."""
    flow = yield from call_flow(core.retry, _sample_request(job, rows, "csv"))
    return (yield from rest_of(flow))


def _sample_request(job: Job | str, rows: int | None, form: str) -> Outgoing:
    return post(f"/jobs/{_id(job)}/sample", given({"rows": rows, "format": form}))


def _file(core: Core, job: Job | str, name: str) -> Op[bytes]:
    answer = yield from call(core.retry, get(f"/jobs/{_id(job)}/{name}"))
    return answer.content


def _id(job: Job | str) -> str:
    return job.job_id if isinstance(job, Job) else job


def _submit(
    core: Core,
    kind: str,
    terms: Mapping[str, Any],
    rows: Mapping[str, Rows],
    stand_in: Mapping[str, Any] | None,
    key: str | None,
) -> Op[Job]:
    """Send a job under one key, as JSON or, from files and for large tables, as JSON lines."""
    kept = {name: part if isinstance(part, (str, PathLike)) else list(part) for name, part in rows.items()}
    request = _as_json(core, kind, terms, kept) or _as_lines(kind, terms, kept)
    answer = yield from core.charged(request, key, stand_in, 1)
    return parsed(Job, answer.content)


def _as_json(core: Core, kind: str, terms: Mapping[str, Any], rows: Mapping[str, Any]) -> Outgoing | None:
    if any(isinstance(part, (str, PathLike)) or len(part) > core.limits.job_json_rows for part in rows.values()):
        return None
    content = json_of({**terms, **rows})
    if len(content) > core.limits.job_json_bytes:
        return None
    return Outgoing("POST", f"/jobs/{kind}", headers=JSON_HEADERS, content=content)


def _as_lines(kind: str, terms: Mapping[str, Any], rows: Mapping[str, Any]) -> Outgoing:
    query = {
        name: value if isinstance(value, (str, int, float)) else json.dumps(value) for name, value in terms.items()
    }

    def content() -> Iterator[bytes]:
        for name, part in rows.items():
            for line in _lines(part):
                yield _public(line) if name == "public" else line

    return Outgoing("POST", f"/jobs/{kind}", params=query, headers={"Content-Type": LINES_TYPE}, content=content)


def _lines(rows: Rows) -> Iterator[bytes]:
    """Rows as JSON lines; those of a file as they are, without blank ones."""
    if isinstance(rows, (str, PathLike)):
        with Path(rows).open("rb") as file:
            for line in file:
                if line.strip():
                    yield line.rstrip(b"\r\n") + b"\n"
    else:
        for row in rows:
            yield json.dumps(row).encode() + b"\n"


def _public(line: bytes) -> bytes:
    """Mark a row of the public split. A line that is no object stays, and the job reports it."""
    try:
        row = json.loads(line)
    except ValueError:
        return line
    return line if not isinstance(row, dict) else json.dumps({**row, "split": "public"}).encode() + b"\n"
