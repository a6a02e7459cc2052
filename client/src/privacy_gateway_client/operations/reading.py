"""Calls whose answers are read as they are: one model, JSON, the rows of a list, or a list that comes page by page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel

from privacy_gateway_client.core import Core
from privacy_gateway_client.effects import Op, Outgoing, emit
from privacy_gateway_client.errors import AnswerInvalid
from privacy_gateway_client.exchange import call, get, parsed, parsed_json, validated_answer


@dataclass(frozen=True)
class Event:
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


Model = TypeVar("Model", bound=BaseModel)


def fetched(core: Core, model: type[Model], request: Outgoing) -> Op[Model]:
    """The answer to a request as its model. Raises as `call`, and AnswerInvalid."""
    answer = yield from call(core.retry, request)
    return parsed(model, answer.content)


def fetched_json(core: Core, request: Outgoing) -> Op[dict[str, Any]]:
    answer = yield from call(core.retry, request)
    members: dict[str, Any] = parsed_json(answer.content)
    return members


def listed(core: Core, request: Outgoing, member: str) -> Op[list[dict[str, Any]]]:
    """The rows of a list that comes as a whole. Raises as `call`, and AnswerInvalid."""
    return _rows_of((yield from fetched_json(core, request)), member)


def rows(core: Core, request: Outgoing, member: str, model: type[Model]) -> Op[list[Model]]:
    """As `listed`, each row as its model."""
    return [validated_answer(model, row) for row in (yield from listed(core, request, member))]


def pages(core: Core, path: str, member: str, model: type[Model] | None, **params: Any) -> Op[None]:
    """Emit the rows of every page, as they are asked for; as JSON objects if there is no model."""
    cursor: Any = None
    while True:
        members = yield from fetched_json(core, get(path, cursor=cursor, **params))
        for row in _rows_of(members, member):
            yield from emit(row if model is None else validated_answer(model, row))
        cursor = members.get("next_cursor")
        if cursor is None:
            return


def _rows_of(members: object, member: str) -> list[dict[str, Any]]:
    found = members.get(member) if isinstance(members, dict) else None
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise AnswerInvalid("the answer does not have the expected list", (member,))
    return found
