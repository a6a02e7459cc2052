"""Planted bugs of what answers show beside a release, and of the arithmetic that workers must share.

Each breaks a step of the guarantee that `docs/KNOWN_LIMITATIONS.md` states as "Clocks and failures": an answer shows
what is public, what was released, and what the table of fields lists, and nothing that another document has decided.
"""

import asyncio
import atexit
import itertools
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from audits.answer_fields import unlisted
from audits.answers_sent import Sent, priced
from audits.bug import Bug, Detector, check
from audits.detect_sentences import swap
from engine_kit import TOY_FACTS
from finetune_kit import checkpoint, labelled
from gateway_kit import Tenant
from inprocess_kit import Gateway
from job_kit import synthesis_order, training_order
from synthesis_kit import shop_rows

from core.amounts import Amount
from core.errors import BadCorpus, JobFailed
from core.state import jobs
from core.state.jobs import JobRecord, JobStatus
from gpu_workers.engine.handler import Ready
from gpu_workers.engine.local_engine import WorkerPool, WorkerPoolOptions
from gpu_workers.engine.protocol import Role
from gpu_workers.facts import EmbedderFacts
from gpu_workers.finetune import job as training_job
from gpu_workers.models.encoder import Encoder
from gpu_workers.synthesis import job as synthesis_job
from service.jobs import endpoints
from service.jobs.endpoints import job_block
from service.releases import pipeline
from service.sentdp import service as sentdp

_PLAN = {"epsilon": 50.0, "delta": 1e-3, "rows": 24, "batch": 8, "steps": 4}
_RECORD = JobRecord(
    owner="t", job_id="j", kind="finetune", label="towns", status=JobStatus.RUNNING, stage="training", progress=0.5,
    seq=3, gateway="g", run="r", state=None, lease_ms=0, attempts=1, created_ms=1, started_ms=2, ended_ms=None,
    cancel_requested=False, reserved=Amount(0), spent=Amount(1), metrics=None, problem=None, result=None,
)  # fmt: skip


@lru_cache(maxsize=1)
def _tenant() -> Tenant:
    """Of a gateway inside this process, so that a bug can be planted in it."""
    folder = tempfile.TemporaryDirectory(prefix="answers-")
    gateway = Gateway(Path(folder.name) / "data")

    def stop() -> None:
        gateway.stop()
        folder.cleanup()

    atexit.register(stop)
    return gateway.tenant(vector={"epsilon": 1000.0})


def _flagged(answers: Iterator[Sent]) -> str | None:
    found = sorted({f"{answer.operation}: {leaf}" for answer in answers for leaf in unlisted(answer)})
    return f"no row for {', '.join(found)}" if found else None


def _records(records: Iterator[JobRecord]) -> Iterator[Sent]:
    return (Sent("GET /jobs/{job_id}", 200, {}, job_block(record)) for record in records)


def _of_trainings() -> Iterator[JobRecord]:
    """The record at each report of a training, and at its end."""
    metrics: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        encoder = checkpoint(Path(folder), "bert")
        rows = [*labelled(24), *labelled(10, split="public")]
        order = training_order(Path(folder) / "job", encoder, rows, _PLAN)
        result = training_job.run(order, lambda _, __, shown=None: metrics.append(shown or {}), lambda: None)
    yield from (replace(_RECORD, metrics=shown) for shown in metrics)
    yield replace(_RECORD, status=JobStatus.SUCCEEDED, result=result)


def _of_syntheses() -> Iterator[JobRecord]:
    with tempfile.TemporaryDirectory() as folder:
        order = synthesis_order(Path(folder) / "job", shop_rows(60))
        yield replace(_RECORD, result=synthesis_job.run(order, lambda *_: None, lambda: None))


def _of_failures() -> Iterator[JobRecord]:
    for problem in (BadCorpus("A row is too long.", line=3, count=9), JobFailed("It failed.", reason="out-of-memory")):
        yield replace(_RECORD, status=JobStatus.FAILED, problem=jobs.problem_of(problem))


def _ids_follow_from_what_is_shown() -> bool:
    """The stream of a job that was stored three times, and of one that was stored eight times on its way there."""

    class Runner:
        store = SimpleNamespace(get=None)

        async def changed(self) -> bool:
            return False

    async def first_id(job: JobRecord) -> str | None:
        stream = endpoints.job_events(Runner(), job, SimpleNamespace(error=None), None)  # type: ignore[arg-type]
        return (await anext(stream)).id

    ids = [asyncio.run(first_id(replace(_RECORD, seq=seq))) for seq in (3, 8)]
    return ids[0] == ids[1] is not None


def _fingerprints_tell_arithmetic_apart() -> bool:
    single, half = (Encoder(dtype=dtype).facts() for dtype in (torch.float32, torch.bfloat16))
    return single.fingerprint != half.fingerprint and single.packs_of == half.packs_of


def _workers_of_one_role_compute_alike() -> bool:
    """Two workers report to a pool, the second one with other numbers: it gets no batch."""

    async def ready() -> list[bool]:
        pool = WorkerPool(Role.EMBED, WorkerPoolOptions(workers=[lambda: None] * 2))  # type: ignore[list-item]
        other = replace(TOY_FACTS, encoder=replace(TOY_FACTS.encoder, fingerprint="of other numbers"))
        for slot, facts in zip(pool._slots, (TOY_FACTS, other), strict=True):
            slot.process = SimpleNamespace(kill=lambda: None)  # type: ignore[assignment]
            pool._received(slot, Ready(facts))
        return [slot.ready for slot in pool._slots]

    return asyncio.run(ready()) == [True, False]


RELEASES = Detector("fields of releases", lambda: _flagged(priced(_tenant())))
TRAININGS = Detector("fields of a training's record", lambda: _flagged(_records(_of_trainings())))
SYNTHESES = Detector("fields of a synthesis's record", lambda: _flagged(_records(_of_syntheses())))
FAILURES = Detector("fields of a failed job", lambda: _flagged(_records(_of_failures())))
IDS = check("the id of an event follows from what it shows", _ids_follow_from_what_is_shown)
FINGERPRINTS = check("a fingerprint tells arithmetic apart", _fingerprints_tell_arithmetic_apart)
POOL = check("workers of one role compute alike", _workers_of_one_role_compute_alike)


def _time_left(real: Any) -> Any:
    def broken(report: Any, progress: Any) -> None:
        real(lambda stage, share, shown: report(stage, share, {**shown, "eta_s": 1.5}), progress)

    return broken


def _with(**members: Any) -> Any:
    """The returned object has further members, each calculated from the function's arguments."""

    def make(real: Any) -> Any:
        def broken(*args: Any, **kwargs: Any) -> Any:
            return real(*args, **kwargs) | {name: of(*args) for name, of in members.items()}

        return broken

    return make


def _timed(real: Any) -> Any:
    @contextmanager
    def broken(request: Any) -> Iterator[None]:
        request.state.headers["Server-Timing"] = "run;dur=1.5"
        with real(request):
            yield

    return broken


def _tokens(_: int, __: Any, task: Any, *___: Any) -> int:
    return int(task.weight)


def _longest(_: int, __: Any, task: Any, *___: Any) -> int:
    return max(map(len, task.sentences or ("",)))


def _counts_changes(real: Any) -> Any:
    numbers = itertools.count(1)
    return lambda block: str(next(numbers))


BUGS: tuple[Bug, ...] = (
    Bug(
        "the time left of a training",
        "answers",
        "a report is a function of the plan and of the weights",
        swap(training_job, "_report", _time_left),
        TRAININGS,
    ),
    Bug(
        "a training's result with the pieces that were cut",
        "answers",
        "a result is a function of the plan and of the weights",
        swap(training_job, "_result", _with(cut_pieces=lambda *_: 17)),
        TRAININGS,
    ),
    Bug(
        "the seconds of a synthesis in its result",
        "answers",
        "a result is a function of the release",
        swap(synthesis_job, "_result", _with(seconds=lambda *_: 1.5)),
        SYNTHESES,
    ),
    Bug(
        "the length of the row that fails a job",
        "answers",
        "a problem has a line and a count, and nothing else of a row",
        swap(jobs, "problem_of", _with(chars=lambda *_: 90_001)),
        FAILURES,
    ),
    Bug(
        "events that count the changes of a job",
        "answers",
        "how often a state was stored is a clock",
        swap(endpoints, "event_id", _counts_changes),
        IDS,
    ),
    Bug(
        "a release with a count of tokens",
        "answers",
        "a row is the vector and public counts",
        swap(sentdp, "_row", _with(tokens=_tokens)),
        RELEASES,
    ),
    Bug(
        "a release with its longest sentence",
        "answers",
        "a row is the vector and public counts",
        swap(sentdp, "_row", _with(longest=_longest)),
        RELEASES,
    ),
    Bug(
        "Server-Timing on a release",
        "answers",
        "no header is a clock",
        swap(pipeline, "_discourage_retries", _timed),
        RELEASES,
    ),
    Bug(
        "one fingerprint for every arithmetic",
        "answers",
        "equal fingerprints are of equal vectors",
        lambda patch: patch.setattr(Encoder, "fingerprint", property(lambda encoder: encoder.packs_of)),
        FINGERPRINTS,
    ),
    Bug(
        "a worker that computes other numbers serves",
        "answers",
        "the vector of a sentence does not depend on who computes it",
        lambda patch: patch.setattr(EmbedderFacts, "computes", property(lambda _: ("", ""))),
        POOL,
    ),
)
