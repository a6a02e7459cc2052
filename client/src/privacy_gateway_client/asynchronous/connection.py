"""The connection of a client to its gateway: one logical call, with its retries, its price and its answer.

Every call that charges has an idempotency key of its own, which all of its retries keep, so that a lost answer is never
paid twice. `bought` makes a charging call over many inputs: it divides them, uses the cache, and keeps what was paid
when one of the calls fails.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Any, Generic, TypeVar

import httpx
from typing_extensions import Self

from privacy_gateway_client.answers import Partial, Release
from privacy_gateway_client.errors import (
    BudgetExhausted,
    ConnectionLost,
    GatewayError,
    NotFound,
    PlanMismatch,
    Problem,
    Rejected,
    ReleaseGone,
    ReleaseInFlight,
    RoleMissing,
    TooLarge,
    problem_of,
)
from privacy_gateway_client.generated.models import Account, Privacy
from privacy_gateway_client.options import (
    ClientSettings,
    Limits,
    Nano,
    Reservation,
    Retry,
    active_caps,
    http_options,
    nano,
)
from privacy_gateway_client.wire import (
    KEY,
    LOST,
    AsyncFunction,
    Event,
    EventReader,
    Model,
    Outgoing,
    async_body,
    async_gather,
    async_in_thread,
    async_loop,
    async_sleep,
    connection_lost,
    get,
    keyed,
    new_key,
    parsed,
    parsed_json,
    post,
    rows_of,
    too_long,
    validated_answer,
)

_FREE = ("fill.mode", "body.fill.mode")  # the second one of a bulk release


class Connection:
    """Sends the requests of one client. All groups of its methods share it.

    gateway: its address. retry, limits, cache: the settings of the client.
    """

    def __init__(self, base_url: str, api_key: str, settings: ClientSettings) -> None:
        self._options = http_options(base_url, api_key, settings) | {"transport": settings.get("async_transport")}
        self._http, self._loop = httpx.AsyncClient(**self._options), async_loop()
        self.gateway = base_url.rstrip("/")
        self.retry = settings.get("retry") or Retry()
        self.limits = settings.get("limits") or Limits()
        self.cache = settings.get("cache")
        self._tenant = settings.get("tenant")
        self._prices: dict[bytes, Nano] = {}

    async def close(self) -> None:
        if self._loop is async_loop():
            await self._http.aclose()

    def _session(self) -> httpx.AsyncClient:
        """The connections of the running event loop. Those of another loop, which may be closed, cannot be used."""
        running = async_loop()
        if self._loop is not running:
            self._http, self._loop = httpx.AsyncClient(**self._options), running
        return self._http

    async def call(self, request: Outgoing, *, retry: Retry | None = None) -> httpx.Response:
        """Send a request until a complete answer arrives. Raises Problem and ConnectionLost.

        Repeated: what did not start (429, 503), what is in work under the same key (409), and a lost connection if the
        request is `repeatable` or no byte of it has left. Never repeated: a failure that was charged.
        """
        attempts = _Attempts(retry or self.retry, request)
        while True:
            try:
                answer = await self._send(request)
            except ConnectionLost as lost:
                await attempts.after(lost)
                continue
            problem = problem_of(answer.status_code, answer.headers, answer.content)
            if problem is None:
                return answer
            await attempts.after(problem)

    async def stream(self, request: Outgoing) -> Stream:
        """Send a request as `call` does, until the head of an answer arrives. The caller closes the stream.

        Raises Problem and ConnectionLost.
        """
        attempts = _Attempts(self.retry, request)
        while True:
            try:
                answer = await self._send(request, stream=True)
                stream = Stream(answer)
                if answer.status_code < 400:
                    return stream
                async with stream:
                    content = await stream.read()
            except ConnectionLost as lost:
                await attempts.after(lost)
                continue
            problem = problem_of(answer.status_code, answer.headers, content)
            if problem is not None:
                await attempts.after(problem)

    async def _send(self, request: Outgoing, *, stream: bool = False) -> httpx.Response:
        """One attempt. Raises ConnectionLost, and InvalidRequest for an address that is too long."""
        failure: GatewayError
        session = self._session()
        try:
            built = session.build_request(
                request.method,
                request.path,
                params=dict(request.params) or None,
                headers=request.headers,
                content=async_body(request.content),
            )
            return await session.send(built, stream=stream)
        except httpx.InvalidURL:
            failure = too_long()
        except LOST as error:
            failure = connection_lost(error)
        raise failure

    async def model(self, model: type[Model], request: Outgoing) -> Model:
        """The answer to a request as its model. Raises as `call` does, and AnswerInvalid."""
        return parsed(model, (await self.call(request)).content)

    async def json(self, request: Outgoing) -> dict[str, Any]:
        """The answer to a request as a JSON object. Raises as `call` does, and AnswerInvalid."""
        members: dict[str, Any] = parsed_json((await self.call(request)).content)
        return members

    async def rows(self, request: Outgoing, member: str) -> list[dict[str, Any]]:
        """The rows of a list that comes as a whole. Raises as `call` does, and AnswerInvalid."""
        return rows_of(await self.json(request), member)

    async def rows_as(self, model: type[Model], request: Outgoing, member: str) -> list[Model]:
        """The rows of a list that comes as a whole, each as its model. Raises as `call` does, and AnswerInvalid."""
        return [validated_answer(model, row) for row in await self.rows(request, member)]

    async def pages(self, path: str, member: str, model: type[Model] | None, **params: Any) -> AsyncIterator[Any]:
        """The rows of every page of a list, each page when it is needed: as their model, or else as JSON objects."""
        cursor: Any = None
        while True:
            members = await self.json(get(path, cursor=cursor, **params))
            for row in rows_of(members, member):
                yield row if model is None else validated_answer(model, row)
            cursor = members.get("next_cursor")
            if cursor is None:
                return

    async def delete(self, path: str) -> None:
        """Send a DELETE. If the first answer was lost, the thing may be gone already: that is a success."""
        request = Outgoing("DELETE", path)
        try:
            await self.call(request, retry=replace(self.retry, attempts=1))
            return
        except ConnectionLost:
            pass
        except Problem as problem:
            if not problem.may_repeat:
                raise
            await self.call(request)
            return
        with suppress(NotFound):
            await self.call(request)

    async def charged(
        self, request: Outgoing, key: str | None, stand_in: Mapping[str, Any] | None, count: int
    ) -> httpx.Response:
        """Send a request that may charge, under one idempotency key.

        stand_in: the same request with one document without its text, for its price. None: it costs nothing.
        Raises BudgetCapReached before anything is sent, and as `call` does.
        """
        caps = active_caps()
        reservation = None
        if caps and stand_in is not None and count:
            price = await self._price(stand_in)
            reservation = Reservation(caps, {unit: cost * count for unit, cost in price.items()})
        try:
            return await self.call(keyed(request, key))
        except (Problem, ConnectionLost) as error:
            if reservation is not None and _charged_nothing(error):
                reservation.cancel()
            raise

    async def _price(self, stand_in: Mapping[str, Any]) -> Nano:
        """The epsilon of each unit that one document costs, in units of 1e-9."""
        content = json.dumps(stand_in, sort_keys=True).encode()
        if content not in self._prices:
            costs: dict[str, int] = {}
            for line in await self._cost_lines(stand_in):
                costs[line["unit"]] = max(costs.get(line["unit"], 0), nano(line["cost"]["epsilon"]))
            self._prices[content] = costs
        return self._prices[content]

    async def _cost_lines(self, stand_in: Mapping[str, Any]) -> list[dict[str, Any]]:
        """What one document costs each account, and how many of them fit; none for a fill without a price."""
        try:
            return rows_of(await self.json(post("/budget/estimate", stand_in)), "accounts")
        except Rejected as error:
            if not any(one.field in _FREE for one in error.errors):
                raise
            return []

    async def fitting(self, stand_in: Mapping[str, Any], count: int, *, as_many_as_fit: bool, subjects: int = 1) -> int:
        """How many of `count` equal inputs the budget covers now: all of them, or with `as_many_as_fit` the first ones.

        Only the gateway's answer to each request is certain: another client may spend meanwhile. Inputs of several
        subjects are compared with the tenant's own accounts, and a key that may not read the budget with nothing.
        Raises BudgetExhausted, without having charged anything.
        """
        try:
            lines = await self._cost_lines(stand_in)
        except RoleMissing:
            if as_many_as_fit:
                raise
            return count
        own = [line for line in lines if subjects == 1 or line["account"].count("/") == 1]
        least = min((line for line in own if line["fits"] is not None), key=lambda line: line["fits"], default=None)
        if least is None or least["fits"] >= count:
            return count
        if as_many_as_fit and least["fits"]:
            return int(least["fits"])
        requested = {name: amount * count for name, amount in least["cost"].items()}
        facts = {"account": least["account"], "requested": requested, "remaining": least["remaining"]}
        error = BudgetExhausted(403, {"code": "budget-exhausted", **facts, "fits": least["fits"]})
        error.partial = Partial([], None)
        raise error

    async def tenant_name(self) -> str:
        """The tenant of the API key, as its accounts show it."""
        if self._tenant is None:
            budget = await self.json(get("/budget", limit=1))
            self._tenant = str(budget["accounts"][0]["account"]).split("/")[0]
        return self._tenant


class Stream:
    """An answer whose body is read as it arrives, once. `async with` (`with` in the blocking client) closes it."""

    def __init__(self, answer: httpx.Response) -> None:
        self._answer = answer

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._answer.aclose()

    async def read(self) -> bytes:
        """The whole body. Raises ConnectionLost."""
        failure: ConnectionLost
        try:
            return await self._answer.aread()
        except LOST as error:
            failure = connection_lost(error)
        raise failure

    async def chunks(self) -> AsyncGenerator[bytes]:
        """The body in pieces as they arrive. Raises ConnectionLost."""
        failure: ConnectionLost
        try:
            async for chunk in self._answer.aiter_bytes():
                yield chunk
            return
        except LOST as error:
            failure = connection_lost(error)
        raise failure

    async def lines(self) -> AsyncGenerator[str]:
        """The lines of the body without their ends. Raises ConnectionLost."""
        failure: ConnectionLost
        try:
            async for line in self._answer.aiter_lines():
                yield line
            return
        except LOST as error:
            failure = connection_lost(error)
        raise failure

    async def json_lines(self) -> AsyncGenerator[dict[str, Any]]:
        """The rows of JSON lines. Raises ConnectionLost and AnswerInvalid."""
        async for line in self.lines():
            if line:
                yield parsed_json(line)

    async def events(self) -> AsyncGenerator[Event]:
        """The server-sent events of the body. Raises ConnectionLost."""
        reader = EventReader()
        async for line in self.lines():
            event = reader.take(line)
            if event is not None:
                yield event


class MethodGroup:
    """A group of methods of a client."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection


class _Attempts:
    """The attempts of one call, and when the next one may start."""

    def __init__(self, retry: Retry, request: Outgoing) -> None:
        self._retry, self._request = retry, request
        self._sent = 0
        self._lost = False
        self._until = time.monotonic() + retry.seconds_max

    async def after(self, error: Problem | ConnectionLost) -> None:
        """Wait for the next attempt. Raises `error` if there is none."""
        error.idempotency_key = self._request.headers.get(KEY)
        if isinstance(error, Problem):
            repeats, after_s = error.may_repeat, error.retry_after_s
        else:
            repeats, after_s = self._request.repeatable or not error.sent, None
            self._lost = self._lost or error.sent
        error.uncertain = self._lost
        pause_s = self._retry.pause_s(self._sent, after_s)
        if not isinstance(error, ReleaseInFlight):
            self._sent += 1
        if not repeats or self._sent >= self._retry.attempts or time.monotonic() + pause_s > self._until:
            raise error
        await async_sleep(pause_s)


def _charged_nothing(error: Problem | ConnectionLost) -> bool:
    if isinstance(error, (BudgetExhausted, PlanMismatch, Rejected)):
        return True  # also after a lost attempt: a key that was charged is never refused
    if isinstance(error, ReleaseGone) or error.uncertain:
        return False
    return isinstance(error, ConnectionLost) or error.charged is False or error.may_repeat


T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Item:
    """What was released for one input: its row, its vector as little-endian float32, and facts of the answer."""

    row: Mapping[str, Any]
    privacy: Mapping[str, Any]
    vector: bytes = b""
    model: str | None = None
    dimension: int = 0

    def packed(self) -> bytes:
        """The entry of the cache."""
        vector = base64.b64encode(self.vector).decode()
        return json.dumps([self.row, self.privacy, vector, self.model, self.dimension]).encode()

    @classmethod
    def unpacked(cls, entry: bytes) -> Item:
        row, privacy, vector, model, dimension = json.loads(entry)
        return cls(row, privacy, base64.b64decode(vector), model, dimension)


@dataclass(frozen=True)
class PartAnswer:
    """The answer to one request: an item for each of its inputs, and what it says about all of them."""

    items: list[Item]
    privacy: Mapping[str, Any]
    budget: Mapping[str, Any] | None
    key: str | None
    replayed: bool
    members: Mapping[str, Any]

    @classmethod
    def of(cls, answer: httpx.Response, items: list[Item], members: Mapping[str, Any]) -> PartAnswer:
        return cls(
            items=items,
            privacy=members["privacy"],
            budget=members.get("budget"),
            key=answer.headers.get(KEY),
            replayed=answer.headers.get("Idempotency-Replayed") == "true",
            members=members,
        )

    def release(self, indices: Sequence[int]) -> Release:
        return Release(
            inputs=tuple(indices),
            privacy=validated_answer(Privacy, self.privacy),
            budget=None if self.budget is None else validated_answer(Account, self.budget),
            idempotency_key=self.key,
            replayed=self.replayed,
        )


@dataclass(frozen=True)
class BoughtItems:
    """The items of some inputs, by their index, and the releases that they come from.

    members: those of the first answer.
    """

    items: dict[int, Item]
    releases: list[Release]
    members: Mapping[str, Any]


async def bought(
    connection: Connection,
    weights: Sequence[int],
    buy: AsyncFunction[[list[int], str], PartAnswer],
    assemble: Callable[[BoughtItems], T],
    *,
    names: Sequence[bytes] | None,
    items_max: int,
    weight_max: int,
    key: str | None,
    members: Sequence[str],
    stand_in: Mapping[str, Any] | None,
    as_many_as_fit: bool,
    subjects: int = 1,
) -> T:
    """Buy what is not in the cache, in parts, and put all of it together.

    weights: bytes of each input. names: of the inputs in the cache, None without one.
    stand_in, as_many_as_fit, subjects: as of `Connection.fitting`, which is asked before the first of several parts. A
        call under a key of the caller is not compared with the budget, since its parts may be paid already.
    buy: buys some inputs, by their indices and under a key. assemble: makes the call's result.
    members: the members of the request whose refusal says that a part is too large.
    Raises the first part's error, whose `partial` is a `Partial` of the same result.
    """
    cached: dict[bytes, bytes] = {}
    cache = connection.cache
    if names is not None and cache is not None:
        cached = await async_in_thread(partial(cache.get, names))
    wanted = _wanted(len(weights), names, cached)

    async def one(part: range, own_key: str) -> PartAnswer:
        indices = [wanted[place] for place in part]
        try:
            answer = await buy(indices, own_key)
        except Rejected as error:
            error.renumber(indices)
            raise
        if names is not None and cache is not None:
            entries = [(names[index], item.packed()) for index, item in zip(indices, answer.items, strict=True)]
            await async_in_thread(partial(cache.put, entries))
        return answer

    if as_many_as_fit and key is not None:
        raise ValueError("as_many_as_fit has no idempotency_key, since how many inputs fit may change")
    pieces = ranges([weights[index] for index in wanted], items=items_max, weight=weight_max)
    try:
        if stand_in is not None and wanted and (as_many_as_fit or (len(pieces) > 1 and key is None)):
            count = len(wanted)
            count = await connection.fitting(stand_in, count, as_many_as_fit=as_many_as_fit, subjects=subjects)
            del wanted[count:]
            pieces = ranges([weights[index] for index in wanted], items=items_max, weight=weight_max)
        parts = await in_parts(connection, pieces, one, key=key, members=members)
    except GatewayError as error:
        some = _found(parts_done(error), wanted, names, cached)
        error.partial = Partial(sorted(some.items), assemble(some) if some.items else None)
        raise
    return assemble(_found(parts, wanted, names, cached))


def _wanted(count: int, names: Sequence[bytes] | None, cached: Mapping[bytes, bytes]) -> list[int]:
    """The inputs to buy: with a cache, those that it lacks, and of equal ones the first."""
    if names is None:
        return list(range(count))
    first: dict[bytes, int] = {}
    for index, name in enumerate(names):
        if name not in cached:
            first.setdefault(name, index)
    return list(first.values())


def _found(
    parts: Sequence[tuple[range, PartAnswer]],
    wanted: Sequence[int],
    names: Sequence[bytes] | None,
    cached: Mapping[bytes, bytes],
) -> BoughtItems:
    items: dict[int, Item] = {}
    releases: list[Release] = []
    members: Mapping[str, Any] = {}
    bought_names: dict[bytes, Item] = {}
    for part, answer in parts:
        indices = [wanted[place] for place in part]
        items.update(zip(indices, answer.items, strict=True))
        releases.append(answer.release(indices))
        members = members or answer.members
        if names is not None:
            bought_names.update((names[index], item) for index, item in zip(indices, answer.items, strict=True))
    for index, name in enumerate(names or ()):
        if index in items:
            continue
        if name in cached:
            items[index] = Item.unpacked(cached[name])
        elif name in bought_names:
            items[index] = bought_names[name]
        else:
            continue
        privacy = validated_answer(Privacy, items[index].privacy)
        releases.append(Release((index,), privacy, cached=True))
    return BoughtItems(dict(sorted(items.items())), releases, members)


async def cache_names(
    connection: Connection,
    path: str,
    parameters: Mapping[str, Any],
    contents: Callable[[], Sequence[bytes]],
    *,
    domain: str | None,
) -> list[bytes] | None:
    """The names of the inputs in the cache; None without a cache.

    The models are asked for with each call, since a domain may be built anew under the same name.
    """
    cache = connection.cache
    if cache is None:
        return None
    scope = {
        "gateway": connection.gateway,
        "tenant": await connection.tenant_name(),
        "models": await _models(connection, domain),
        "path": path,
        "parameters": parameters,
    }
    return await async_in_thread(lambda: [cache.name(scope, content) for content in contents()])


async def _models(connection: Connection, domain: str | None) -> dict[str, Any]:
    """What identifies the models behind an answer."""
    models = await connection.json(get("/models"))
    facts: dict[str, Any] = {"roles": [_stable(row) for row in models["models"]]}
    if domain is not None:
        rows = (await connection.json(get("/domains")))["domains"]
        facts["domain"] = [row for row in rows if row.get("name") == domain or domain == "auto"]
    return facts


def _stable(row: Mapping[str, Any]) -> dict[str, Any]:
    """What changes with the models of a role, and not with its device or its state."""
    kept = {name: value for name, value in row.items() if name in ("role", "vector_pack", "word_vectors", "tagger")}
    encoder = row.get("encoder") or {}
    return kept | {"encoder": encoder.get("fingerprint"), "infill": (row.get("infill") or {}).get("fingerprint")}


@dataclass(frozen=True)
class PartsDone(Generic[R]):
    """The parts of a call that had ended when another one failed."""

    parts: tuple[tuple[range, R], ...]


def parts_done(error: BaseException) -> tuple[tuple[range, Any], ...]:
    """The parts that had ended when this error was raised."""
    kept = getattr(error, "partial", None)
    return kept.parts if isinstance(kept, PartsDone) else ()


def ranges(weights: Sequence[int], *, items: int, weight: int) -> list[range]:
    """Cut a sequence into parts of at most `items` items and, if there are several items, of `weight` in total."""
    parts, start, total = [], 0, 0
    for index, one in enumerate(weights):
        if index > start and (index - start >= items or total + one > weight):
            parts.append(range(start, index))
            start, total = index, 0
        total += one
    if len(weights) > start:
        parts.append(range(start, len(weights)))
    return parts


async def in_parts(
    connection: Connection,
    parts: Sequence[range],
    operation: AsyncFunction[[range, str], R],
    *,
    key: str | None,
    members: Sequence[str],
) -> list[tuple[range, R]]:
    """Run an operation for each part, several at the same time; the results have the order of the input.

    A part that the gateway finds too large is sent as two halves. members: the members whose refusal says so.
    Raises the first part's error with `partial` (`PartsDone`), which holds what was received.
    """
    base = key or new_key()

    async def run(part: range) -> list[tuple[range, R]]:
        own = base if len(part) == parts[-1].stop else f"{base}.{part.start}-{part.stop}"
        try:
            return [(part, await operation(part, own))]
        except (TooLarge, Rejected) as error:
            if len(part) < 2 or not _too_many(error, members):
                raise
            middle = (part.start + part.stop) // 2
            first = await run(range(part.start, middle))
            try:
                second = await run(range(middle, part.stop))
            except GatewayError as second_error:
                second_error.partial = PartsDone((*first, *parts_done(second_error)))
                raise
            return first + second

    operations = [partial(run, part) for part in parts]
    outcomes = await async_gather(operations, concurrency=connection.limits.concurrency)
    done: list[tuple[range, R]] = []
    failure: Exception | None = None
    for outcome in outcomes:
        if outcome.error is None:
            done += outcome.value or []
            continue
        failure = failure or outcome.error
        done += parts_done(outcome.error)
    if failure is not None:
        if isinstance(failure, GatewayError):
            failure.partial = PartsDone(tuple(done))
        raise failure
    return done


def _too_many(error: TooLarge | Rejected, members: Sequence[str]) -> bool:
    return isinstance(error, TooLarge) or any(one.field.removeprefix("body.") in members for one in error.errors)
