"""The events of a streamed chat completion: chunks with deltas of one or several choices, then `[DONE]`."""

from __future__ import annotations

from typing import Any

from service.proxy.dialects.openai_chat_shapes import ANNOTATION, CALL_DELTAS, DELTAS
from service.proxy.dialects.protocol import Event, Restorers
from service.proxy.dialects.requests import objects
from service.proxy.dialects.restoring import (
    Field,
    Positions,
    content_rule,
    move_positions,
    restore_error,
    restore_shape,
)
from service.proxy.dialects.shapes import Path

_NOT_REPEATED = ("choices", "usage", "obfuscation", "moderation")
_REASONING = (("reasoning_content",), ("reasoning",))


class _Choice:
    """What is known of one choice: its texts by path, and the content so far as the upstream wrote it.

    A path is `("content",)`, or `("tool_calls", 0, "function", "arguments")` with the index of the call.
    """

    def __init__(self, restorers: Restorers, structured: bool) -> None:
        self.fields: dict[Path, Field] = {}
        self.content = Positions(restorers.whole)
        self._restorers = restorers
        self._structured = structured

    def field(self, path: Path, rule: Any) -> Field:
        if path not in self.fields:
            rule = content_rule(self._structured) if rule == "content" else rule
            self.fields[path] = Field(self._restorers, rule)
        return self.fields[path]

    def ended_by(self, paths: set[Path]) -> list[Path]:
        """The texts that end because others begin: reasoning before content, content before calls of tools.

        Arguments in JSON do not end so: several calls may take turns, and complete JSON holds nothing back.
        """
        if not paths:
            return []
        reasons = paths <= set(_REASONING)
        return [
            path
            for path in DELTAS
            if len(path) == 1 and path in self.fields and path not in paths and self.fields[path].rule == "text"
            if not (reasons and path in _REASONING)
        ]


class ChatStream:
    def __init__(self, restorers: Restorers, structured: bool) -> None:
        self._restorers = restorers
        self._structured = structured
        self._choices: dict[Any, _Choice] = {}
        self._name: str | None = None
        self._chunk: dict[str, Any] = {}

    def event(self, name: str | None, data: Any) -> list[Event]:
        if data == "[DONE]":
            return [*self.end(), (name, data)]
        if isinstance(data, dict) and data.get("error"):
            restore_error(data, self._restorers)
            return [*self.end(), (name, data)]
        if not isinstance(data, dict) or not isinstance(data.get("choices"), list):
            return [(name, data)]
        self._name = name
        self._chunk = {key: value for key, value in data.items() if key not in _NOT_REPEATED}
        events: list[Event] = []
        kept = []
        for choice in data["choices"]:
            before, keep = self._choice(choice, data)
            if before:
                events.append(self._own(choice.get("index"), before))
            if keep:
                kept.append(choice)
        if kept or not data["choices"] or data.get("usage"):
            data["choices"] = kept
            events.append((name, data))
        return events

    def end(self) -> list[Event]:
        events = []
        for index, choice in self._choices.items():
            delta: dict[str, Any] = {}
            for path, field in choice.fields.items():
                _add(delta, path, field.end())
            if delta:
                events.append(self._own(index, delta))
        return events

    def _own(self, index: Any, delta: dict[str, Any]) -> Event:
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}
        return self._name, {**self._chunk, "choices": [choice]}

    def _choice(self, choice: Any, data: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        """Restore a choice of a chunk. Returns the delta that goes before it, and whether anything of it is left."""
        if not isinstance(choice, dict):
            return {}, True
        index, ends = _number(choice.get("index")), bool(choice.get("finish_reason"))
        first = index not in self._choices
        state = self._choices.setdefault(index, _Choice(self._restorers, self._structured))
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            delta = {}
        texts = [text for text in _texts(delta) if text[1][text[2]]]
        before: dict[str, Any] = {}
        for path in state.ended_by({path for path, _, _, _ in texts}):
            _add(before, path, state.fields[path].end())
        changed = emptied = False
        for path, owner, key, rule in texts:
            written = owner[key]
            if path == ("content",):
                state.content.append(written)
            owner[key] = state.field(path, rule).feed(written)
            if ends:
                owner[key] += state.fields[path].end()
            changed |= owner[key] != written
            emptied |= not owner[key]
        if ends:
            for path, field in state.fields.items():
                _add(before, path, field.end())
        for annotation in objects(delta.get("annotations")):
            restore_shape(ANNOTATION, annotation, self._restorers)
            move_positions(annotation.get("url_citation"), state.content)
        if changed:
            data.pop("obfuscation", None)
            if "logprobs" in choice:
                choice["logprobs"] = None
        if not emptied or first or ends:
            return before, True
        return before, _without_empty(delta)


def _texts(delta: dict[str, Any]) -> list[tuple[Path, dict[str, Any], str, str]]:
    """The texts of a delta: path, owner, key and rule of each."""
    found: list[tuple[Path, dict[str, Any], str, str]] = []
    for path, rule in DELTAS.items():
        found += [(path, owner, path[-1], rule) for owner in [_owner(delta, path)] if owner is not None]
    for number, call in enumerate(objects(delta.get("tool_calls"))):
        for path, rule in CALL_DELTAS.items():
            full: Path = ("tool_calls", _number(call.get("index"), number), *path)
            found += [(full, owner, path[-1], rule) for owner in [_owner(call, path)] if owner is not None]
    return found


def _number(value: Any, default: int = 0) -> int:
    return value if isinstance(value, int) else default


def _owner(value: Any, path: tuple[str, ...]) -> dict[str, Any] | None:
    """The object that has the string at the end of `path`, if there is one."""
    for name in path[:-1]:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) and isinstance(value.get(path[-1]), str) else None


def _add(delta: dict[str, Any], path: Path, text: str) -> None:
    """Put a text into a delta that has none at that path."""
    if not text:
        return
    owner: Any = delta
    if path[0] == "tool_calls":
        owner = {"index": path[1]}
        delta.setdefault("tool_calls", []).append(owner)
        path = path[2:]
    for name in path[:-1]:
        owner = owner.setdefault(name, {})
    owner[path[-1]] = text


def _without_empty(delta: dict[str, Any]) -> bool:
    """Remove the texts that became empty. Returns whether the delta still says something."""
    for path, owner, key, _ in _texts(delta):
        if not owner[key]:
            del owner[key]
            if len(path) > 1 and not owner and path[0] in delta and path[0] != "tool_calls":
                del delta[path[0]]
    calls = delta.get("tool_calls")
    if isinstance(calls, list):
        delta["tool_calls"] = [call for call in calls if _says_something(call)]
        if not delta["tool_calls"]:
            del delta["tool_calls"]
    return any(value for name, value in delta.items() if name != "role")


def _says_something(call: Any) -> bool:
    """Whether a call has an identifier or a name left. Then an empty text stays, as first parts have it."""
    if not isinstance(call, dict):
        return True
    said = bool(call.get("id")) or bool(call.get("function")) or bool(call.get("custom"))
    for name, text in (("function", "arguments"), ("custom", "input")):
        if said and isinstance(call.get(name), dict):
            call[name].setdefault(text, "")
    return said
