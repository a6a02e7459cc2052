"""OpenAI's Responses, `POST /v1/responses`. The tables are in `openai_responses_shapes`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from core.errors import InvalidInput
from service.proxy.dialects import openai_responses_shapes as shapes
from service.proxy.dialects.common import CommonDialect
from service.proxy.dialects.openai_responses_stream import ResponsesStream, restore_parts
from service.proxy.dialects.protocol import CONTINUED, Restorers, StreamRestorer
from service.proxy.dialects.requests import first_text_of_user, flag, member
from service.proxy.dialects.shapes import slots_of
from service.proxy.slots import Slot

_RECALLING = (CONTINUED, "conversation", "background_options.continuation_id")


class OpenAIResponses(CommonDialect):
    name = "openai_responses"
    path = "/v1/responses"
    upstream_kind: Literal["openai", "anthropic"] = "openai"

    def slots(self, body: Any, unread: frozenset[str] = frozenset()) -> Iterator[Slot]:
        return slots_of(shapes.REQUEST, body, strict=True, unread=unread)

    def structured(self, body: Any) -> bool:
        return member(body, "text", "format", "type") in ("json_schema", "json_object")

    def messages_of_user(self, body: Any) -> str:
        messages = member(body, "input")
        return messages if isinstance(messages, str) else first_text_of_user(messages)

    def kept_by_upstream(self, body: Any) -> tuple[str, ...]:
        """`store` is true where a request does not say otherwise, and a `background` response is stored to be fetched.

        An `item_reference` in the input recalls one item.
        """
        kept = [path for path in _RECALLING if member(body, *path.split(".")) is not None]
        kept += ["store"] if flag(body, "store", default=True) else []
        kept += ["background"] if flag(body, "background", default=False) else []
        items = member(body, "input")
        for number, item in enumerate(items if isinstance(items, list) else []):
            if isinstance(item, dict) and shapes.item_type(item) == "item_reference":
                kept.append(f"input.{number}")
        return tuple(kept)

    def continues(self, body: Any) -> str | None:
        previous = member(body, CONTINUED)
        if previous is None or isinstance(previous, str):
            return previous
        raise InvalidInput("This member must be a string.", field=CONTINUED)

    def answer_id(self, data: Any) -> str | None:
        found = member(data, "id") if member(data, "response") is None else member(data, "response", "id")
        return found if isinstance(found, str) and found else None

    def restore(self, answer: Any, restorers: Restorers, *, structured: bool = False) -> None:
        restore_parts(shapes.ANSWER, answer, restorers, structured)

    def stream(self, restorers: Restorers, *, structured: bool = False) -> StreamRestorer:
        return ResponsesStream(restorers, structured)
