# Written by `make client` from asynchronous/jobs.py. Do not edit.
"""Jobs: submit them, follow them until their end over lost connections, and fetch what they made."""

import json
from collections.abc import Generator, Iterator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from os import PathLike
from pathlib import Path
from typing import Any, Union

from typing_extensions import Unpack

from privacy_gateway_client.answers import Job, Progress, bar, silent
from privacy_gateway_client.generated.connection import MethodGroup
from privacy_gateway_client.errors import ConnectionLost, JobCancelled, JobFailed, line_problem
from privacy_gateway_client.inputs import checked, listed
from privacy_gateway_client.options import DomainOptions, FinetuneOptions, InfillOptions, Limits, SynthesisOptions
from privacy_gateway_client.wire import (
    JSON_HEADERS,
    LINES_TYPE,
    Outgoing,
    sleep,
    get,
    given,
    json_of,
    parsed,
    parsed_json,
    post,
)

Rows = Union[Iterable[Mapping[str, Any]], str, "PathLike[str]"]


class Submission(MethodGroup):
    """The calls that submit a job."""

    def build_domain(
        self, name: str, documents: Rows, *, idempotency_key: str | None = None, **options: Unpack[DomainOptions]
    ) -> Job:
        """Build a domain pack from *public* documents: rows of `text`, `sentences` or `embeddings`. Costs no budget."""
        terms = {"name": name, **checked(DomainOptions, options)}
        return self._submit("domain", terms, {"documents": documents}, None, idempotency_key)

    def tune_infill(
        self, name: str, documents: Rows, *, idempotency_key: str | None = None, **options: Unpack[InfillOptions]
    ) -> Job:
        """Fine-tune the model that fills masked places, on masked documents. Guarantees nothing, costs no budget."""
        terms = {"name": name, **checked(InfillOptions, options)}
        return self._submit("infill", terms, {"documents": documents}, None, idempotency_key)

    def synthesize(
        self,
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
    ) -> Job:
        """Submit a release of a table, which charges once. `rows`: a list, or a file of JSON lines."""
        terms: dict[str, Any] = {"name": name, "schema": schema, "method": method, "epsilon": epsilon, "delta": delta}
        terms |= {"row_count": row_count, **checked(SynthesisOptions, options)}
        return self._submit("synthesis", terms, {"rows": rows}, terms, idempotency_key)

    def finetune(
        self,
        name: str,
        private: Rows,
        *,
        labels: Sequence[str | int],
        epsilon: float,
        delta: float,
        batch: int | None = None,
        rows: int | None = None,
        public: Rows | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[FinetuneOptions],
    ) -> Job:
        """Submit a private training, which charges once. `private`, `public`: lists of rows, or files of JSON lines.

        rows: the number of private rows; counted if it is not given. The gateway chooses what else is left out.
        """
        if not isinstance(private, (str, PathLike)):
            private = list(private)
        count = rows if rows is not None else sum(1 for _ in _lines(private))
        terms: dict[str, Any] = {
            "name": name,
            "labels": listed("labels", labels, str, int),
            "epsilon": epsilon,
            "delta": delta,
        }
        terms |= {"rows": count, **given({"batch": batch}), **checked(FinetuneOptions, options)}
        parts = {"private": private, **({} if public is None else {"public": public})}
        return self._submit("finetune", terms, parts, terms, idempotency_key)

    def _submit(
        self,
        kind: str,
        terms: Mapping[str, Any],
        rows: Mapping[str, Rows],
        stand_in: Mapping[str, Any] | None,
        key: str | None,
    ) -> Job:
        """Send a job under one key, as JSON or, from files and for large tables, as JSON lines."""
        kept = {name: part if isinstance(part, (str, PathLike)) else list(part) for name, part in rows.items()}
        request = _as_json(self._connection.limits, kind, terms, kept) or _as_lines(kind, terms, kept)
        answer = self._connection.charged(request, key, stand_in, 1)
        return parsed(Job, answer.content)


class Jobs(MethodGroup):
    """Jobs that were submitted."""

    def list(self, *, limit: int | None = None) -> Iterator[Job]:
        """Every job of the tenant, newest first."""
        return self._connection.pages("/jobs", "jobs", Job, limit=limit)

    def get(self, job: Job | str) -> Job:
        """One job."""
        return self._connection.model(Job, get(_path(job)))

    def cancel(self, job: Job | str) -> Job:
        """Cancel a job; one that has ended stays what it is."""
        return self._connection.model(Job, post(f"{_path(job)}/cancel"))

    def events(self, job: Job | str) -> Iterator[Job]:
        """The states of a job as they change, up to its end; continues after a lost connection."""
        return self._states(job)

    def wait(self, job: Job | str, *, progress: bool | Progress = False) -> Job:
        """Wait for the end of a job, over lost connections and restarts of the gateway. Raises JobFailed, JobCancelled.

        progress: show a bar (by `rich`, where it is installed), or a function that takes each state of the job.
        """
        shown = bar() if progress is True else progress or silent
        try:
            with closing(self._states(job)) as states:
                for last in states:
                    shown(last)
        finally:
            getattr(shown, "close", lambda: None)()
        if last.status == "cancelled":
            raise JobCancelled(last)
        if last.status == "failed":
            raise JobFailed(last)
        return last

    def _states(self, job: Job | str) -> Generator[Job]:
        retry = self._connection.retry
        seen: str | None = None
        failures = 0
        while True:
            try:
                request = Outgoing("GET", f"{_path(job)}/events", headers=given({"Last-Event-ID": seen}))
                with self._connection.stream(request) as answer:
                    for event in answer.events():
                        failures = 0
                        if event.name == "problem":
                            raise line_problem(parsed_json(event.data))
                        state = parsed(Job, event.data)
                        seen = event.id
                        yield state
                        if state.ended:
                            return
            except ConnectionLost:
                failures += 1
                if failures >= retry.attempts:
                    raise
            sleep(retry.pause_s(failures, None))  # the gateway is stopping, or was lost

    def artifact(self, job: Job | str) -> bytes:
        """What the job made: a safetensors file."""
        return self._file(job, "artifact")

    def delete_artifact(self, job: Job | str) -> None:
        """Delete what the job made, with its card and report."""
        self._connection.delete(f"{_path(job)}/artifact")

    def card(self, job: Job | str) -> str:
        """What the job made, described in Markdown."""
        return (self._file(job, "card")).decode()

    def report(self, job: Job | str) -> bytes:
        """The report of a synthesis: an HTML page."""
        return self._file(job, "report")

    def _file(self, job: Job | str, name: str) -> bytes:
        return (self._connection.call(get(f"{_path(job)}/{name}"))).content

    def sample(self, job: Job | str, *, rows: int | None = None) -> Iterator[dict[str, Any]]:
        """Fresh synthetic rows of a synthesis, as they arrive. Costs nothing."""
        with self._connection.stream(_sample_request(job, rows, "jsonl")) as answer:
            for row in answer.json_lines():
                yield row

    def sample_csv(self, job: Job | str, *, rows: int | None = None) -> bytes:
        """Fresh synthetic rows as CSV."""
        with self._connection.stream(_sample_request(job, rows, "csv")) as answer:
            return answer.read()


def _path(job: Job | str) -> str:
    return f"/jobs/{job.job_id if isinstance(job, Job) else job}"


def _sample_request(job: Job | str, rows: int | None, form: str) -> Outgoing:
    return post(f"{_path(job)}/sample", given({"rows": rows, "format": form}))


def _as_json(limits: Limits, kind: str, terms: Mapping[str, Any], rows: Mapping[str, Any]) -> Outgoing | None:
    if any(isinstance(part, (str, PathLike)) or len(part) > limits.job_json_rows for part in rows.values()):
        return None
    content = json_of({**terms, **rows})
    if len(content) > limits.job_json_bytes:
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
