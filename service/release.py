"""The way through the house, from the price on:  reserve -> run -> commit -> answer.

Authentication and validation come before (`service/auth.py`, the route); the price is the route's `Charge`s.
Each step below is one call, in order, and no byte leaves before the commit is durable. `release` answers a request with
one release; a stream (`service/stream.py`) makes many, each by `hold` and `run_held`, or `run_free`.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
import uuid
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from fastapi import Request, Response
from fastapi.responses import StreamingResponse

from core.accounting.events import Guarantee, PrivacyEvent
from core.amounts import epsilon_of
from core.errors import GatewayError, InvalidInput, LedgerError, NotStarted, Started
from core.ledger.keys import Claim
from core.ledger.records import Charge, Replay, Reserved
from gpu_workers.engine.protocol import Role, Task
from service import metrics
from service.auth import Caller
from service.budget import account_block, least_left
from service.house import House
from service.reuse import Parts, Reuse

log = logging.getLogger("privacy_gateway.release")

Buffer = bytes | memoryview
Rendered = dict[str, Any] | list[Buffer]
Render = Callable[[Any, dict[str, Any]], Rendered]

JSON = "application/json"
_IDEMPOTENCY_KEY = re.compile(r"^[\x21-\x7e]{1,255}$")
_ORJSON = orjson.OPT_SERIALIZE_NUMPY
_STORED_LEVEL = 1  # zlib: digits of floats compress by half, and higher levels hardly add to that
_PIECE_BYTES = 256 * 1024  # of an answer, written at once


@dataclass(frozen=True)
class ReleaseRequest:
    """What a route asks for.

    `charges` is the price, the event that the answer shows first; none for work without a guarantee. `collect` makes
    the results that `render` takes from those of the tasks. `render` makes the answer from them and the common blocks:
    a JSON object, or the pieces of a file of another `media_type`.
    `privacy` adds to the answer's privacy block, or says it in other words. `fingerprint` tells the request's body from
    any other, where the route has not read it as a whole. With `isolate_failures` a task that fails after its start
    leaves the others alone: `render` gets its error in its place, and it is paid for like the others. A release with
    `parts` may be answered from earlier ones, part by part.
    """

    charges: Sequence[Charge]
    role: Role
    tasks: Sequence[Task]
    render: Render
    privacy: Mapping[str, Any] = field(default_factory=dict)
    media_type: str = JSON
    fingerprint: bytes | None = None
    isolate_failures: bool = False
    collect: Callable[[list[Any]], Any] = list
    parts: Callable[[], Parts] | None = None

    @property
    def event(self) -> PrivacyEvent:
        """The event that the answer shows."""
        return self.charges[0].event


async def release(here: House, request: Request, caller: Caller, release_request: ReleaseRequest) -> Response:
    """Run `release_request` for `caller` and answer. Raises the errors of `core.errors`; see `service/problems.py`."""
    key = idempotency_key(request)
    request.state.headers["Idempotency-Key"] = key  # on a problem, too: it is how a lost answer is asked for again
    if not release_request.charges:
        started = time.perf_counter()
        async with _client_gone(request) as client_disconnected:
            body = await run_free(here, release_request, client_disconnected)
        request.state.headers["Server-Timing"] = f"run;dur={(time.perf_counter() - started) * 1000:.1f}"
        return _answer(body, release_request)

    reuse = None if "idempotency-key" in request.headers else await Reuse.of(here, caller.tenant, release_request)
    if reuse is not None:
        if not reuse.fresh:
            del request.state.headers["Idempotency-Key"]  # nothing is claimed under it
            return _answer(_body(await reuse.answer(here.ledger)), release_request)
        release_request = reuse.fresh_release()

    claim = here.master_key.claim(
        tenant=caller.tenant,
        route=request.scope["route"].path,
        key=key,
        body=await request.body() if release_request.fingerprint is None else release_request.fingerprint,
    )
    outcome = await _reserve(here, caller, release_request, claim)
    request.state.headers["Release-Id"] = outcome.release_id
    if isinstance(outcome, Replay):
        return _answer([_unpacked(outcome.response, release_request)], release_request, replayed=True)

    with _a_failure_costs(request):
        async with _client_gone(request) as client_disconnected:
            body = await run_held(here, caller, release_request, outcome, client_disconnected, stored=True)
    if reuse is not None:
        await reuse.keep(outcome.release_id)
    return _answer(body, release_request)


async def hold(here: House, caller: Caller, release_request: ReleaseRequest) -> Reserved:
    """Reserve for a release that no key can ask for again. Raises as `Ledger.reserve`."""
    outcome = await _reserve(here, caller, release_request, None)
    if isinstance(outcome, Replay):
        raise TypeError("a replay of what nobody claimed")
    return outcome


async def _reserve(
    here: House, caller: Caller, release_request: ReleaseRequest, claim: Claim | None
) -> Reserved | Replay:
    with metrics.stage("reserve"):
        return await here.ledger.reserve(
            caller.tenant, release_request.charges, hold_ttl_ms=int(here.settings.hold_ttl_s * 1000), claim=claim
        )


@contextmanager
def _a_failure_costs(request: Request) -> Iterator[None]:
    """Tell clients that retry a 5xx by themselves not to, where a hold is spent: each retry would cost again."""
    try:
        yield
    except NotStarted:
        raise
    except Exception:
        request.state.headers["X-Should-Retry"] = "false"
        raise


async def run_held(
    here: House,
    caller: Caller,
    release_request: ReleaseRequest,
    held: Reserved,
    client_disconnected: asyncio.Event,
    *,
    stored: bool,
) -> list[Buffer]:
    """Run under a hold, make the answer, commit; the ledger keeps a `stored` answer for replays.

    Work that did not start refunds the hold; any other failure spends it.
    """
    try:
        results = await _run(here, release_request, client_disconnected)
        body = _body(release_request.render(release_request.collect(results), _with_guarantee(held, release_request)))
    except NotStarted as error:
        await _settle(here, caller.tenant, held.release_id, cancel=True, reason=error.code)
        raise
    except Exception as error:
        reason = error.code if isinstance(error, GatewayError) else "internal"
        await _settle(here, caller.tenant, held.release_id, cancel=False, reason=reason)
        _count(caller.tenant, release_request, outcome="lost")
        raise
    with metrics.stage("commit"):
        kept = await _packed(body, release_request, here.settings.response_stored_bytes_max) if stored else None
        await here.ledger.commit(caller.tenant, held.release_id, response=kept)
    _count(caller.tenant, release_request, outcome="released")
    return body


async def run_free(here: House, release_request: ReleaseRequest, client_disconnected: asyncio.Event) -> list[Buffer]:
    """Work without a guarantee: nothing is held, charged or kept, and its timing may be told."""
    try:
        results = await _run(here, release_request, client_disconnected)
    except Started as error:
        error.charged = False
        raise
    return _body(release_request.render(release_request.collect(results), without_guarantee(release_request.privacy)))


async def _settle(here: House, tenant: str, release_id: str, *, cancel: bool, reason: str) -> None:
    """End a hold without output. If the ledger fails now, the hold stands and is spent at its deadline."""
    try:
        with metrics.stage("cancel" if cancel else "expire"):
            if cancel:
                await here.ledger.cancel(tenant, release_id, reason=reason)
            else:
                await here.ledger.expire(tenant, release_id, reason=reason)
    except LedgerError as error:
        log.warning("hold-not-settled", extra={"fields": {"release_id": release_id, "code": error.code}})


async def _run(here: House, release_request: ReleaseRequest, client_disconnected: asyncio.Event) -> list[Any]:
    with metrics.stage("run"):
        return await here.engine.run(
            release_request.role,
            release_request.tasks,
            timeout_s=here.settings.request_timeout_s,
            client_disconnected=client_disconnected,
            isolate_failures=release_request.isolate_failures,
        )


@asynccontextmanager
async def _client_gone(request: Request) -> AsyncIterator[asyncio.Event]:
    """An event that is set when the client closes the connection. The body has been read by now."""
    client_disconnected = asyncio.Event()

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        client_disconnected.set()

    watcher = asyncio.create_task(watch())
    try:
        yield client_disconnected
    finally:
        watcher.cancel()


def idempotency_key(request: Request) -> str:
    """The request's key, else a fresh one; either is returned, and can be used to ask for the same answer again.

    Raises:
        InvalidInput: the header is not 1 to 255 visible ASCII characters.
    """
    offered = request.headers.get("idempotency-key")
    if offered is None:
        return uuid.uuid4().hex
    if not _IDEMPOTENCY_KEY.match(offered):
        raise InvalidInput("Idempotency-Key must be 1 to 255 visible ASCII characters")
    return offered


def _with_guarantee(held: Reserved, release_request: ReleaseRequest) -> dict[str, Any]:
    return {
        "privacy": {**release_request.event.privacy_block(), "release_id": held.release_id, **release_request.privacy},
        "budget": account_block(least_left(release_request.event, held.accounts)),
    }


def without_guarantee(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The common blocks of an answer without a guarantee. `facts` add to the privacy block."""
    return {
        "privacy": {
            "guarantee": Guarantee.NONE.value,
            "note": "masked text itself is not in the output; kept text is unprotected",
            **facts,
        },
        "budget": None,
    }


def _body(rendered: Rendered) -> list[Buffer]:
    return [orjson.dumps(rendered, option=_ORJSON)] if isinstance(rendered, dict) else rendered


async def _packed(body: list[Buffer], release_request: ReleaseRequest, bytes_max: int) -> bytes | None:
    """The answer as the ledger keeps it; None for one that is too large. Noise as binary does not compress."""
    if sum(map(len, body)) > bytes_max:
        return None
    whole = b"".join(body)
    if release_request.media_type != JSON:
        return whole
    if len(whole) < _PIECE_BYTES:
        return zlib.compress(whole, _STORED_LEVEL)
    return await asyncio.to_thread(zlib.compress, whole, _STORED_LEVEL)


def _unpacked(stored: bytes, release_request: ReleaseRequest) -> bytes:
    return zlib.decompress(stored) if release_request.media_type == JSON else stored


def _answer(body: list[Buffer], release_request: ReleaseRequest, *, replayed: bool = False) -> Response:
    headers = {"Idempotency-Replayed": str(replayed).lower()}
    if release_request.media_type == JSON:
        return Response(b"".join(body), headers=headers, media_type=JSON)
    headers["Content-Length"] = str(sum(map(len, body)))
    return StreamingResponse(_pieces(body), headers=headers, media_type=release_request.media_type)


async def _pieces(body: list[Buffer]) -> AsyncIterator[Buffer]:
    """The body in small pieces, none of them copied: the server would copy what the socket does not take at once."""
    for buffer in body:
        view = memoryview(buffer)
        for start in range(0, len(view), _PIECE_BYTES):
            yield view[start : start + _PIECE_BYTES]


def _count(tenant: str, release_request: ReleaseRequest, *, outcome: str) -> None:
    for charge in release_request.charges:
        spent = epsilon_of(charge.event.epsilon_nano) * charge.times
        metrics.SPENT_EPSILON.labels(tenant, charge.event.unit.value, outcome).inc(spent)
