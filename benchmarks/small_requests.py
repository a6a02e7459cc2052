"""Small requests: time of one client, requests a second of 32 clients, and processor time of each process.

    python -m benchmarks.small_requests --peer ../main

One sentence in each request to `POST /embed/sentdp`, `POST /v1/embeddings` and `POST /sanitize`, from the socket to the
answer, with the embedded Redis and an fsync on each write. `--peer` starts the gateway of another checkout beside this
one, with the same interpreter and libraries, and the rounds of both take turns, so that other work on the machine meets
both. Two gateways of one version can differ by some per cent for as long as they run: `--starts` starts both again and
takes all rounds together. The clients run in this process, on uvloop. `--document` sends a document of six sentences
instead.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop
from gateway_kit import DOCUMENT, Gateway, Tenant, children, cpu_ticks

from benchmarks.kit import ROOT, arguments, head, machine, row

TICKS = os.sysconf("SC_CLK_TCK")

SENTENCE = "The new phone arrived on Monday and Anna Schmidt likes its screen."
BODIES: dict[str, Callable[[str], dict[str, Any]]] = {
    "/embed/sentdp": lambda text: {"documents": [{"text": text}], "epsilon": 1.0},
    "/v1/embeddings": lambda text: {"model": "minilm-sentdp-eps10", "input": text},
    "/sanitize": lambda text: {"documents": [{"text": text}]},
}
PROCESSES = ("front end", "workers", "Redis", "clients")
WARM_S = 1.0


class Checkout(Gateway):
    """The gateway of a checkout, run by this interpreter. `settings`: each `NAME=VALUE`."""

    def __init__(self, root: Path, data_dir: Path, settings: list[str]) -> None:
        given = filter(None, [os.environ.get("PYTHONPATH")])
        environment = {f"PRIVACY_GATEWAY_{name}": value for name, _, value in (one.partition("=") for one in settings)}
        environment["PYTHONPATH"] = os.pathsep.join([str(root), str(root / "client/src"), *given])
        super().__init__(data_dir, environment, command=(sys.executable, str(root / "privacy_gateway.py")), folder=root)

    def processes(self) -> dict[str, list[int]]:
        """The process ids by what is measured."""
        found = defaultdict(list, {"front end": [self.process.pid]})
        for pid, line in children(self.process.pid).items():
            found["Redis" if "redis-server" in line else "workers"].append(pid)
        return found


@dataclass(frozen=True)
class Round:
    """Requests a second, the median time of one, and processor time by process; milliseconds."""

    rate: float
    p50: float
    used: dict[str, float]


def request_of(path: str, fields: dict[str, Any], tenant: Tenant) -> bytes:
    body = json.dumps(fields).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {tenant.key}\r\n"
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


class Client(asyncio.Protocol):
    """Sends the next request when the last was answered, until a time. `times`: the seconds of each request."""

    def __init__(self, request: bytes, until: float, times: list[float]) -> None:
        self._request, self._until, self._times = request, until, times
        self._received = b""
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.WriteTransport) -> None:  # type: ignore[override]
        self._transport = transport
        self._send()

    def _send(self) -> None:
        self._started = time.perf_counter()
        if self._started < self._until:
            self._transport.write(self._request)
        else:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        if not end:
            return
        if b" 200 " not in head[:16]:
            self.ended.set_exception(RuntimeError(head.decode()))
            self._transport.close()
            return
        length = head.lower().partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0]
        if len(body) >= int(length):
            self._times.append(time.perf_counter() - self._started)
            self._received = b""
            self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.ended.done():
            return
        if exc is None and self._started >= self._until:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(exc or ConnectionError("the gateway closed a connection"))


async def drive(port: int, request: bytes, clients: int, seconds: float) -> list[float]:
    """The time of each request of so many clients."""
    loop = asyncio.get_running_loop()
    times: list[float] = []
    until = time.perf_counter() + seconds
    started = [
        await loop.create_connection(lambda: Client(request, until, times), "127.0.0.1", port) for _ in range(clients)
    ]
    await asyncio.gather(*(client.ended for _, client in started))
    return times


def ticks_of(pid: int) -> int:
    try:
        return cpu_ticks(pid)
    except (FileNotFoundError, ProcessLookupError):
        return 0  # it has ended


def measured(gateway: Any, request: bytes, clients: int, seconds: float) -> Round:
    """A round of a gateway that tells its process ids by what is measured."""
    uvloop.run(drive(gateway.port, request, clients, WARM_S))
    groups = gateway.processes()

    def ticks() -> dict[str, int]:
        return {name: sum(map(ticks_of, pids)) for name, pids in groups.items()}

    before, started, own = ticks(), time.perf_counter(), time.process_time()
    times = uvloop.run(drive(gateway.port, request, clients, seconds))
    elapsed, after = time.perf_counter() - started, ticks()
    used = {name: (after[name] - before[name]) / TICKS * 1000 / len(times) for name in groups}
    used["clients"] = (time.process_time() - own) * 1000 / len(times)
    return Round(len(times) / elapsed, statistics.median(times) * 1000, used)


def compared(options: argparse.Namespace, folder: Path) -> None:
    rows: dict[tuple[int, str], dict[str, list[Round]]] = defaultdict(lambda: defaultdict(list))
    for start in range(options.starts):
        with ExitStack() as stack:
            gateways = started(options, folder / f"start-{start}", stack)
            for clients in options.clients:
                for path in options.routes:
                    for number in range(options.rounds):
                        order = list(gateways.items())
                        for name, (gateway, tenant) in order if number % 2 == 0 else reversed(order):
                            request = request_of(path, BODIES[path](DOCUMENT if options.document else SENTENCE), tenant)
                            rows[clients, path][name].append(measured(gateway, request, clients, options.seconds))
    for clients in options.clients:
        rounds = f"{options.rounds} rounds of {options.seconds:g} s in turn"
        print(f"\n{clients} clients, starts: {options.starts}, each with {rounds}; milliseconds")
        used = (f"{name}, CPU" for name in PROCESSES)
        head("route", "checkout", "p50", "requests/s", *used, "rounds, requests/s")
        for path in options.routes:
            show(path, rows[clients, path])


def started(options: argparse.Namespace, folder: Path, stack: ExitStack) -> dict[str, tuple[Checkout, Tenant]]:
    """The gateways, each with a tenant. `stack` stops them."""
    roots = {"this": ROOT} | ({"peer": options.peer.resolve()} if options.peer else {})
    gateways: dict[str, tuple[Checkout, Tenant]] = {}
    folder.mkdir()
    for name, root in roots.items():
        gateway = Checkout(root, folder / name, options.setting if name == "this" else [])
        stack.callback(gateway.stop)
        gateways[name] = gateway, gateway.tenant(epsilon=4_000_000)
    return gateways


def show(path: str, rows: dict[str, list[Round]]) -> None:
    for name, own in rows.items():
        used = [f"{statistics.median(one.used.get(kind, 0) for one in own):.2f}" for kind in PROCESSES]
        p50, rate = statistics.median(one.p50 for one in own), statistics.median(one.rate for one in own)
        row(path, name, f"{p50:.2f}", f"{rate:.0f}", *used, ", ".join(f"{one.rate:.0f}" for one in own))
    if "peer" in rows:
        pairs = list(zip(rows["this"], rows["peer"], strict=True))
        p50 = statistics.median(ours.p50 / theirs.p50 for ours, theirs in pairs)
        rate = statistics.median(ours.rate / theirs.rate for ours, theirs in pairs)
        spent = statistics.median(ours.used["front end"] / theirs.used["front end"] for ours, theirs in pairs)
        row("", "this / peer, median of the pairs", f"{p50:.2f}", f"{rate:.2f}", f"{spent:.2f}", "", "", "", "")


def main() -> None:
    options = arguments(
        __doc__,
        peer=(Path, "another checkout of the project"),
        setting=([], "NAME=VALUE, of the gateway of this checkout"),
        document=(False, "six sentences in each request"),
        routes=list(BODIES),
        clients=[1, 32],
        starts=(1, "how often the gateways are started again"),
        rounds=(5, "for each start"),
        seconds=4.0,
    )
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        compared(options, Path(folder))


if __name__ == "__main__":
    main()
