"""Anthropic's Messages, `POST /v1/messages`. The tables are in `anthropic_messages_shapes`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from service.proxy.dialects import anthropic_messages_shapes as shapes
from service.proxy.dialects.anthropic_messages_stream import MessagesStream, restore_blocks
from service.proxy.dialects.common import CommonDialect
from service.proxy.dialects.protocol import Restorers, StreamRestorer
from service.proxy.dialects.requests import first_text_of_user, member
from service.proxy.dialects.shapes import slots_of
from service.proxy.slots import Slot


class AnthropicMessages(CommonDialect):
    name = "anthropic_messages"
    path = "/v1/messages"
    upstream_kind: Literal["openai", "anthropic"] = "anthropic"

    def slots(self, body: Any, unread: frozenset[str] = frozenset()) -> Iterator[Slot]:
        return slots_of(shapes.REQUEST, body, strict=True, unread=unread)

    def structured(self, body: Any) -> bool:
        formats = (member(body, "output_config", "format", "type"), member(body, "output_format", "type"))
        return "json_schema" in formats

    def messages_of_user(self, body: Any) -> str:
        return first_text_of_user(member(body, "messages"))

    def kept_by_upstream(self, body: Any) -> tuple[str, ...]:
        return ("thread",) if member(body, "thread") is not None else ()

    def restore(self, answer: Any, restorers: Restorers, *, structured: bool = False) -> None:
        restore_blocks(shapes.ANSWER, answer, restorers, structured)

    def stream(self, restorers: Restorers, *, structured: bool = False) -> StreamRestorer:
        return MessagesStream(restorers, structured)
