# Written by `make client` from asynchronous/jobs.py. Do not edit.
"""Jobs: submit them, follow them until their end over lost connections, and fetch what they made."""

import csv
import gzip
import json
import zlib
from collections.abc import Generator, Iterator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from io import TextIOWrapper
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, Union

from typing_extensions import Unpack

from privacy_gateway_client.answers import Job, Progress, bar, silent
from privacy_gateway_client.generated.connection import MethodGroup
from privacy_gateway_client.errors import (
    ConnectionLost,
    FieldError,
    InvalidRequest,
    JobCancelled,
    JobFailed,
    line_problem,
)
from privacy_gateway_client.inputs import checked, listed
from privacy_gateway_client.options import (
    DomainOptions,
    EvaluationOptions,
    FinetuneOptions,
    InfillOptions,
    Limits,
    ReleaseOptions,
    SynthesisOptions,
    active_caps,
)
from privacy_gateway_client.wire import (
    JSON_HEADERS,
    LINES_TYPE,
    Outgoing,
    in_thread,
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

    def evaluate(
        self, name: str, texts: Rows, *, idempotency_key: str | None = None, **options: Unpack[EvaluationOptions]
    ) -> Job:
        """Measure mechanisms and policies on own texts: rows of `text`, and of `label` and `person` if all have them.
        Guarantees nothing, costs no budget. The report of the job is an HTML page, its artifact the findings as
        JSON."""
        terms = {"name": name, **checked(EvaluationOptions, options)}
        return self._submit("evaluation", terms, {"texts": texts}, None, idempotency_key)

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

    def release(
        self,
        name: str,
        source: Rows | Mapping[str, Any],
        *,
        endpoint: str,
        body: Mapping[str, Any],
        row_count: int | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[ReleaseOptions],
    ) -> Job:
        """Submit a bulk release: the `body` of `endpoint` for every row of a source.

        source: a file of JSON lines, CSV or Parquet, by its suffix, which is sent as it is read; a list of rows; or
            objects of a store of the operator, such as `{"store": "lake", "prefix": "in", "format": "parquet"}`.
        row_count: how many rows the source has at most, for the price under a cap. The rows of JSON lines and CSV are
            counted instead.
        Raises InvalidRequest for a file of another suffix, and for a source without `row_count` under a cap.
        """
        found = checked(ReleaseOptions, options)
        columns = given({part: found.pop(f"{part}_column", None) for part in ("text", "id", "subject")})
        terms = {"name": name, "endpoint": endpoint, "body": body, **found}
        counted = None
        if isinstance(source, Mapping):
            members = {**terms, "source": {"columns": columns, **source} if columns else source}
            request = Outgoing("POST", "/jobs/release", headers=JSON_HEADERS, content=json_of(members))
        else:
            rows = source if isinstance(source, (str, PathLike)) else list(source)
            request = _upload({**terms, "source": {"columns": columns}}, rows)
            counted = in_thread(partial(rows_in, rows)) if active_caps() else None
        count = row_count if counted is None else counted
        if active_caps() and count is None:
            raise InvalidRequest((FieldError("row_count", "a cap needs the number of rows of this source"),))
        stand_in = {"endpoint": endpoint, "body": body, "source_rows": 1}
        answer = self._connection.charged(request, idempotency_key, stand_in, count or 0)
        return parsed(Job, answer.content)

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

    def pause(self, job: Job | str) -> Job:
        """Pause a job, which keeps what it holds; one that has ended stays what it is."""
        return self._connection.model(Job, post(f"{_path(job)}/pause"))

    def resume(self, job: Job | str) -> Job:
        """Resume a paused job."""
        return self._connection.model(Job, post(f"{_path(job)}/resume"))

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
        """What the job made, in memory: a safetensors file, the rows or the manifest of a bulk release, or the findings
        of an evaluation."""
        return self._file(job, "artifact")

    def download(self, job: Job | str, path: str | PathLike[str]) -> None:
        """Write what the job made to a file, as it arrives. The file is there as a whole or not at all."""
        failures = 0
        while True:
            try:
                with self._connection.stream(get(f"{_path(job)}/artifact")) as answer:
                    with _whole_file(path) as file:
                        for chunk in answer.chunks():
                            file.write(chunk)
                return
            except ConnectionLost:
                failures += 1
                if failures >= self._connection.retry.attempts:
                    raise
            sleep(self._connection.retry.pause_s(failures, None))

    def manifest(self, job: Job | str) -> dict[str, Any]:
        """What a bulk release has written: its parts, and the rows that were left out with the reason of each."""
        return self._connection.json(get(f"{_path(job)}/manifest"))

    def delete_artifact(self, job: Job | str) -> None:
        """Delete what the job made, with its card and report."""
        self._connection.delete(f"{_path(job)}/artifact")

    def card(self, job: Job | str) -> str:
        """What the job made, described in Markdown."""
        return (self._file(job, "card")).decode()

    def report(self, job: Job | str) -> bytes:
        """The report of a synthesis or an evaluation: an HTML page."""
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


@contextmanager
def _whole_file(path: str | PathLike[str]) -> Iterator[BinaryIO]:
    """A file that takes its name once the block has ended without an error."""
    draft = Path(f"{path}.draft")
    with draft.open("wb") as file:
        yield file
    draft.replace(path)


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


_MEDIA = {".jsonl": LINES_TYPE, ".ndjson": LINES_TYPE, ".csv": "text/csv", ".parquet": "application/vnd.apache.parquet"}
_CHUNK_BYTES = 1024 * 1024
_LINE_CHARS_MAX = 16 * 1024 * 1024  # of a row of CSV, as the gateway permits it


def _upload(terms: Mapping[str, Any], source: Rows) -> Outgoing:
    """Raises InvalidRequest for a file of another suffix."""
    request = _as_lines("release", terms, {"source": source})
    if not isinstance(source, (str, PathLike)):
        return request
    suffix = _suffix(source)
    if suffix not in _MEDIA:
        named = ", ".join(_MEDIA)
        raise InvalidRequest((FieldError("source", f"the name of the file ends with one of {named}, or with .gz"),))

    def content() -> Iterator[bytes]:
        with Path(source).open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                yield chunk

    return replace(request, headers={"Content-Type": _MEDIA[suffix]}, content=content)


def _suffix(path: str | PathLike[str]) -> str:
    """The suffix that says the format: that before `.gz`, if the file is compressed."""
    found = Path(path)
    return (found.with_suffix("") if found.suffix.lower() == ".gz" else found).suffix.lower()


def rows_in(source: Rows) -> int | None:
    """The number of rows of a list, of JSON lines or of CSV, with those that a job leaves out; None of other files, and
    of one that cannot be read."""
    if not isinstance(source, (str, PathLike)):
        return len(list(source))
    suffix = _suffix(source)
    try:
        if _MEDIA.get(suffix) == LINES_TYPE:
            with _opened(source) as lines:
                return sum(1 for line in lines if line.strip())
        if suffix == ".csv":
            csv.field_size_limit(_LINE_CHARS_MAX)
            with TextIOWrapper(_opened(source), encoding="utf-8-sig", errors="replace", newline="") as text:
                return max(0, sum(1 for row in csv.reader(text) if row) - 1)
    except (csv.Error, EOFError, zlib.error, gzip.BadGzipFile):
        return None
    return None


def _opened(path: str | PathLike[str]) -> Any:
    """A binary file of what is in the file, decompressed."""
    return gzip.open(path) if Path(path).suffix.lower() == ".gz" else Path(path).open("rb")


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
