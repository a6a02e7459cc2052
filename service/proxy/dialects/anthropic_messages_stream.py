"""The events of a streamed message, from the types of the Python SDK `anthropic` 2.12.0, `RawMessageStreamEvent`."""

from __future__ import annotations

import re
from typing import Any

from service.proxy.dialects.anthropic_messages_shapes import ANSWER, BLOCK, CITATION, DELTAS, STOP
from service.proxy.dialects.protocol import Event, Restorers
from service.proxy.dialects.restoring import Field, Rule, content_rule, restore_error, restore_shape, restore_slot
from service.proxy.dialects.shapes import Members, Shape, slots_of

# The text of a block of the answer itself; texts inside of results of tools are never the structured content.
_CONTENT = re.compile(r"(message\.)?(content\.\d+|content_block)\.text")
_WHOLE: dict[str, Shape] = {
    "message_start": Members({"message": ANSWER}),
    "content_block_start": Members({"content_block": BLOCK}),
    "message_delta": Members({"delta": STOP}),
}


def restore_blocks(shape: Shape, value: Any, restorers: Restorers, structured: bool) -> None:
    """Restore `value` in place; the text of its own blocks is what the request asked the content to be."""
    for slot in list(slots_of(shape, value, strict=False)):
        restore_slot(slot, restorers, content_rule(structured and bool(_CONTENT.fullmatch(slot.path))))


class MessagesStream:
    def __init__(self, restorers: Restorers, structured: bool) -> None:
        self._restorers = restorers
        self._structured = structured
        self._open: dict[tuple[int, str], Field] = {}

    def event(self, name: str | None, data: Any) -> list[Event]:
        if not isinstance(data, dict):
            return [(name, data)]
        kind = data.get("type") or name
        if kind == "content_block_delta" and isinstance(data.get("delta"), dict):
            return self._delta(name, data)
        if kind == "content_block_stop":
            return [*self._ended(_index(data)), (name, data)]
        if kind == "error":
            restore_error(data, self._restorers)
            return [*self.end(), (name, data)]
        events = self.end() if kind in ("message_delta", "message_stop") else []
        if isinstance(kind, str) and kind in _WHOLE:
            restore_blocks(_WHOLE[kind], data, self._restorers, self._structured)
        return [*events, (name, data)]

    def end(self) -> list[Event]:
        return [event for index in sorted({index for index, _ in self._open}) for event in self._ended(index)]

    def _delta(self, name: str | None, data: dict[str, Any]) -> list[Event]:
        index, delta = _index(data), data["delta"]
        kind = delta.get("type")
        if kind == "signature_delta":  # it signs the thinking before it
            return [*self._ended(index), (name, data)]
        if kind == "citations_delta":
            restore_shape(Members({"citation": CITATION}), delta, self._restorers)
        row = DELTAS.get(kind) if isinstance(kind, str) else None
        if row is None or not isinstance(delta.get(row[0]), str):
            return [(name, data)]
        written = delta[row[0]]
        if (index, kind) not in self._open:
            self._open[index, kind] = Field(self._restorers, self._rule(row[1]))
        delta[row[0]] = self._open[index, kind].feed(written)
        return [] if written and not delta[row[0]] else [(name, data)]

    def _rule(self, rule: Any) -> Rule:
        return content_rule(self._structured) if rule == "content" else rule

    def _ended(self, index: int) -> list[Event]:
        """End the texts of one block: the events for what they held back."""
        events: list[Event] = []
        for key in [key for key in self._open if key[0] == index]:
            rest = self._open.pop(key).end()
            delta = {"type": key[1], DELTAS[key[1]][0]: rest}
            data = {"type": "content_block_delta", "index": index, "delta": delta}
            events += [("content_block_delta", data)] if rest else []
        return events


def _index(data: dict[str, Any]) -> int:
    index = data.get("index")
    return index if isinstance(index, int) else 0
