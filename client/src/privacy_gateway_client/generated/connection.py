# Written by `make client` from asynchronous/connection.py. Do not edit.
"""The connection of a client to its gateway: one logical call, with its retries, its price and its answer.

Every call that charges has an idempotency key of its own, which all of its retries keep, so that a lost answer is never
paid twice.
"""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Any

import httpx
from typing_extensions import Self

from privacy_gateway_client.options import Nano, Reservation, active_caps, nano
from privacy_gateway_client.wire import body, sleep
from privacy_gateway_client.errors import BudgetExhausted, ConnectionLost, GatewayError, NotFound, PlanMismatch, Problem, Rejected, ReleaseGone, ReleaseInFlight
from privacy_gateway_client.options import Limits, Retry, Settings, http_options
from privacy_gateway_client.errors import problem_of
from privacy_gateway_client.wire import KEY, LOST, Event, EventReader, Model, Outgoing, connection_lost, get, keyed, parsed, parsed_json, post, rows_of, too_long, validated_answer

_FREE = "fill.mode"


class Connection:
    """Sends the requests of one client. All groups of its methods share it.

    gateway: its address. retry, limits, cache: the settings of the client.
    """

    def __init__(self, base_url: str, api_key: str, settings: Settings) -> None:
        transport = settings.get("transport")
        self._http = httpx.Client(transport=transport, **http_options(base_url, api_key, settings))
        self.gateway = base_url.rstrip("/")
        self.retry = settings.get("retry") or Retry()
        self.limits = settings.get("limits") or Limits()
        self.cache = settings.get("cache")
        self._tenant = settings.get("tenant")
        self._prices: dict[bytes, Nano] = {}

    def close(self) -> None:
        self._http.close()

    def call(self, request: Outgoing, *, retry: Retry | None = None) -> httpx.Response:
        """Send a request until a complete answer arrives. Raises Problem and ConnectionLost.

        Repeated: what did not start (429, 503), what is in work under the same key (409), and a lost connection if the
        request is `repeatable` or no byte of it has left. Never repeated: a failure that was charged.
        """
        attempts = _Attempts(retry or self.retry, request)
        while True:
            try:
                answer = self._send(request)
            except ConnectionLost as lost:
                attempts.after(lost)
                continue
            problem = problem_of(answer.status_code, answer.headers, answer.content)
            if problem is None:
                return answer
            attempts.after(problem)

    def stream(self, request: Outgoing) -> Stream:
        """Send a request as `call` does, until the head of an answer arrives. The caller closes the stream.

        Raises Problem and ConnectionLost.
        """
        attempts = _Attempts(self.retry, request)
        while True:
            try:
                answer = self._send(request, stream=True)
                stream = Stream(answer)
                if answer.status_code < 400:
                    return stream
                with stream:
                    content = stream.read()
            except ConnectionLost as lost:
                attempts.after(lost)
                continue
            problem = problem_of(answer.status_code, answer.headers, content)
            if problem is not None:
                attempts.after(problem)

    def _send(self, request: Outgoing, *, stream: bool = False) -> httpx.Response:
        """One attempt. Raises ConnectionLost, and InvalidRequest for an address that is too long."""
        failure: GatewayError
        try:
            built = self._http.build_request(
                request.method,
                request.path,
                params=dict(request.params) or None,
                headers=request.headers,
                content=body(request.content),
            )
            return self._http.send(built, stream=stream)
        except httpx.InvalidURL:
            failure = too_long()
        except LOST as error:
            failure = connection_lost(error)
        raise failure

    def model(self, model: type[Model], request: Outgoing) -> Model:
        """The answer to a request as its model. Raises as `call` does, and AnswerInvalid."""
        return parsed(model, (self.call(request)).content)

    def json(self, request: Outgoing) -> dict[str, Any]:
        """The answer to a request as a JSON object. Raises as `call` does, and AnswerInvalid."""
        members: dict[str, Any] = parsed_json((self.call(request)).content)
        return members

    def rows(self, request: Outgoing, member: str) -> list[dict[str, Any]]:
        """The rows of a list that comes as a whole. Raises as `call` does, and AnswerInvalid."""
        return rows_of(self.json(request), member)

    def rows_as(self, model: type[Model], request: Outgoing, member: str) -> list[Model]:
        """The rows of a list that comes as a whole, each as its model. Raises as `call` does, and AnswerInvalid."""
        return [validated_answer(model, row) for row in self.rows(request, member)]

    def pages(self, path: str, member: str, model: type[Model] | None, **params: Any) -> Iterator[Any]:
        """The rows of every page of a list, each page when it is needed: as their model, or else as JSON objects."""
        cursor: Any = None
        while True:
            members = self.json(get(path, cursor=cursor, **params))
            for row in rows_of(members, member):
                yield row if model is None else validated_answer(model, row)
            cursor = members.get("next_cursor")
            if cursor is None:
                return

    def delete(self, path: str) -> None:
        """Send a DELETE. If the first answer was lost, the thing may be gone already: that is a success."""
        request = Outgoing("DELETE", path)
        try:
            self.call(request, retry=replace(self.retry, attempts=1))
            return
        except ConnectionLost:
            pass
        except Problem as problem:
            if not problem.may_repeat:
                raise
            self.call(request)
            return
        with suppress(NotFound):
            self.call(request)

    def charged(
        self, request: Outgoing, key: str | None, stand_in: Mapping[str, Any] | None, count: int
    ) -> httpx.Response:
        """Send a request that may charge, under one idempotency key.

        stand_in: the same request with one document without its text, for its price. None: it costs nothing.
        Raises BudgetCapReached before anything is sent, and as `call` does.
        """
        caps = active_caps()
        reservation = None
        if caps and stand_in is not None and count:
            price = self._price(stand_in)
            reservation = Reservation(caps, {unit: cost * count for unit, cost in price.items()})
        try:
            return self.call(keyed(request, key))
        except (Problem, ConnectionLost) as error:
            if reservation is not None and _charged_nothing(error):
                reservation.cancel()
            raise

    def _price(self, stand_in: Mapping[str, Any]) -> Nano:
        """The epsilon of each unit that one document costs, in units of 1e-9."""
        content = json.dumps(stand_in, sort_keys=True).encode()
        if content not in self._prices:
            try:
                estimate = self.json(post("/budget/estimate", stand_in))
            except Rejected as error:
                if not any(one.field == _FREE for one in error.errors):
                    raise
                self._prices[content] = {}
                return {}
            costs: dict[str, int] = {}
            for line in estimate["accounts"]:
                costs[line["unit"]] = max(costs.get(line["unit"], 0), nano(line["cost"]["epsilon"]))
            self._prices[content] = costs
        return self._prices[content]

    def tenant_name(self) -> str:
        """The tenant of the API key, as its accounts show it."""
        if self._tenant is None:
            budget = self.json(get("/budget", limit=1))
            self._tenant = str(budget["accounts"][0]["account"]).split("/")[0]
        return self._tenant


class Stream:
    """An answer whose body is read as it arrives, once. `async with` (`with` in the blocking client) closes it."""

    def __init__(self, answer: httpx.Response) -> None:
        self._answer = answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._answer.close()

    def read(self) -> bytes:
        """The whole body. Raises ConnectionLost."""
        failure: ConnectionLost
        try:
            return self._answer.read()
        except LOST as error:
            failure = connection_lost(error)
        raise failure

    def lines(self) -> Generator[str]:
        """The lines of the body without their ends. Raises ConnectionLost."""
        failure: ConnectionLost
        try:
            for line in self._answer.iter_lines():
                yield line
            return
        except LOST as error:
            failure = connection_lost(error)
        raise failure

    def json_lines(self) -> Generator[dict[str, Any]]:
        """The rows of JSON lines. Raises ConnectionLost and AnswerInvalid."""
        for line in self.lines():
            if line:
                yield parsed_json(line)

    def events(self) -> Generator[Event]:
        """The server-sent events of the body. Raises ConnectionLost."""
        reader = EventReader()
        for line in self.lines():
            event = reader.take(line)
            if event is not None:
                yield event


class Group:
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

    def after(self, error: Problem | ConnectionLost) -> None:
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
        sleep(pause_s)


def _charged_nothing(error: Problem | ConnectionLost) -> bool:
    if isinstance(error, (BudgetExhausted, PlanMismatch, Rejected)):
        return True  # also after a lost attempt: a key that was charged is never refused
    if isinstance(error, ReleaseGone) or error.uncertain:
        return False
    return isinstance(error, ConnectionLost) or error.charged is False or error.may_repeat
