"""Synthetic rows, which cost nothing.

Guarantee: that of the job (`service/synthesis/job_kind.py`). Samples are post-processing of what it released.
"""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Depends, Response
from pydantic import Field

from core.errors import InvalidInput, JobNotSucceeded
from core.state.jobs import JobRecord, JobStatus
from gpu_workers.engine.fairness import Turns
from service.capability import Capability
from service.config.settings import Settings
from service.http.body import JsonRoute
from service.http.exchange import OpenStream, OpenStreamDep
from service.http.ndjson import MEDIA_TYPE, LinesAnswer, LineStream
from service.http.strict import Strict
from service.jobs.endpoints import JobDep, existing
from service.jobs.runner import JobRunner
from service.parts import Part
from service.synthesis.job_kind import SynthesisKind

if TYPE_CHECKING:
    from core.synthesis.schema import DeclaredTable
    from gpu_workers.synthesis.stored_generator import RowSource


router = APIRouter(route_class=JsonRoute, tags=["jobs"])

_ROWS_MAX = 1_000_000  # of an answer; a client may call again, at no cost
_BLOCK_NUMBERS = 20_000  # numbers that are drawn and written at once: 10 to 20 milliseconds of the front end


Format = Literal["jsonl", "csv"]


@dataclass(frozen=True)
class RowText:
    """Draws rows and writes them as text. This is post-processing: no private row is read."""

    source: RowSource
    declared: DeclaredTable
    form: Format

    def head(self) -> bytes:
        """The header: the names of the columns for CSV, nothing for JSON lines."""
        return b"" if self.form == "jsonl" else _csv([list(self.declared.schema.names)])

    def drawn(self, count: int) -> bytes:
        """`count` fresh rows."""
        from core.synthesis.encoding import decode_rows

        rows = decode_rows(self.source.sample(count))
        if self.form == "csv":
            return _csv([[_cell(value) for value in row.values()] for row in rows])
        return b"".join(orjson.dumps(self.declared.written(row)) + b"\n" for row in rows)


def open_rows(path: Path, dimension: int | None, form: Format) -> RowText:
    """The rows of an artifact. `dimension`: of embeddings, which JSON lines hold as lists. Raises ValueError."""
    # imported late: scipy, which a front end without such jobs does not need
    from core.synthesis.schema import DeclaredTable
    from gpu_workers.synthesis.stored_generator import load_source

    source = load_source(path)
    return RowText(source, DeclaredTable(source.schema, dimension), form)


def _csv(rows: list[list[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _cell(value: object) -> object:
    """A boolean as in JSON; a missing value is an empty cell."""
    return str(value).lower() if isinstance(value, bool) else value


class SampleTurns(Turns):
    """The turns of those who draw rows: blocks of synthetic rows are drawn one after the other."""

    def __init__(self) -> None:
        super().__init__(1)


class SampleRequest(Strict):
    """Body of `POST /jobs/{job_id}/sample`."""

    rows: int | None = Field(None, ge=1, description="Default: the table's, as far as it was public or released.")
    format: Literal["jsonl", "csv"] = "jsonl"


async def _succeeded(job: JobDep) -> JobRecord:
    """A synthesis that has succeeded. Raises UnknownJob, InvalidInput for another kind of job, JobNotSucceeded."""
    if job.kind != SynthesisKind.name:
        raise InvalidInput("only a synthesis makes rows", field="job_id")
    if job.status is not JobStatus.SUCCEEDED:
        raise JobNotSucceeded
    return job


SynthesisDep = Annotated[JobRecord, Depends(_succeeded)]


@router.post(
    "/jobs/{job_id}/sample",
    summary="Synthetic rows, as many as asked for; costs nothing",
    response_class=LinesAnswer,
    response_model=dict[str, Any],
)
async def draw_rows(
    body: SampleRequest,
    job: SynthesisDep,
    runner: Part[JobRunner],
    settings: Part[Settings],
    sampling: Part[SampleTurns],
    open_: OpenStreamDep,
) -> Response:
    """JSON lines, or CSV with a header; streamed."""
    result = job.result or {}
    count = body.rows or min(int(result["rows"]), _ROWS_MAX)
    if count > _ROWS_MAX:
        raise InvalidInput(f"at most {_ROWS_MAX} rows", field="rows")
    path = await existing(job, runner, ".safetensors")
    try:
        rows = await asyncio.to_thread(open_rows, path, result["dimension"], body.format)
    except ValueError:
        raise JobNotSucceeded("The artifact was removed or its file is broken.") from None
    media_type = MEDIA_TYPE if body.format == "jsonl" else "text/csv; charset=utf-8"
    return LineStream(
        _written(rows, count, sampling, job.owner, open_), idle_s=settings.stream_idle_s, media_type=media_type
    )


async def _written(
    rows: RowText, count: int, sampling: Turns, owner: str, stream: OpenStream
) -> AsyncGenerator[bytes, None]:
    """The rows, a block at a time. Blocks are drawn one after the other, in the turns of their owners.

    Raises the error of `stream` once that must end. The answer is then incomplete, and the connection closes.
    """
    yield rows.head()
    step = max(1, _BLOCK_NUMBERS // len(rows.declared.schema.names))
    for start in range(0, count, step):
        if stream.error is not None:
            raise stream.error
        await sampling.wait(owner, step)
        try:
            block = await asyncio.to_thread(rows.drawn, min(step, count - start))
        finally:
            sampling.end(owner)
        yield block


CAPABILITY = Capability(
    name="synthesis",
    routers=[router],
    services={SampleTurns: lambda _: SampleTurns()},
    job_kinds=lambda parts: [SynthesisKind(parts[Settings])],
)
