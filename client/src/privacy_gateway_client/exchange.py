"""One logical call: its idempotency key, its retries, and its error."""

from __future__ import annotations

import json
import random
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from privacy_gateway_client.effects import Flow, Incoming, Op, Outgoing, close_flow, next_piece, open_flow, send, sleep
from privacy_gateway_client.errors import (
    AnswerInvalid,
    ConnectionLost,
    FieldError,
    InvalidRequest,
    Problem,
    ReleaseInFlight,
)
from privacy_gateway_client.problems import problem_of

Model = TypeVar("Model", bound=BaseModel)
KEY = "Idempotency-Key"
JSON_HEADERS = {"Content-Type": "application/json"}
LINES_TYPE = "application/x-ndjson"


@dataclass(frozen=True)
class Retry:
    """When a call is sent again.

    attempts: sendings of a request, at most. Waiting for a request that is in work counts as none.
    seconds_max: no attempt starts later than this after the first, in seconds.
    first_s, longest_s: the pauses double from `first_s` to `longest_s`, with jitter. `Retry-After` replaces them.
    """

    attempts: int = 8
    seconds_max: float = 300.0
    first_s: float = 0.5
    longest_s: float = 10.0

    def pause_s(self, number: int, retry_after_s: float | None) -> float:
        if retry_after_s is not None:
            return retry_after_s
        longest = min(self.first_s * 2.0 ** min(number, 16), self.longest_s)
        return longest * (0.5 + random.random() / 2)  # noqa: S311 - spreads clients over time, protects nothing


def new_key() -> str:
    """A fresh idempotency key."""
    return secrets.token_hex(16)


def keyed(request: Outgoing, key: str | None) -> Outgoing:
    """The request under an idempotency key, which all of its retries have."""
    return replace(request, headers={**request.headers, KEY: key or new_key()})


def call(retry: Retry, request: Outgoing) -> Op[Incoming]:
    """Send until a complete answer arrives. Raises Problem, ConnectionLost.

    Repeated: what did not start (429, 503), what is in work under the same key (409), and a lost connection if the
    request is `repeatable` or no byte of it has left. Never repeated: a failure that was charged."""
    attempts = _Attempts(retry, request)
    while True:
        try:
            answer = yield from send(request)
        except ConnectionLost as lost:
            yield from attempts.after(lost)
            continue
        problem = problem_of(answer.status, answer.headers, answer.content)
        if problem is None:
            return answer
        yield from attempts.after(problem)


def call_flow(retry: Retry, request: Outgoing) -> Op[Flow]:
    """As `call`, for an answer that is read piece by piece. The caller closes it."""
    attempts = _Attempts(retry, request)
    while True:
        try:
            flow = yield from open_flow(request)
            if flow.status < 400:
                return flow
            content = yield from rest_of(flow)
        except ConnectionLost as lost:
            yield from attempts.after(lost)
            continue
        problem = problem_of(flow.status, flow.headers, content)
        if problem is not None:
            yield from attempts.after(problem)


def rest_of(flow: Flow) -> Op[bytes]:
    """All bytes of a body; closes it."""
    pieces = []
    while (piece := (yield from next_piece(flow))) is not None:
        pieces.append(piece)
    yield from close_flow(flow)
    return b"".join(pieces)


class _Attempts:
    def __init__(self, retry: Retry, request: Outgoing) -> None:
        self._retry, self._request = retry, request
        self._sent = 0
        self._lost = False
        self._until = time.monotonic() + retry.seconds_max

    def after(self, error: Problem | ConnectionLost) -> Op[None]:
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
        yield from sleep(pause_s)


def json_of(members: Any) -> bytes:
    """The JSON of a request. Raises InvalidRequest for a value that JSON has no form of."""
    try:
        return json.dumps(members, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError):  # its text may quote the value
        pass
    raise InvalidRequest((FieldError("body", "a value is no JSON"),))


def post(path: str, members: Mapping[str, Any] | None = None, *, repeatable: bool = True) -> Outgoing:
    """A POST with a JSON body, or without one."""
    if members is None:
        return Outgoing("POST", path, content=b"", repeatable=repeatable)
    return Outgoing("POST", path, headers=JSON_HEADERS, content=json_of(members), repeatable=repeatable)


def put(path: str, members: Mapping[str, Any], *, repeatable: bool = True) -> Outgoing:
    return Outgoing("PUT", path, headers=JSON_HEADERS, content=json_of(members), repeatable=repeatable)


def get(path: str, **params: Any) -> Outgoing:
    return Outgoing("GET", path, params=given(params))


def given(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that are not None."""
    return {name: value for name, value in params.items() if value is not None}


def parsed(model: type[Model], content: bytes | str) -> Model:
    """An answer as its model. Raises AnswerInvalid, which names members and no value."""
    return _as_expected(model.model_validate_json, content)


def validated_answer(model: type[Model], value: Any) -> Model:
    """A part of an answer as its model. Raises AnswerInvalid, which names members and no value."""
    return _as_expected(model.model_validate, value)


def _as_expected(read: Callable[[Any], Model], value: Any) -> Model:
    failure: AnswerInvalid
    try:
        return read(value)
    except ValidationError as error:
        places = (".".join(map(str, one["loc"])) for one in error.errors()[:5])
        failure = AnswerInvalid("the answer does not have the expected members", tuple(places))
    raise failure


def parsed_json(content: bytes | str) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        pass
    raise AnswerInvalid("the answer is not JSON")
