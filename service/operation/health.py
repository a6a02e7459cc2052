"""Liveness, readiness and metrics. No key is needed; nothing of a tenant's text is shown.

A gateway is ready if every worker is warm and computes a public probe correctly, and the ledger takes a durable write.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from typing_extensions import TypedDict

from core.errors import DeadlineBeforeStart, GatewayError, QueueFull, TenantLimitReached, WorkerCold
from core.text.policy import MaskPolicy, SanitizeTask
from gpu_workers.engine.protocol import GATEWAY, Role, Task
from gpu_workers.engine.task_queue import Engine
from gpu_workers.handlers.tasks import EmbedTask
from service.http import problems
from service.http.answers import AnswerRoute, doc
from service.parts import Part
from service.preparation import IN_LOOP_SIZE_MAX, Preparation
from service.workers import Workers

if TYPE_CHECKING:  # the routes of health load as little as they can
    from core.ledger.transitions import Ledger


_REST = 9
_REST_S_MAX = 1.0


class Scrapes:
    """Makes the text of all metrics, once for all who wait for it. Used on the event loop only.

    It takes 10 to 100 milliseconds, by the number of routes and tenants, on the thread of `Preparation`. It then rests
    for nine times as long, up to a second.
    """

    def __init__(self, preparation: Preparation) -> None:
        self._preparation = preparation
        self._one_at_a_time = asyncio.Lock()
        self._rested_at = 0.0
        self._next: asyncio.Task[bytes] | None = None

    async def text(self) -> bytes:
        """The metrics, with values that are no older than the call."""
        if self._next is None:
            self._next = asyncio.create_task(self._made())
        return await asyncio.shield(self._next)

    async def _made(self) -> bytes:
        loop = asyncio.get_running_loop()
        async with self._one_at_a_time:
            await asyncio.sleep(self._rested_at - loop.time())
            self._next = None  # who calls from now on gets newer values
            text, seconds = await self._preparation.run(GATEWAY, IN_LOOP_SIZE_MAX + 1, _timed)
            self._rested_at = loop.time() + min(_REST * seconds, _REST_S_MAX)
            return text


def _timed() -> tuple[bytes, float]:
    started = time.perf_counter()
    return generate_latest(), time.perf_counter() - started


PROBE_S_MAX = 10.0
_PLANTED = "canary@example.com"
_EPSILON_NANO = 10**9


class Readiness:
    """Checks the gateway's parts; a success is valid for `cache_s` seconds."""

    def __init__(self, engine: Engine, ledger: Ledger, *, cache_s: float) -> None:
        self._engine = engine
        self._workers = Workers(engine)
        self._ledger = ledger
        self._cache_s = cache_s
        self._ready_until = 0.0
        self._checking = asyncio.Lock()

    def stages(self) -> dict[str, str]:
        """How far the workers of each role are."""
        return {role.value: self._engine.status(role).stage for role in self._engine.roles}

    async def check(self) -> None:
        """Raise the first error that a part has: WorkerCold, LedgerUnavailable or another of the tree."""
        async with self._checking:  # one check at a time, however many callers there are
            if time.monotonic() < self._ready_until:
                return
            await self._ledger.ping_write()
            await asyncio.gather(*(self._check_role(role) for role in self._engine.roles))
            self._ready_until = time.monotonic() + self._cache_s

    async def _check_role(self, role: Role) -> None:
        if role is Role.FILL:
            # It was checked at its start. A probe would wait behind a slow model, and the other roles do not need this
            # one.
            if not self._engine.status(role).ready:
                raise WorkerCold
            return
        probe = Task(_probe(role, self._workers.tagger_types), 1)
        try:
            results = await self._engine.run(
                role, [probe], tenant=GATEWAY, timeout_s=PROBE_S_MAX, client_disconnected=asyncio.Event()
            )
        except (QueueFull, TenantLimitReached, DeadlineBeforeStart):
            if self._engine.status(role).ready:
                return  # a busy role is ready
            raise
        _check_probe(role, results[0])


def _probe(role: Role, tagger_types: Sequence[str]) -> Any:
    """A public task of that role; the tagger reads its text as well."""
    if role is Role.EMBED:
        return EmbedTask(("This sentence is public.",), None, "sentence_codes", "general", _EPSILON_NANO)
    policy = MaskPolicy().completed(tagger_types)
    return SanitizeTask(text=f"Write to {_PLANTED} now.", policy=policy, fill="class_marker")


def _check_probe(role: Role, result: Any) -> None:
    """Raises WorkerCold when the worker's answer is wrong: such a worker must not serve."""
    if role is Role.EMBED:
        right = bool(np.isfinite(result.vector).all())
    else:
        right = _PLANTED not in result.text and bool(result.spans)
    if not right:
        raise WorkerCold


router = APIRouter(route_class=AnswerRoute, tags=["operation"])
metrics_router = APIRouter(tags=["operation"])


class Alive(TypedDict):
    """The process answers."""

    status: Annotated[str, doc("Always `alive`.")]


class ReadyState(TypedDict):
    """The gateway is ready."""

    status: Annotated[str, doc("Always `ready`.")]
    workers: Annotated[dict[str, str], doc("How far the workers of each role are, as a word.")]


@router.get("/livez", summary="The process answers")
async def livez() -> Alive:
    return {"status": "alive"}


@router.get(
    "/readyz", summary="Workers are warm and right, the ledger takes a durable write", response_model=ReadyState
)
async def readyz(readiness: Part[Readiness]) -> ReadyState | Response:
    stages = readiness.stages()
    try:
        await readiness.check()
    except GatewayError as error:
        return problems.problem(503, "not-ready", "The gateway is not ready.", cause=error.code, workers=stages)
    return {"status": "ready", "workers": stages}


@metrics_router.get("/metrics", summary="Prometheus metrics", response_class=Response)
async def metrics(scrapes: Part[Scrapes]) -> Response:
    return Response(await scrapes.text(), media_type=CONTENT_TYPE_LATEST)
