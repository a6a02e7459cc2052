"""Small requests: time of one client, requests a second of 32 clients, and processor time of each process.

    python -m benchmarks.small_requests --peer ../main

One sentence in each request to `POST /embed/sentdp`, `POST /v1/embeddings` and `POST /sanitize`, from the socket to the
answer, with the embedded Redis and an fsync on each write. `--peer` starts the gateway of another checkout beside this
one, with the same interpreter and libraries, and the rounds of both take turns, so that other work on the machine meets
both. `--simulated` puts a worker server that costs nothing in the place of the real workers (`benchmarks.front_ends`):
what is left is the front end, the ledger and the transport. `--document` sends a document of six sentences instead.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.front_ends import ROOT, TICKS, TOKEN, python_path, simulated_workers

sys.path.insert(0, str(ROOT / "tests/kits"))
from gateway_kit import DOCUMENT, Gateway, Tenant, children, cpu_ticks

SENTENCE = "The new phone arrived on Monday and Anna Schmidt likes its screen."
BODIES: dict[str, Callable[[str], dict[str, Any]]] = {
    "/embed/sentdp": lambda text: {"documents": [{"text": text}], "epsilon": 1.0},
    "/v1/embeddings": lambda text: {"model": "minilm-sentdp-eps10", "input": text},
    "/sanitize": lambda text: {"documents": [{"text": text}]},
}
WARM_S = 1.0


class Checkout(Gateway):
    """The gateway of a checkout, run by this interpreter."""

    def __init__(self, root: Path, data_dir: Path, environment: dict[str, str], servers: Sequence[int] = ()) -> None:
        """`servers`: the processes of worker servers."""
        self._servers = [pid for server in servers for pid in (server, *children(server))]
        paths = python_path(root, root / "client/src")
        super().__init__(
            data_dir,
            environment | {"PYTHONPATH": paths},
            command=(sys.executable, str(root / "privacy_gateway.py")),
            folder=root,
        )

    def processes(self) -> dict[str, list[int]]:
        """The process ids by what is measured."""
        found = defaultdict(list, {"front end": [self.process.pid], "workers": self._servers.copy()})
        for pid, line in children(self.process.pid).items():
            found["Redis" if "redis-server" in line else "workers"].append(pid)
        return found


@dataclass(frozen=True)
class Round:
    """Requests a second, the median time of one, and processor time by process; milliseconds."""

    rate: float
    p50: float
    used: dict[str, float]


def request_of(path: str, text: str, tenant: Tenant) -> bytes:
    body = json.dumps(BODIES[path](text)).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {tenant.key}\r\n"
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


async def drive(port: int, request: bytes, clients: int, seconds: float) -> list[float]:
    """Clients that each send the next request when the last was answered. The time of each request."""
    times: list[float] = []
    until = time.perf_counter() + seconds

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            while (started := time.perf_counter()) < until:
                writer.write(request)
                head = await reader.readuntil(b"\r\n\r\n")
                if b" 200 " not in head[:16]:
                    raise RuntimeError(head.decode())
                length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
                await reader.readexactly(int(length.split(b":")[1]))
                times.append(time.perf_counter() - started)
        finally:
            writer.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    return times


def ticks_of(pid: int) -> int:
    try:
        return cpu_ticks(pid)
    except (FileNotFoundError, ProcessLookupError):
        return 0  # it has ended


def measured(gateway: Checkout, request: bytes, clients: int, seconds: float) -> Round:
    asyncio.run(drive(gateway.port, request, clients, WARM_S))
    groups = gateway.processes()

    def ticks() -> dict[str, int]:
        return {name: sum(map(ticks_of, pids)) for name, pids in groups.items()}

    before, started = ticks(), time.perf_counter()
    times = asyncio.run(drive(gateway.port, request, clients, seconds))
    elapsed, after = time.perf_counter() - started, ticks()
    used = {name: (after[name] - before[name]) / TICKS * 1000 / len(times) for name in groups}
    return Round(len(times) / elapsed, statistics.median(times) * 1000, used)


def compared(options: argparse.Namespace, folder: Path) -> None:
    roots = {"this": ROOT} | ({"peer": options.peer.resolve()} if options.peer else {})
    with ExitStack() as stack:
        gateways: dict[str, tuple[Checkout, Tenant]] = {}
        for name, root in roots.items():
            chosen = options.setting if name == "this" else []
            environment = {f"PRIVACY_GATEWAY_{key}": value for key, _, value in (one.partition("=") for one in chosen)}
            servers: list[int] = []
            if options.simulated:
                workers, servers = stack.enter_context(simulated_workers(root))
                environment |= {
                    "PRIVACY_GATEWAY_ENGINE": "remote",
                    "PRIVACY_GATEWAY_WORKERS": json.dumps(workers),
                    "PRIVACY_GATEWAY_WORKERS_TOKEN": TOKEN,
                }
            gateway = Checkout(root, folder / name, environment, servers)
            stack.callback(gateway.stop)
            gateways[name] = gateway, gateway.tenant(epsilon=4_000_000)
        for clients in options.clients:
            print(f"\n{clients} clients, {options.rounds} rounds of {options.seconds:g} s in turn; milliseconds")
            print("| route | checkout | p50 | requests/s | front end, CPU | workers | Redis | rounds, requests/s |")
            print("| --- | --- | --- | --- | --- | --- | --- | --- |")
            for path in options.routes:
                rows: dict[str, list[Round]] = {name: [] for name in gateways}
                for number in range(options.rounds):
                    order = list(gateways.items())
                    for name, (gateway, tenant) in order if number % 2 == 0 else reversed(order):
                        request = request_of(path, DOCUMENT if options.document else SENTENCE, tenant)
                        rows[name].append(measured(gateway, request, clients, options.seconds))
                show(path, rows)


def show(path: str, rows: dict[str, list[Round]]) -> None:
    for name, own in rows.items():
        used = " | ".join(
            f"{statistics.median(one.used.get(kind, 0) for one in own):.2f}"
            for kind in ("front end", "workers", "Redis")
        )
        p50, rate = statistics.median(one.p50 for one in own), statistics.median(one.rate for one in own)
        rounds = ", ".join(f"{one.rate:.0f}" for one in own)
        print(f"| {path} | {name} | {p50:.2f} | {rate:.0f} | {used} | {rounds} |", flush=True)
    if "peer" in rows:
        pairs = list(zip(rows["this"], rows["peer"], strict=True))
        p50 = statistics.median(ours.p50 / theirs.p50 for ours, theirs in pairs)
        rate = statistics.median(ours.rate / theirs.rate for ours, theirs in pairs)
        spent = statistics.median(ours.used["front end"] / theirs.used["front end"] for ours, theirs in pairs)
        print(f"| | this / peer, median of the pairs | {p50:.2f} | {rate:.2f} | {spent:.2f} | | | |", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", type=Path, help="another checkout of the project")
    parser.add_argument("--setting", action="append", default=[], help="NAME=VALUE, of the gateway of this checkout")
    parser.add_argument("--simulated", action="store_true")
    parser.add_argument("--document", action="store_true", help="six sentences in each request")
    parser.add_argument("--routes", nargs="+", default=list(BODIES), choices=list(BODIES))
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    options = parser.parse_args(arguments)
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, "
          f"Python {platform.python_version()}, {time.strftime('%Y-%m-%d')}")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        compared(options, Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
