"""Attack a gateway with everything that a caller can send, and look for what it must not do.

    PYTHONPATH=.:tests:tests/kits python -m fuzz.campaign --requests 100000

Two tenants, the operator and callers without a valid key send the requests of `fuzz/cases.py` over several connections,
while a third tenant makes short calls of `/embed/sentdp`. Findings are: an unhandled error, a canary in a refusal, a
canary in logs, metrics, Redis or files, a stall of the event loop over 250 ms, memory that does not come back, and an
error of the third tenant. Stalls of a process that does nothing else are shown beside those of the gateway: on a busy
machine both are late. Ends with a table and a line of JSON; exit code 1 after any finding.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import queue
import random
import re
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any

import httpx
from constants_kit import constants
from fuzz.canaries import MARK, canary, found_in_files, found_in_redis
from fuzz.cases import SPECIAL, Sent, of_the_document
from gateway_kit import Gateway, children, command_line

from core.redis.embedded import socket_path

CLIENTS = 8
SETTLE_S = 3.0
CLIENT_TIMEOUT_S = 20.0
STALL_S = 0.25
MEMORY_GROWTH_MAX = 0.2
WARM_UP_MIN = 500  # requests
PAUSE_S_MAX = 30.0
DOCUMENT_SHARE = 0.6
SETTINGS = {
    "PRIVACY_GATEWAY_REQUEST_TIMEOUT_S": "15",
    "PRIVACY_GATEWAY_AUTH_FAILURES_PER_MINUTE": "0",  # all callers have one address
} | constants({"stream_idle_s": 5})
_LAG = "gateway_event_loop_lag_seconds"
# Headers that repeat what the caller chose, by design.
_REPEATED = ("idempotency-key", "x-request-id")


class Findings:
    """What was found, and what was counted."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.found: Counter[str] = Counter()
        self.answers: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self.examples: dict[str, str] = {}

    def report(self, what: str, example: str = "") -> None:
        with self.lock:
            self.found[what] += 1
            self.examples.setdefault(what, example)

    def judge(self, sent: Sent, status: int, headers: str, content: bytes) -> None:
        """`headers`: without those that repeat the caller's by design."""
        with self.lock:
            self.answers[str(status or "none")] += 1
            self.kinds[sent.kind] += 1
        shown = f"{sent.kind} {sent.method} {re.sub(MARK + '[0-9a-f]*', 'CANARY', sent.path)[:80]}: {content[:160]!r}"
        if status == 500 and (b'"internal"' in content or b"Internal Server Error" in content):
            self.report("unhandled error", shown)
        refusals = content if status >= 400 else b"".join(part for part in content.split(b"\n") if b'"problem"' in part)
        if status and (MARK.encode() in refusals or MARK in headers):
            self.report("echoed canary", shown)


class Attack:
    """One gateway, its callers and their requests."""

    def __init__(self, gateway: Gateway, *, requests: int, warm_up: int, seed: int) -> None:
        self.gateway = gateway
        self.requests = requests
        self.warm_up = warm_up
        self.rng = random.Random(seed)
        self.findings = Findings()
        self.victim = gateway.tenant(epsilon=1_000_000)
        attackers = [gateway.tenant(epsilon=1_000_000, delta=1e-3) for _ in range(2)]
        admin = (gateway.data_dir / "admin.key").read_text().strip()
        own = [tenant.key for tenant in attackers]
        self.keys = [*own, *own, admin, "", "wrong"]
        self._waiting: queue.Queue[Sent | None] = queue.Queue(maxsize=200)
        self.latencies: list[float] = []
        self.under_attack: list[float] = []

    def run(self) -> dict[str, Any]:
        quiet = self._victim_for(lambda: len(self.latencies) < 100)
        self._send_all(self.warm_up)  # models, caches, pools, the memory of large bodies
        time.sleep(SETTLE_S if self.warm_up else 0)
        memory, stalls = self._memory(), self._stalls()
        idle_stalls, control = _idle_process()
        ended = threading.Event()
        victim = threading.Thread(target=self._watch_victim, args=(ended,))
        victim.start()
        began = time.monotonic()
        self._send_all(self.requests)
        seconds = time.monotonic() - began
        ended.set()
        victim.join()
        control.terminate()
        stalls = self._stalls() - stalls
        growth = self._growth(memory) if self.warm_up else {}
        if self.warm_up and stalls > idle_stalls.value:
            self.findings.report(f"event-loop stall over {STALL_S * 1000:.0f} ms", f"{stalls} of the gateway")
        for process, ratio in growth.items():
            if ratio > 1 + MEMORY_GROWTH_MAX:
                self.findings.report("memory growth", f"{process}: {ratio:.2f} of its memory after the warm-up")
        self._look_for_canaries()
        self._explain_unhandled_errors()
        return {
            "requests": sum(self.findings.kinds.values()),
            "seconds": round(seconds),
            **{f"requests of {kind}": count for kind, count in sorted(self.findings.kinds.items())},
            **{f"answers {status}": count for status, count in sorted(self.findings.answers.items())},
            "stalls of the gateway": stalls,
            "stalls of an idle process": idle_stalls.value,
            "memory after / before": {name: round(ratio, 2) for name, ratio in growth.items()},
            "victim p99 ms, quiet and under attack": [_p99(quiet), _p99(self.under_attack)],
            "findings": dict(self.findings.found),
        }

    def _send_all(self, count: int) -> None:
        threads = [threading.Thread(target=self._client, args=(self.rng.getrandbits(32),)) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for _, sent in zip(range(count), self._cases(count), strict=False):
            self._waiting.put(sent)
        for _ in threads:
            self._waiting.put(None)
        for thread in threads:
            thread.join()

    def _cases(self, count: int) -> Iterator[Sent]:
        """Requests without end: of the document and special ones, in turn."""
        document = self.victim.http.get("/openapi.json").json()
        per_operation = max(3, min(50, count // 200))
        while True:
            for sent in of_the_document(document, self.rng, per_operation):
                yield sent
                while self.rng.random() > DOCUMENT_SHARE:
                    yield self.rng.choice(SPECIAL)(self.rng)

    def _client(self, seed: int) -> None:
        rng = random.Random(seed)
        with httpx.Client(base_url=self.gateway.url, timeout=CLIENT_TIMEOUT_S) as client:
            while (sent := self._waiting.get()) is not None:
                key = rng.choice(self.keys)
                key = f"{key} {canary(rng)}" if key == "wrong" else key
                if sent.raw is not None:
                    self._send_raw(sent, key)
                else:
                    self._send(client, sent, key, rng)

    def _send(self, client: httpx.Client, sent: Sent, key: str, rng: random.Random) -> None:
        headers = {name.encode(): value.encode("utf-8", "replace") for name, value in sent.headers.items()}
        headers |= {b"X-Unknown": canary(rng).encode()}
        if key:
            headers[b"Authorization"] = f"Bearer {key}".encode()
        if rng.random() < 0.2:
            headers[b"Idempotency-Key"] = canary(rng).encode()
        try:
            answer = client.request(sent.method, sent.path, headers=headers, content=sent.body)
        except httpx.HTTPError:
            self.findings.judge(sent, 0, "", b"")
            return
        except (ValueError, httpx.InvalidURL):  # a header or a path that no client can send
            return
        shown = " ".join(value for name, value in answer.headers.items() if name not in _REPEATED)
        self.findings.judge(sent, answer.status_code, shown, answer.content)

    def _send_raw(self, sent: Sent, key: str) -> None:
        content = b""
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.gateway.port)) as connection:
            connection.settimeout(2)
            connection.sendall((sent.raw or b"").replace(b"KEY", key.encode()))
            if sent.half_closed:
                connection.shutdown(socket.SHUT_WR)
            while len(content) < 1 << 20 and (piece := connection.recv(65536)):
                content += piece
        found = [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", content)]
        self.findings.judge(sent, max(found, default=0), "", content)

    def _watch_victim(self, ended: threading.Event) -> None:
        self.under_attack = self._victim_for(lambda: not ended.is_set())

    def _victim_for(self, goes_on: Any) -> list[float]:
        """Latencies of the third tenant's calls, in seconds."""
        self.latencies = []
        while goes_on():
            began = time.perf_counter()
            try:
                answer = self.victim.embed([{"text": "It works well."}], epsilon=0.1)
                text, status = answer.text, answer.status_code
            except httpx.TransportError:
                text, status = "", 0
            self.latencies.append(time.perf_counter() - began)
            if status != 200:
                self.findings.report(f"the victim got {status}", text[:160])
            time.sleep(0.02)
        return self.latencies

    def _metrics(self) -> str:
        return httpx.get(f"{self.gateway.url}/metrics", timeout=60).text

    def _stalls(self) -> int:
        text = self._metrics()
        within = re.search(rf'^{_LAG}_bucket{{le="{STALL_S}"}} (\S+)$', text, re.MULTILINE)
        every = re.search(rf"^{_LAG}_count (\S+)$", text, re.MULTILINE)
        if within is None or every is None:
            raise RuntimeError("no metric of the event loop")
        return int(float(every[1]) - float(within[1]))

    def _memory(self) -> dict[str, int]:
        """Bytes of the gateway and of its workers."""
        pid = self.gateway.process.pid
        found = {"gateway": _resident(pid)}
        for child in children(pid):
            line = command_line(child)
            role = re.search(r"worker (\w+)", line)
            if role and role[1] in ("embed", "sanitize", "fill"):
                found[role[1]] = found.get(role[1], 0) + _resident(child)
        return found

    def _growth(self, before: dict[str, int]) -> dict[str, float]:
        """Memory over that before, of each process, once it has come back or the pause has ended."""
        deadline = time.monotonic() + PAUSE_S_MAX
        while True:
            now = self._memory()
            growth = {name: now[name] / size for name, size in before.items() if name in now}
            if max(growth.values()) <= 1 + MEMORY_GROWTH_MAX or time.monotonic() > deadline:
                return growth
            time.sleep(2)

    def _look_for_canaries(self) -> None:
        places = found_in_files(self.gateway.data_dir, self.gateway.log_path)
        places += found_in_redis(socket_path(self.gateway.data_dir))
        if MARK in self._metrics():
            places.append("/metrics")
        for place in places:
            self.findings.report("canary kept", place)

    def _explain_unhandled_errors(self) -> None:
        """Add where each kind of unhandled error was raised, from the gateway's log, to the findings."""
        for line in self.gateway.log_path.read_text(errors="replace").splitlines():
            if '"event":"unforeseen"' in line:
                fields = json.loads(line)
                self.findings.report(f"log: {fields['kind']} at {fields['at'][-1]}", ", ".join(fields["at"]))


def _resident(pid: int) -> int:
    """Bytes in memory without blocks of shared memory: kept matrices are a cache with a limit of its own."""
    sizes = dict(re.findall(r"(VmRSS|RssShmem):\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text()))
    return (int(sizes.get("VmRSS", 0)) - int(sizes.get("RssShmem", 0))) * 1024


def _p99(seconds: list[float]) -> float:
    return round(sorted(seconds)[int(len(seconds) * 0.99)] * 1000, 1) if seconds else 0.0


def _idle_process() -> tuple[Synchronized[int], multiprocessing.Process]:
    """A process that only sleeps, and counts by itself how often it wakes up too late."""
    late: Any = multiprocessing.Value("i", 0)
    process = multiprocessing.Process(target=_sleep, args=(late,), daemon=True)
    process.start()
    return late, process


def _sleep(late: Any) -> None:
    while True:
        due = time.monotonic() + 0.02
        time.sleep(0.02)
        if time.monotonic() - due > STALL_S:
            late.value += 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--warm-up", type=int, help="requests before memory and stalls are measured; 0: they are not")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as directory:
        gateway = Gateway(Path(directory) / "data", SETTINGS)
        try:
            warm_up = max(WARM_UP_MIN, given.requests // 20) if given.warm_up is None else given.warm_up
            attack = Attack(gateway, requests=given.requests, warm_up=warm_up, seed=given.seed)
            report = attack.run()
        finally:
            gateway.stop()
    for what, example in attack.findings.examples.items():
        print(f"FINDING {what} ({attack.findings.found[what]}): {example}")
    for name, value in report.items():
        print(f"{name:<40}{value}")
    print(json.dumps(report))
    return 1 if attack.findings.found else 0


if __name__ == "__main__":
    sys.exit(main())
