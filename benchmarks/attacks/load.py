"""Sends requests as a client does, and an attack from a process of its own."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import threading
import time
from collections import Counter
from multiprocessing.synchronize import Event
from typing import Any

from benchmarks.attacks.rows import Requests, Sent

TIMEOUT_S = 120


class Connection:
    """A connection that is opened again after an error."""

    def __init__(self, port: int, key: str) -> None:
        self._port, self._key = port, key
        self._open: http.client.HTTPConnection | None = None

    def send(self, sent: Sent) -> str:
        """The status of the answer with the limit that it names, or the error."""
        if self._open is None:
            self._open = http.client.HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT_S)
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": sent.media_type}
        try:
            self._open.request("GET" if sent.body is None else "POST", sent.path, sent.body, headers)
            answer = self._open.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._open.close()
            self._open = None
            return type(error).__name__
        limit = ""
        if answer.status == 429:
            with contextlib.suppress(ValueError, AttributeError):
                limit = json.loads(content).get("limit", "")
        return f"{answer.status} {limit}".strip()


def attacked(port: int, key: str, connections: int, requests: Requests, stop: Event, report: Any) -> None:
    """Send `requests` until `stop` is set. Runs in a process of its own."""
    os.nice(5)  # the load generator gives way to the gateway, as it would on another machine
    statuses: Counter[str] = Counter()

    def client(number: int) -> None:
        connection = Connection(port, key)
        turn = number
        while not stop.is_set():
            status = connection.send(requests[turn % len(requests)])
            statuses[status] += 1
            turn += 1
            if status.startswith(("429", "503")) or not status[0].isdigit():
                time.sleep(0.1)  # a client that does not wait at all measures the HTTP server and not the queues

    for number in range(connections):
        threading.Thread(target=client, args=(number,), daemon=True).start()
    stop.wait()
    report.send(dict(statuses))
