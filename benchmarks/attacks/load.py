"""Sends requests as a client does, and an attack from a process of its own; reads what they cost the gateway."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import threading
import time
from collections import Counter
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from gateway_kit import Gateway, Tenant

from benchmarks.attacks.rows import Requests, Sent

TIMEOUT_S = 120
SHORT = {"documents": [{"text": "The parcel has arrived. It was not damaged. Thank you."}], "epsilon": 1.0}
SENTENCE = "The committee will meet again on Thursday to discuss the proposal of the two members who were late. "
BATCH_TOKENS = 4096


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


class Probe:
    """Asks for `/livez` until it is left; `worst_s` is the longest wait for an answer."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self._stop = threading.Event()
        self.worst_s = 0.0

    def __enter__(self) -> Probe:
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._connection.close()

    def _ask(self) -> None:
        while not self._stop.is_set():
            began = time.perf_counter()
            self._connection.request("GET", "/livez")
            self._connection.getresponse().read()
            self.worst_s = max(self.worst_s, time.perf_counter() - began)
            time.sleep(0.002)


def memory(pid: int, field: str) -> int:
    """A field of `/proc/PID/status`, in bytes. Raises OSError or TypeError for a process that has ended."""
    found = re.search(rf"^{field}:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(found[1]) * 1024


def batch_seconds(gateway: Gateway, tenant: Tenant) -> float:
    """The mean time of a batch of the largest size, in the embed worker."""

    def total() -> tuple[float, float]:
        page = gateway.client(None).get("/metrics").text
        found = [re.search(rf'gateway_batch_seconds_{name}{{role="embed"}} (\S+)', page) for name in ("sum", "count")]
        seconds, count = (float(match.group(1)) if match else 0.0 for match in found)
        return seconds, count

    before = total()
    for _ in range(8):
        tenant.embed([{"text": (SENTENCE * 150)[: BATCH_TOKENS * 7 // 2]}]).raise_for_status()
    after = total()
    return (after[0] - before[0]) / (after[1] - before[1])
