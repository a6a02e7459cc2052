"""Lists that come page by page."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel

from privacy_gateway_client.core import Core
from privacy_gateway_client.effects import Op, emit
from privacy_gateway_client.exchange import call, get, parsed_json, validated_answer

Model = TypeVar("Model", bound=BaseModel)


def pages(core: Core, path: str, member: str, model: type[Model], **params: Any) -> Op[None]:
    """Emit the rows of every page, as they are asked for."""
    cursor: Any = None
    while True:
        answer = yield from call(core.retry, get(path, cursor=cursor, **params))
        members = parsed_json(answer.content)
        for row in members[member]:
            yield from emit(validated_answer(model, row))
        cursor = members.get("next_cursor")
        if cursor is None:
            return
