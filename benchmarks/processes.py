"""`serve --processes N`: documents a second by the number of gateways, and the memory of all of their processes.

    python -m benchmarks.processes --processes 1 2

For each number, a supervisor of its own, with the embedded Redis and an fsync on each write; one is a gateway without a
supervisor. They run at the same time and are measured in turn. Each gateway has workers of its own, which use the
processors and the GPU that the settings name (`--setting DEVICES=["cuda:0"]`), so clients, Redis, gateways and workers
compete for the processors: the time that each of them uses is printed, which says what limits.
"""

import argparse
import http.client
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from gateway_kit import DOCUMENT, Gateway, children, free_port

from benchmarks.kit import arguments, head, machine, row
from benchmarks.small_requests import BODIES, Round, measured, request_of

PROCESS = "service.processes.gateway_process"
KINDS = ("gateways", "workers", "Redis", "clients")


class Served(Gateway):
    """`serve --processes N`; one is a gateway without a supervisor."""

    def __init__(self, data_dir: Path, processes: int, settings: dict[str, str]) -> None:
        self.number = processes
        self.admin_port = free_port()
        own = {"PROCESSES": str(processes), "ADMIN_PORT": str(self.admin_port)} | settings
        super().__init__(data_dir, {f"PRIVACY_GATEWAY_{name}": value for name, value in own.items()})

    @property
    def admin(self) -> Any:
        client = super().admin
        client.base_url = f"http://127.0.0.1:{self.admin_port}"
        return client

    def wait_ready(self) -> None:
        super().wait_ready()
        while not all(map(self.answers, range(self.number))):
            time.sleep(0.2)

    def answers(self, number: int) -> bool:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.admin_port + number, timeout=15)
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:
            return False

    def processes(self) -> dict[str, list[int]]:
        """The process ids by what is measured."""
        found = defaultdict(list, {"gateways": [self.process.pid]})
        for pid, line in children(self.process.pid).items():
            kind = "gateways" if PROCESS in line else "Redis" if "redis-server" in line else "workers"
            found[kind].append(pid)
        return found


def memory_mib(pids: Sequence[int]) -> float:
    """What the processes have, where each page counts once for all that share it."""
    lines = "\n".join(Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in pids).splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def compared(options: argparse.Namespace, folder: Path) -> None:
    """All gateways run; they are measured in turn."""
    settings = dict(one.partition("=")[::2] for one in options.setting)
    rows: dict[int, list[Round]] = defaultdict(list)
    memory: dict[int, float] = {}
    with ExitStack() as stack:
        gateways: dict[Served, bytes] = {}
        for number in options.processes:
            gateway = Served(folder / str(number), number, settings)
            stack.callback(gateway.stop)
            body = BODIES[options.route](DOCUMENT)
            if "documents" in body:
                body["documents"] *= options.documents
            gateways[gateway] = request_of(options.route, body, gateway.tenant(epsilon=4_000_000))
        for _ in range(options.rounds):
            for gateway, request in gateways.items():
                rows[gateway.number].append(measured(gateway, request, options.clients, options.seconds))
        for gateway in gateways:
            memory[gateway.number] = memory_mib([pid for own in gateway.processes().values() for pid in own])
    show(options, rows, memory)


def show(options: argparse.Namespace, rows: dict[int, list[Round]], memory: dict[int, float]) -> None:
    print(f"\n{options.route}, {options.documents} documents in a request, {options.clients} clients")
    used = (f"{kind}, CPU ms" for kind in KINDS)
    head("N", "documents/s", "ratio", "p50", *used, "memory, MiB", "rounds")
    base = statistics.median(one.rate for one in rows[options.processes[0]])
    for number, own in rows.items():
        rate, p50 = statistics.median(one.rate for one in own), statistics.median(one.p50 for one in own)
        times = [f"{statistics.median(one.used.get(kind, 0) for one in own):.2f}" for kind in KINDS]
        rounds = ", ".join(f"{one.rate * options.documents:.0f}" for one in own)
        cells = (f"{rate * options.documents:.0f}", f"{rate / base:.2f}", f"{p50:.1f}", *times)
        row(number, *cells, f"{memory[number]:.0f}", rounds)


def main() -> None:
    options = arguments(
        __doc__,
        processes=[1, 2],
        route="/embed/sentdp",
        documents=(1, "in each request"),
        setting=([], "NAME=VALUE, of every gateway"),
        clients=32,
        rounds=5,
        seconds=5.0,
    )
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        compared(options, Path(folder))


if __name__ == "__main__":
    main()
