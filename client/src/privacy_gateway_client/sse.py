"""Server-sent events from lines."""

from __future__ import annotations

from dataclasses import dataclass


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
