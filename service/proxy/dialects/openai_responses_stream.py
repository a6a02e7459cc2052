"""The events of a streamed response, from the types of the Python SDK `openai` 3.54.0, `ResponseStreamEvent`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from service.proxy.dialects.openai_responses_shapes import ANNOTATION, ANSWER, ITEM, PART
from service.proxy.dialects.protocol import Event, Restorers
from service.proxy.dialects.requests import objects
from service.proxy.dialects.restoring import (
    Field,
    Positions,
    Rule,
    content_rule,
    move_all_positions,
    move_positions,
    restore_shape,
    restore_slot,
    whole,
)
from service.proxy.dialects.shapes import ERROR, TEXT, Each, Members, Shape, slots_of


def restore_parts(shape: Shape, value: Any, restorers: Restorers, structured: bool) -> None:
    """Restore `value` in place, and with each text of an answer the positions and log-probabilities beside it."""
    for slot in list(slots_of(shape, value, strict=False)):
        part = slot.owner
        if slot.key != "text" or not isinstance(part, dict) or part.get("type") != "output_text":
            restore_slot(slot, restorers)
            continue
        move_all_positions(objects(part.get("annotations")), Positions(restorers.whole, slot.value))
        if restore_slot(slot, restorers, content_rule(structured)) and "logprobs" in part:
            part["logprobs"] = []


@dataclass(frozen=True)
class _Text:
    """A text that comes as `NAME.delta` events: which of its `NAME.done` members has it whole, what tells it apart."""

    done: str | None
    indices: tuple[str, ...]
    rule: Rule = "text"


_PART = ("output_index", "content_index")
_SUMMARY = ("output_index", "summary_index")
_COMMAND = ("output_index", "command_index")
_ITEM = ("output_index",)
_TEXTS: dict[str, _Text] = {
    "response.output_text": _Text("text", _PART, "content"),
    "response.refusal": _Text("refusal", _PART),
    "response.reasoning_text": _Text("text", _PART),
    "response.reasoning_summary_text": _Text("text", _SUMMARY),
    "response.function_call_arguments": _Text("arguments", _ITEM, "json"),
    "response.mcp_call_arguments": _Text("arguments", _ITEM, "json"),
    "response.custom_tool_call_input": _Text("input", _ITEM),
    "response.code_interpreter_call_code": _Text("code", _ITEM),
    "response.shell_call_command": _Text("command", _COMMAND),
    "response.shell_call_output_content": _Text(None, _COMMAND),
    "response.audio.transcript": _Text(None, ()),
}
_DELTA_MEMBERS = ("stdout", "stderr")

_RESPONSE = Members({"response": ANSWER})
# Events that carry whole texts, and which texts end with them: those whose indices are the same. None: no text ends.
_WHOLE: dict[str, tuple[Shape, tuple[str, ...] | None]] = {
    "response.created": (_RESPONSE, None),
    "response.queued": (_RESPONSE, None),
    "response.in_progress": (_RESPONSE, None),
    "response.completed": (_RESPONSE, ()),
    "response.incomplete": (_RESPONSE, ()),
    "response.failed": (_RESPONSE, ()),
    "response.cancelled": (_RESPONSE, ()),
    "error": (Members({"message": TEXT, "param": TEXT, "error": ERROR}), ()),
    "response.output_item.added": (Members({"item": ITEM}), None),
    "response.output_item.done": (Members({"item": ITEM}), _ITEM),
    "response.content_part.added": (Members({"part": PART}), None),
    "response.content_part.done": (Members({"part": PART}), _PART),
    "response.reasoning_summary_part.added": (Members({"part": PART}), None),
    "response.reasoning_summary_part.done": (Members({"part": PART}), _SUMMARY),
    "response.shell_call_command.added": (Members({"command": TEXT}), None),
    "response.shell_call_output_content.done": (
        Members({"output": Each(Members({"stdout": TEXT, "stderr": TEXT}))}),
        _COMMAND,
    ),
}
_ANNOTATION = "response.output_text.annotation.added"


@dataclass
class _Open:
    """A text that has begun: its last event without the text, and what the upstream wrote of it."""

    field: Field
    written: Positions
    name: str | None
    event: dict[str, Any]
    member: str | None

    def rest(self) -> list[Event]:
        rest = self.field.end()
        return [(self.name, {**self.event, "delta": {self.member: rest} if self.member else rest})] if rest else []


class ResponsesStream:
    def __init__(self, restorers: Restorers, structured: bool) -> None:
        self._restorers = restorers
        self._structured = structured
        self._open: dict[tuple[Any, ...], _Open] = {}
        self._next: int | None = None

    def event(self, name: str | None, data: Any) -> list[Event]:
        if data == "[DONE]":
            return [*self.end(), (name, data)]
        if not isinstance(data, dict):
            return [(name, data)]
        if self._next is None and isinstance(data.get("sequence_number"), int):
            self._next = data["sequence_number"]
        kind = data.get("type") or name
        kind = kind if isinstance(kind, str) else ""
        text, _, last = kind.rpartition(".")
        if text in _TEXTS and last == "delta":
            events = self._delta(text, name, data)
        elif kind in _WHOLE:
            shape, indices = _WHOLE[kind]
            events = [] if indices is None else self._ended(data, indices)
            restore_parts(shape, data, self._restorers, self._structured)
            events.append((name, data))
        elif text in _TEXTS and last == "done":
            events = [*self._ended(data, _TEXTS[text].indices, text), (name, self._done(data, _TEXTS[text]))]
        else:
            if kind == _ANNOTATION:
                self._annotation(data)
            events = [(name, data)]
        return self._numbered(events)

    def end(self) -> list[Event]:
        return self._numbered(self._ended({}, ()))

    def _rule(self, text: _Text) -> Rule:
        return content_rule(self._structured) if text.rule == "content" else text.rule

    def _delta(self, kind: str, name: str | None, data: dict[str, Any]) -> list[Event]:
        delta = data.get("delta")
        owner: dict[str, Any] = delta if isinstance(delta, dict) else data
        keys = [key for key in ("delta", *_DELTA_MEMBERS) if isinstance(owner.get(key), str)]
        written = any(owner[key] for key in keys)
        changed = False
        for key in keys:
            known = self._text(kind, name, data, None if owner is data else key)
            if kind == "response.output_text":
                known.written.append(owner[key])
            restored = known.field.feed(owner[key])
            changed |= restored != owner[key]
            owner[key] = restored
        if changed:
            data.pop("obfuscation", None)
            if "logprobs" in data:
                data["logprobs"] = []
        emptied = written and not any(owner[key] for key in keys)
        return [] if emptied else [(name, data)]

    def _text(self, kind: str, name: str | None, data: dict[str, Any], member: str | None) -> _Open:
        key = (kind, member, *(_number(data.get(index)) for index in _TEXTS[kind].indices))
        known = self._open.get(key)
        if known is None:
            field = Field(self._restorers, self._rule(_TEXTS[kind]))
            known = self._open[key] = _Open(field, Positions(self._restorers.whole), name, {}, member)
        known.event = {key: value for key, value in data.items() if key not in ("delta", "obfuscation")}
        if "logprobs" in known.event:
            known.event["logprobs"] = []
        return known

    def _ended(self, data: dict[str, Any], indices: tuple[str, ...], kind: str | None = None) -> list[Event]:
        """End the open texts whose indices are those of `data`: the events for what they held back."""
        events: list[Event] = []
        for key, known in list(self._open.items()):
            same = all(_number(known.event.get(index)) == _number(data.get(index)) for index in indices)
            if same and kind in (None, key[0]):
                events += known.rest()
                if kind is None:
                    del self._open[key]
        return events

    def _done(self, data: dict[str, Any], text: _Text) -> dict[str, Any]:
        if text.done and isinstance(data.get(text.done), str):
            before = data[text.done]
            data[text.done] = whole(before, self._rule(text), self._restorers)
            if data[text.done] != before and "logprobs" in data:
                data["logprobs"] = []
        return data

    def _annotation(self, data: dict[str, Any]) -> None:
        restore_shape(Members({"annotation": ANNOTATION}), data, self._restorers)
        key = ("response.output_text", None, *(_number(data.get(index)) for index in _PART))
        if key in self._open:
            move_positions(data.get("annotation"), self._open[key].written)

    def _numbered(self, events: list[Event]) -> list[Event]:
        """Number the events that have a number without gaps, from the upstream's first number on."""
        for _, data in events:
            if self._next is not None and isinstance(data, dict) and "sequence_number" in data:
                data["sequence_number"] = self._next
                self._next += 1
        return events


def _number(value: Any) -> int:
    return value if isinstance(value, int) else -1
