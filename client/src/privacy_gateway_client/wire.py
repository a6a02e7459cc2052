"""Requests as they are sent, and answers as they are read: what both clients share below their calls.

Errors of httpx and pydantic hold the request or its values. An error is therefore raised outside their `except` blocks,
so that it has no context.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from privacy_gateway_client.errors import AnswerInvalid, ConnectionLost, FieldError, InvalidRequest

Model = TypeVar("Model", bound=BaseModel)
Content = bytes | Callable[[], Iterable[bytes]] | None

KEY = "Idempotency-Key"
JSON_HEADERS = {"Content-Type": "application/json"}
LINES_TYPE = "application/x-ndjson"
_NOT_IN_PATHS = re.compile(r"[?#%\\\s\x00-\x1f]")

# what httpx raises when no complete answer arrives, and what of it occurs before a byte of the request has left
LOST = (httpx.TransportError, httpx.StreamError, httpx.DecodingError)
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)


@dataclass(frozen=True)
class Outgoing:
    """A request. `content`: bytes, or a function that opens an iterator of them for each attempt.

    repeatable: whether the request may be sent again after its bytes have left and no answer came: it has an
        idempotency key, reads, or costs nothing.

    Raises InvalidRequest for a name in `path` that would lead to another path: `../vault` in place of a domain's name.
    """

    method: str
    path: str
    params: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: Content = field(default=None, repr=False)
    repeatable: bool = True

    def __post_init__(self) -> None:
        if _NOT_IN_PATHS.search(self.path) or {"", ".", ".."} & set(self.path.split("/")[1:]):
            raise InvalidRequest((FieldError("path", "a name or an id is empty or has characters that none has"),))


def get(path: str, **params: Any) -> Outgoing:
    return Outgoing("GET", path, params=given(params))


def post(path: str, members: Mapping[str, Any] | None = None, *, repeatable: bool = True) -> Outgoing:
    """A POST with a JSON body, or without one."""
    if members is None:
        return Outgoing("POST", path, content=b"", repeatable=repeatable)
    return Outgoing("POST", path, headers=JSON_HEADERS, content=json_of(members), repeatable=repeatable)


def put(path: str, members: Mapping[str, Any], *, repeatable: bool = True) -> Outgoing:
    return Outgoing("PUT", path, headers=JSON_HEADERS, content=json_of(members), repeatable=repeatable)


def keyed(request: Outgoing, key: str | None) -> Outgoing:
    """The request under an idempotency key, which all of its retries have."""
    return replace(request, headers={**request.headers, KEY: key or new_key()})


def new_key() -> str:
    """A fresh idempotency key."""
    return secrets.token_hex(16)


def given(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that are not None."""
    return {name: value for name, value in params.items() if value is not None}


def json_of(members: Any) -> bytes:
    """The JSON of a request. Raises InvalidRequest for a value that JSON has no form of."""
    try:
        return json.dumps(members, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError):  # its text may quote the value
        pass
    raise InvalidRequest((FieldError("body", "a value is no JSON"),))


def connection_lost(error: Exception) -> ConnectionLost:
    """The error of this client for one of `LOST`."""
    return ConnectionLost(type(error).__name__, sent=not isinstance(error, _UNSENT))


def too_long() -> InvalidRequest:
    """The error of this client for an address that httpx refuses."""
    return InvalidRequest((FieldError("query", "the parameters make the address too long"),))


def parsed_json(content: bytes | str) -> Any:
    """An answer as JSON. Raises AnswerInvalid."""
    try:
        return json.loads(content)
    except ValueError:
        pass
    raise AnswerInvalid("the answer is not JSON")


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


def rows_of(members: object, member: str) -> list[dict[str, Any]]:
    """The list of JSON objects in a member of an answer. Raises AnswerInvalid."""
    found = members.get(member) if isinstance(members, dict) else None
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise AnswerInvalid("the answer does not have the expected list", (member,))
    return found


@dataclass(frozen=True)
class Event:
    """An event of a stream of server-sent events."""

    name: str
    id: str | None
    data: str


class EventReader:
    """Takes the lines of a stream one by one, and gives an event at each blank line that ends one."""

    def __init__(self) -> None:
        self._name = "message"
        self._data: list[str] = []
        self.last_id: str | None = None

    def take(self, line: str) -> Event | None:
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "data":
                self._data.append(value)
            elif name == "event":
                self._name = value
            elif name == "id":
                self.last_id = value
            return None
        event = Event(self._name, self.last_id, "\n".join(self._data)) if self._data else None
        self._name, self._data = "message", []
        return event
