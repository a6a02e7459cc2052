"""Release pipeline after pricing: reserve, run, commit, respond.

Authentication and validation come before (`service/http/auth.py`, the endpoint); the price is the `charges` of the
`ReleaseRequest`. Each step below is one call, in order, and no byte leaves before the commit is durable. `release`
answers a request with one release. A stream (`service/sanitize/stream.py`) makes many, each by `hold` and `run_held`,
or by `run_free`.

Repeats. `Reuse` answers repeated documents and texts of a tenant from the release that was charged
(`REUSE_RETENTION_S`). Guarantee: an answer is a function of committed releases and of the pattern of repeats, that is,
of which parts of the tenant's requests are equal. Two histories of the same pattern can be distinguished no better than
by their charged releases. The pattern itself is public. Proof and limits: docs/concepts/reuse.md. A request with an
`Idempotency-Key` always gets a new release, which is not kept for repeats.
"""

from __future__ import annotations

import asyncio
import logging
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

import orjson
from fastapi import Request, Response

from core import spans
from core.accounting.events import Guarantee
from core.amounts import epsilon_of
from core.errors import ClientGone, GatewayError, LedgerError, NotStarted, ReleaseInFlight, Started, TaskFailed
from core.ledger.records import Replay, Reserved
from core.ledger.reuse import Attempts, KeptResult, ReuseStore
from core.ledger.transitions import Ledger
from core.master_key import Claim, MasterKey
from core.state.masking_counts import MaskingCounts
from core.text.policy import Sanitised
from gpu_workers.engine.task_queue import Engine
from service import metrics
from service.config.settings import Settings
from service.http.auth import Caller
from service.http.exchange import BuffersResponse, disconnect_of
from service.http.strict import attempt_number, idempotency_key, is_generated
from service.preparation import Preparation
from service.releases.answers import account_block, least_left
from service.releases.request import JSON, Buffer, ReleaseParts, ReleaseRequest, Rendered, Work

log = logging.getLogger("privacy_gateway.release")
_reuse_log = logging.getLogger("privacy_gateway.reuse")

GATEWAY_VERSION = version("privacy-gateway").encode()

_ORJSON = orjson.OPT_SERIALIZE_NUMPY
_STORED_LEVEL = 1  # zlib: digits of floats compress by half, and higher levels hardly add to that
_IN_LOOP_BYTES_MAX = 256 * 1024  # of an answer that is compressed on the event loop
_JOIN_PAUSE_S, _JOIN_PAUSE_S_MAX = 0.05, 1.0  # between two looks for the answer that another attempt waits for


@dataclass(frozen=True)
class _Attempt:
    """One of the attempts of a call by an SDK. `is_known`: an earlier one has the same idempotency key."""

    tag: str
    key: str
    is_known: bool


class Reuse:
    """One request: the parts that were released before, and the `fresh` parts, which are not yet released.

    Among equal parts of the request the first is fresh and the others are copies of it.
    """

    def __init__(
        self,
        store: ReuseStore,
        tenant: str,
        whole: ReleaseRequest,
        parts: ReleaseParts,
        tags: Sequence[str],
        found: Mapping[str, KeptResult],
    ) -> None:
        self._store = store
        self._tenant = tenant
        self._whole = whole
        self._parts = parts
        self._tags = tags
        self._results = {tag: parts.unpack(kept.content) for tag, kept in found.items()}
        self._release_ids = {tag: kept.release_id for tag, kept in found.items()}
        first = {tag: number for number, tag in reversed(list(enumerate(tags)))}
        self.fresh = sorted(number for tag, number in first.items() if tag not in found)
        self._reused = sorted(set(range(len(tags))) - set(self.fresh))

    @classmethod
    async def of(cls, store: ReuseStore | None, tenant: str, release_request: ReleaseRequest) -> Reuse | None:
        """None where nothing is reused: by setting, or because the release has no parts.

        Raises WorkerCold until the worker that would release the parts has reported its models, LedgerUnavailable.
        """
        if store is None or release_request.parts is None:
            return None
        parts = release_request.parts()
        tags = [store.tag(tenant, part.charges, [GATEWAY_VERSION, *part.origin]) for part in parts.parts]
        with metrics.stage("reuse"):
            found = await store.find(tenant, tags)
        return cls(store, tenant, release_request, parts, tags, found)

    def fresh_release(self) -> ReleaseRequest:
        """The release of the fresh parts. Its answer shows all parts."""
        own = self._parts.only(self.fresh) if self._reused else self._whole
        return replace(own, render=self._render, privacy=self._privacy)

    async def answer(self, ledger: Ledger) -> Rendered:
        """The answer to a request without fresh parts. Charges nothing. Raises as `Ledger.estimate`."""
        event = self._whole.event
        estimate = await ledger.estimate(self._tenant, self._whole.charges)
        budget = account_block(least_left(event, [line.account for line in estimate.lines]))
        rendered = self._render([], {"privacy": {**event.privacy_block(), **self._privacy}, "budget": budget})
        self._count()
        return rendered

    async def keep(self, release_id: str) -> None:
        """Keep the results of the committed release. A failure affects later repeats only."""
        tags = [self._tags[number] for number in self.fresh]
        results = {tag: self._parts.pack(self._results[tag]) for tag in tags}
        try:
            with metrics.stage("keep"):
                await self._store.keep(self._tenant, release_id, results)
        except LedgerError as error:
            _reuse_log.warning("results-not-kept", extra={"fields": {"release_id": release_id, "code": error.code}})
        self._count()

    @property
    def _privacy(self) -> dict[str, Any]:
        return {**self._whole.privacy, "reused": len(self._reused), "repeats": "public"}

    def _render(self, results: Sequence[Any], common: dict[str, Any]) -> Rendered:
        for number, result in zip(self.fresh, results, strict=True):
            self._results[self._tags[number]] = result
            self._release_ids[self._tags[number]] = common["privacy"]["release_id"]
        rendered = self._whole.render([self._results[tag] for tag in self._tags], common)
        if not isinstance(rendered, dict):
            raise TypeError("an answer in parts is JSON")
        for number in self._reused:
            rendered["data"][number]["reused_from"] = self._release_ids[self._tags[number]]
        return rendered

    def _count(self) -> None:
        for number in self._reused:
            for charge in self._parts.parts[number].charges:
                saved = epsilon_of(charge.event.epsilon_nano) * charge.times
                metrics.REUSED_EPSILON.labels(self._tenant, charge.event.unit.value).inc(saved)


class ReleasePipeline:
    """Runs release requests against the ledger and the engine."""

    def __init__(
        self,
        settings: Settings,
        *,
        ledger: Ledger,
        master_key: MasterKey,
        engine: Engine,
        reuse: ReuseStore | None,
        attempts: Attempts,
        preparation: Preparation,
        masking: MaskingCounts,
    ) -> None:
        """`reuse`: where results are kept for repeats; None where no release is reused. `masking`: where finds of work
        without a price are counted."""
        self._masking = masking
        self._settings = settings
        self._ledger = ledger
        self._master_key = master_key
        self._engine = engine
        self._reuse = reuse
        self._attempts = attempts
        self._preparation = preparation

    async def release(self, request: Request, caller: Caller, release_request: ReleaseRequest) -> Response:
        """Run the release and answer. Raises the errors of `core.errors`; see `service/http/problems.py`."""
        body, replayed = await self.body(request, caller, release_request)
        return _answer(body, release_request, replayed=replayed)

    async def body(
        self,
        request: Request,
        caller: Caller,
        release_request: ReleaseRequest,
        client_disconnected: asyncio.Event | None = None,
    ) -> tuple[list[Buffer], bool]:
        """Run the release. Returns the body of its answer, and whether it is a replay. `client_disconnected`: of the
        request, where it is already watched. Raises as `release`.

        A retry of an SDK has the key of the attempt that it repeats. It waits while that one runs, and gets its answer.
        """
        key = idempotency_key(request)
        request.state.headers["Idempotency-Key"] = key  # on a problem, too: a lost answer is fetched again by it
        if not release_request.charges:
            return await self._free(request, caller, release_request, client_disconnected), False

        body = await request.body() if release_request.fingerprint is None else release_request.fingerprint
        attempt = None
        if (number := attempt_number(request)) is not None:
            attempt = await self._attempt(caller, request, body, number, key)
            key = request.state.headers["Idempotency-Key"] = attempt.key
        reuse = None
        if is_generated(request):
            reuse = await Reuse.of(self._reuse, caller.tenant, release_request)
        if reuse is not None:
            if not reuse.fresh:
                del request.state.headers["Idempotency-Key"]  # nothing is claimed under it
                return await self._body(caller, await reuse.answer(self._ledger)), False
            release_request = reuse.fresh_release()
        if is_generated(request) and not (attempt and attempt.is_known):  # a replay needs no worker
            await self._check_capacity(caller, release_request)

        claim = self._master_key.claim(
            tenant=caller.tenant,
            route=request.scope["route"].path,
            key=key,
            body=body,
            generated=is_generated(request),
        )
        if attempt is None:
            outcome = await self._reserve(caller, release_request, claim, route_of(request))
        else:
            outcome = await self._join(request, caller, release_request, claim, attempt, client_disconnected)
        request.state.headers["Release-Id"] = outcome.release_id
        spans.current().set("gateway.release_id", outcome.release_id)
        if isinstance(outcome, Replay):
            return [_unpacked(outcome.response, release_request)], True

        with _discourage_retries(request):
            async with _watched(request, client_disconnected) as disconnected:
                answer = await self.run_held(caller, release_request, outcome, disconnected, stored=True)
        if reuse is not None:
            await reuse.keep(outcome.release_id)
        return answer, False

    async def _attempt(self, caller: Caller, request: Request, body: bytes, number: int, key: str) -> _Attempt:
        """The attempt with this number. Its idempotency key is `key`, or that of the attempt that a retry repeats.

        Raises LedgerUnavailable."""
        route: str = request.scope["route"].path
        tag = self._attempts.tag(tenant=caller.tenant, key_id=caller.key_id, route=route, body=body)
        known = await self._attempts.find(caller.tenant, tag) if number > 0 else None
        if known is None:
            return _Attempt(tag, key, is_known=False)
        attempt = _Attempt(tag, known, is_known=True)
        await self._keep_attempt(caller.tenant, attempt)  # for the next retry
        return attempt

    async def _join(
        self,
        request: Request,
        caller: Caller,
        release_request: ReleaseRequest,
        claim: Claim,
        attempt: _Attempt,
        client_disconnected: asyncio.Event | None,
    ) -> Reserved | Replay:
        """Reserve for an attempt. One that repeats another waits while that one runs.

        A client that has left is not charged: its next attempt may have been reserved before. Raises as
        `Ledger.reserve`, ClientGone."""
        gone = await request.is_disconnected() if client_disconnected is None else client_disconnected.is_set()
        if gone:
            raise ClientGone
        route = route_of(request)
        if not attempt.is_known:
            outcome = await self._reserve(caller, release_request, claim, route)
            await self._keep_attempt(caller.tenant, attempt)
            return outcome
        pause, until = _JOIN_PAUSE_S, time.monotonic() + self._settings.request_timeout_s
        async with _watched(request, client_disconnected) as disconnected:
            while True:
                try:
                    return await self._reserve(caller, release_request, claim, route)
                except ReleaseInFlight:
                    if time.monotonic() > until:
                        raise
                with suppress(TimeoutError):
                    await asyncio.wait_for(disconnected.wait(), pause)
                if disconnected.is_set():
                    raise ClientGone
                pause = min(2 * pause, _JOIN_PAUSE_S_MAX)

    async def _keep_attempt(self, tenant: str, attempt: _Attempt) -> None:
        """Store the key of an attempt. A failure affects its retries only, which are then charged."""
        try:
            await self._attempts.keep(tenant, attempt.tag, attempt.key)
        except LedgerError as error:
            log.warning("attempt-not-kept", extra={"fields": {"code": error.code}})

    async def _free(
        self,
        request: Request,
        caller: Caller,
        release_request: ReleaseRequest,
        client_disconnected: asyncio.Event | None,
    ) -> list[Buffer]:
        started = time.perf_counter()
        async with _watched(request, client_disconnected) as disconnected:
            body = await self.run_free(caller, release_request, disconnected)
        request.state.headers["Server-Timing"] = f"run;dur={(time.perf_counter() - started) * 1000:.1f}"
        return body

    async def hold(self, caller: Caller, release_request: ReleaseRequest, route: str) -> Reserved:
        """Reserve for a release that has no idempotency key. `route`: as `route_of`. Raises as `Ledger.reserve`."""
        outcome = await self._reserve(caller, release_request, None, route)
        if isinstance(outcome, Replay):
            raise TypeError("a release without a claim cannot be a replay")
        return outcome

    async def run_held(
        self,
        caller: Caller,
        release_request: ReleaseRequest,
        held: Reserved,
        client_disconnected: asyncio.Event,
        *,
        stored: bool,
    ) -> list[Buffer]:
        """Run under a hold, make the answer, commit. The ledger keeps a `stored` answer for replays.

        Work that did not start refunds the hold. Any other failure spends it.
        """
        started = False
        try:
            results = await self._run(caller, release_request, client_disconnected)
            started = True  # an error in what follows is no reason for a refund, whatever its class
            body = await self._rendered(caller, release_request, results, _with_guarantee(held, release_request))
        except Exception as error:
            refund = isinstance(error, NotStarted) and not started
            reason = error.code if isinstance(error, GatewayError) else "internal"
            await self._settle(caller.tenant, held.release_id, cancel=refund, reason=reason)
            if not refund:
                _count(caller.tenant, release_request, outcome="lost")
                if isinstance(error, GatewayError):
                    error.charged = True
            if started and isinstance(error, NotStarted):
                raise TaskFailed(reason="render") from None
            raise
        with metrics.stage("commit"):
            bytes_max = self._settings.response_stored_bytes_max
            kept = await _packed(body, release_request, bytes_max) if stored else None
            await self._ledger.commit(caller.tenant, held.release_id, response=kept)
        _count(caller.tenant, release_request, outcome="released")
        return body

    async def run_free(
        self, caller: Caller, release_request: ReleaseRequest, client_disconnected: asyncio.Event
    ) -> list[Buffer]:
        """Run work without a guarantee: nothing is held, charged or kept, and its timing may be shown."""
        results = await self.results(caller, release_request, client_disconnected)
        if masked := [result.spans.types() for result in results if isinstance(result, Sanitised)]:
            self._masking.note(caller.tenant, caller.key_id, None, requests=1, finds=sum(masked, Counter()))
        if release_request.follow is not None:
            following = await self._preparation.run(
                caller.tenant, release_request.answer_size(results), release_request.follow, results
            )
            return await self.run_free(caller, following, client_disconnected)
        return await self._rendered(caller, release_request, results, without_guarantee(release_request.privacy))

    async def results(self, caller: Caller, work: Work, client_disconnected: asyncio.Event) -> list[Any]:
        """The results of work that has no price, for an answer that is made of them elsewhere. Raises the errors of
        `run_free`."""
        try:
            return await self._run(caller, work, client_disconnected)
        except Started as error:
            error.charged = False
            raise

    async def _reserve(
        self, caller: Caller, release_request: ReleaseRequest, claim: Claim | None, route: str
    ) -> Reserved | Replay:
        hold_ttl_ms = int(self._settings.hold_ttl_s * 1000)
        with metrics.stage("reserve"):
            return await self._ledger.reserve(
                caller.tenant,
                release_request.charges,
                hold_ttl_ms=hold_ttl_ms,
                claim=claim,
                key_id=caller.key_id,
                route=route,
                words=caller.words,
            )

    async def _check_capacity(self, caller: Caller, release_request: ReleaseRequest) -> None:
        """Refuse what the queue would refuse, before anything is held. Raises QueueFull, TenantLimitReached."""
        await self._engine.wait_for_capacity(
            release_request.role, release_request.tasks, tenant=caller.tenant, timeout_s=0
        )

    async def _rendered(
        self, caller: Caller, release_request: ReleaseRequest, results: list[Any], common: dict[str, Any]
    ) -> list[Buffer]:
        collected = release_request.collect(results)
        size = release_request.answer_size(collected)
        rendered = await self._preparation.run(caller.tenant, size, release_request.render, collected, common)
        return await self._body(caller, rendered, size)

    async def _body(self, caller: Caller, rendered: Rendered, size: int = 0) -> list[Buffer]:
        """`size`: the estimated characters of the answer, where they are known."""
        if not isinstance(rendered, dict):
            return rendered
        return await self._preparation.run(caller.tenant, max(size, _numbers(rendered)), _encoded, rendered)

    async def _run(self, caller: Caller, work: Work, client_disconnected: asyncio.Event) -> list[Any]:
        with metrics.stage("run"):
            return await self._engine.run(
                work.role,
                work.tasks,
                tenant=caller.tenant,
                timeout_s=self._settings.request_timeout_s,
                client_disconnected=client_disconnected,
                isolate_failures=work.isolate_failures,
            )

    async def _settle(self, tenant: str, release_id: str, *, cancel: bool, reason: str) -> None:
        """End a hold without output. If the ledger fails now, the hold stays and is spent at its deadline."""
        try:
            with metrics.stage("cancel" if cancel else "expire"):
                if cancel:
                    await self._ledger.cancel(tenant, release_id, reason=reason)
                else:
                    await self._ledger.expire(tenant, release_id, reason=reason)
        except LedgerError as error:
            log.warning("hold-not-settled", extra={"fields": {"release_id": release_id, "code": error.code}})


def route_of(request: Request) -> str:
    """The route of a request as the journal names it: the path that the gateway declares, without its first slash."""
    path: str = request.scope["route"].path
    return path.removeprefix("/")


@contextmanager
def _discourage_retries(request: Request) -> Iterator[None]:
    """Ask clients that retry a 5xx by themselves not to, where a hold is spent: each retry would cost again."""
    try:
        yield
    except NotStarted:
        raise
    except Exception:
        request.state.headers["X-Should-Retry"] = "false"
        raise


def _watched(request: Request, client_disconnected: asyncio.Event | None) -> AbstractAsyncContextManager[asyncio.Event]:
    """What watches whether the client leaves."""
    return disconnect_of(request) if client_disconnected is None else nullcontext(client_disconnected)


def _with_guarantee(held: Reserved, release_request: ReleaseRequest) -> dict[str, Any]:
    event = release_request.event
    return {
        "privacy": {**event.privacy_block(), "release_id": held.release_id, **release_request.privacy},
        "budget": account_block(least_left(event, held.accounts)),
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


def _numbers(rendered: dict[str, Any]) -> int:
    """About how many numbers an answer in JSON holds."""
    return len(rendered.get("data", ())) * int(rendered.get("dimension", 1))


def _encoded(rendered: dict[str, Any]) -> list[Buffer]:
    return [orjson.dumps(rendered, option=_ORJSON)]


async def _packed(body: list[Buffer], release_request: ReleaseRequest, bytes_max: int) -> bytes | None:
    """The answer as the ledger keeps it; None for one that is too large. Noise as binary does not compress."""
    if sum(map(len, body)) > bytes_max:
        return None
    whole = b"".join(body)
    if release_request.media_type != JSON:
        return whole
    if len(whole) < _IN_LOOP_BYTES_MAX:
        return zlib.compress(whole, _STORED_LEVEL)
    return await asyncio.to_thread(zlib.compress, whole, _STORED_LEVEL)


def _unpacked(stored: bytes, release_request: ReleaseRequest) -> bytes:
    return zlib.decompress(stored) if release_request.media_type == JSON else stored


def _answer(body: list[Buffer], release_request: ReleaseRequest, *, replayed: bool = False) -> Response:
    headers = {"Idempotency-Replayed": str(replayed).lower()}
    if release_request.media_type == JSON:
        return Response(b"".join(body), headers=headers, media_type=JSON)
    return BuffersResponse(body, headers=headers, media_type=release_request.media_type)


def _count(tenant: str, release_request: ReleaseRequest, *, outcome: str) -> None:
    for charge in release_request.charges:
        spent = epsilon_of(charge.event.epsilon_nano) * charge.times
        metrics.SPENT_EPSILON.labels(tenant, charge.event.unit.value, outcome).inc(spent)
