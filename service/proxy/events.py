"""Server-sent events (WHATWG HTML, section 9.2), from bytes that are split anywhere.

Guarantee: the events do not depend on the split. Time is linear in the bytes. No more than `event_bytes_max` bytes wait
for the end of an event, and no more than that for the end of a line.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from core.upstream_errors import UpstreamAnswerInvalid

_LINE_END = re.compile(rb"\r\n|\r|\n")
_BOM = b"\xef\xbb\xbf"


class Event(NamedTuple):
    """`name` is empty if the event has none, for which the standard's default is `message`."""

    name: str
    data: str


class EventParser:
    """Reads one stream. `id` and `retry` are ignored: a call of a model is not resumed."""

    def __init__(self, *, event_bytes_max: int) -> None:
        self._bytes_max = event_bytes_max
        self._line = bytearray()
        self._is_first_line = True
        self._after_cr = False
        self._name = ""
        self._data: list[str] = []
        self._bytes = 0

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that end in `chunk`. Raises UpstreamAnswerInvalid for a long event and for other than UTF-8."""
        if not chunk:
            return []
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._after_cr = chunk.endswith(b"\r")
        *ended, rest = _LINE_END.split(chunk)
        found: list[Event] = []
        for part in ended:
            self._extend(part)
            line = bytes(self._line)
            self._line.clear()
            event = self._end_line(line)
            if event is not None:
                found.append(event)
        self._extend(rest)
        return found

    def end(self) -> list[Event]:
        """The last event, if its blank line is missing. Raises UpstreamAnswerInvalid if a line is not complete."""
        if self._line:
            raise UpstreamAnswerInvalid(reason="incomplete")
        event = self._end_event()
        return [] if event is None else [event]

    def _extend(self, part: bytes) -> None:
        if len(self._line) + len(part) > self._bytes_max:
            raise UpstreamAnswerInvalid(reason="event-too-large")
        self._line += part

    def _end_line(self, line: bytes) -> Event | None:
        if self._is_first_line:
            self._is_first_line = False
            line = line.removeprefix(_BOM)
        if not line:
            return self._end_event()
        if line.startswith(b":"):
            return None
        name, _, raw = line.partition(b":")
        if name not in (b"event", b"data"):
            return None
        self._bytes += len(line)
        if self._bytes > self._bytes_max:
            raise UpstreamAnswerInvalid(reason="event-too-large")
        try:
            value = raw.removeprefix(b" ").decode()
        except UnicodeDecodeError:
            raise UpstreamAnswerInvalid(reason="not-utf-8") from None
        if name == b"data":
            self._data.append(value)
        else:
            self._name = value
        return None

    def _end_event(self) -> Event | None:
        event = Event(self._name, "\n".join(self._data)) if self._data else None
        self._name, self._bytes = "", 0
        self._data = []
        return event
