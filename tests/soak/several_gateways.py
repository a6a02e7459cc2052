"""Kill gateways and their Redis, and pause the gateway that seals, while 64 clients spend the last of a budget.

    PYTHONPATH=.:tests:tests/kits python -m soak.several_gateways --gateways 4 --kills 200

Two or more gateways serve one ledger, and each client changes between them. Each cycle ends a gateway or Redis with
SIGKILL, or stops a gateway for longer than the lease of the duties, at a random moment. A killed gateway starts again
while the others serve. What is checked is that of `soak.kill_cycles`: nothing is overspent or under-counted, a settled
key never changes its answer, and in the end the ledger has exactly what was delivered and what was spent without an
output.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx
from gateway_kit import Gateway, children, command_line
from redis_kit import EmbeddedServer
from soak.kill_cycles import BACK_S_MAX, SETTINGS, TERMS, Soak, of_holds, printed
from soak.load import Account

from core.ledger import names

TESTS = Path(__file__).parents[1]
SERVE = Path(__file__).with_name("serve.py")
LEASE_S = 3
PAUSES = {"pause", "freeze"}
# 64 clients empty it in a second or two
TERMS["edge"] = ({"epsilon": 10}, {"epsilon": 0.1, "documents_max": 3})


def settings(redis_url: str, *, hold_ttl_s: int) -> dict[str, str]:
    return (
        SETTINGS
        | of_holds(hold_ttl_s)
        | {
            "REDIS_URL": redis_url,
            "PRIVACY_GATEWAY_MASTER_KEY": "5a" * 32,
            "PRIVACY_GATEWAY_DUTIES_LEASE_S": str(LEASE_S),
            "PRIVACY_GATEWAY_REQUESTS_IN_FLIGHT_PER_TENANT_MAX": "128",
            "PRIVACY_GATEWAY_SEAL_INTERVAL_S": "0.5",
            "PRIVACY_GATEWAY_SERIES_INTERVAL_S": "1",
        }
    )


def paths(checkout: Path) -> dict[str, str]:
    """The environment in which Python finds the packages and the toys of a checkout."""
    tests = checkout / "tests"
    return {"PYTHONPATH": os.pathsep.join(map(str, (checkout, tests, tests / "kits")))}


class SeveralGateways(Soak):
    """The gateways, their Redis and the load. `gateways[0]` stands for all where one is enough."""

    kinds = ("edge", "subjects", "delta", "plan")
    kills = ("gateway", "redis", "gateway", "redis", "pause")
    clients = 64

    def __init__(self, server: EmbeddedServer, gateways: list[Gateway], *, seed: int) -> None:
        self.server = server
        self.gateways = gateways
        self._starting: list[threading.Thread] = []
        super().__init__(gateways[0], seed=seed)
        self.ports[:] = [gateway.port for gateway in gateways]

    @property
    def redis_url(self) -> str:
        return self.server.url

    def _open(self, kind: str) -> Account:
        """Open a tenant through any gateway that answers."""
        terms, how = TERMS[kind]
        while True:
            try:
                tenant = self.rng.choice(self.gateways).tenant(**terms)
            except (AssertionError, httpx.TransportError):  # it is dead, or has no Redis at this moment
                time.sleep(0.1)
            else:
                return Account(kind, tenant.name, tenant.key, **how)

    def _cycle(self, kind: str) -> None:
        self._starting = [thread for thread in self._starting if thread.is_alive()]
        time.sleep(self.rng.uniform(0.1, 1.0))
        self._end(kind)
        if kind not in PAUSES:
            self.counts["kills"] += 1
        self.check()
        if self.counts["kills"] % 20 == 0:
            self.audit()
        self._replace_exhausted()
        self.counts["cycles"] += 1
        print(f"cycle {self.counts['cycles']} {kind}, faults {self.book.faults}", flush=True)

    def _end(self, kind: str) -> None:
        """End, or stop for a while, what `kind` names, and have it start again."""
        if kind == "gateway":
            self._kill_one()
        elif kind == "redis":
            killed = time.monotonic()
            self.server.kill()
            self._start_redis(killed)
            self._recover("redis", killed)
        else:
            self._pause_one()

    def _start_redis(self, killed: float) -> None:
        """Reading a long append-only file takes its time. SIGKILL may leave part of the bytes of a write."""
        self.server.spawn()
        while True:
            try:
                self.server.wait_ready()
                return
            except AssertionError:
                if self.server.mended():
                    self.counts["torn files"] += 1
                    self.server.spawn()
                elif time.monotonic() - killed > BACK_S_MAX:
                    raise

    def _kill_one(self) -> None:
        """At least one gateway goes on serving."""
        for thread in self._starting[: max(0, len(self._starting) - len(self.gateways) + 2)]:
            thread.join()
        gateway = self.rng.choice([one for one in self.gateways if one.process.poll() is None])
        orphans = children(gateway.process.pid)
        killed = time.monotonic()
        gateway.process.kill()
        gateway.process.wait()

        def start() -> None:
            while True:
                try:
                    gateway.start()
                    break
                except AssertionError as error:  # Redis died during its start, which a supervisor repeats
                    if time.monotonic() - killed > BACK_S_MAX:
                        self.book.fault(f"a gateway does not start again: {str(error)[-500:]}")
                        break
                    self.counts["starts refused"] += 1
            self.recoveries["gateway"].append(time.monotonic() - killed)
            for pid, line in orphans.items():
                if line and command_line(pid) == line:
                    self.book.fault(f"a killed gateway has left a process: {line}")

        thread = threading.Thread(target=start)
        thread.start()
        self._starting.append(thread)

    def _pause_one(self) -> None:
        """Stop a gateway for longer than the lease, and let it continue: now and then the one that seals."""
        running = [one for one in self.gateways if one.process.poll() is None]
        gateway = self.rng.choice(running)
        os.kill(gateway.process.pid, signal.SIGSTOP)
        began = time.monotonic()
        time.sleep(LEASE_S * 1.5)
        os.kill(gateway.process.pid, signal.SIGCONT)
        self.recoveries["pause"].append(time.monotonic() - began)

    def run(self, cycles: int, seconds: float) -> None:
        try:
            super().run(cycles, seconds)
        finally:
            for thread in self._starting:
                thread.join()

    def _worker_is_back(self) -> None:
        """The gateways are back before open keys are settled."""
        for thread in self._starting:
            thread.join()

    def takeovers(self) -> int:
        """How many holders the lease of the duties has had."""
        return int(self.server.admin().get(names.FENCE_KEY) or 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gateways", type=int, default=4)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--old", type=Path, help="a checkout whose code every second gateway runs, as in an upgrade")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--hold-ttl-s", type=int, default=21)
    parser.add_argument("--seconds", type=float, default=3600, help="begin no cycle after this time")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    SeveralGateways.clients = given.clients
    cycles = given.kills + given.kills // 4  # one pause for four kills
    with tempfile.TemporaryDirectory(prefix="soak-") as directory:
        began = time.monotonic()
        redis_folder = Path(directory) / "redis"
        redis_folder.mkdir()
        server = EmbeddedServer(redis_folder)
        server.start()
        environment = settings(server.url, hold_ttl_s=given.hold_ttl_s)
        environment["PRIVACY_GATEWAY_STORE_URL"] = f"file://{directory}/store"
        gateways: list[Gateway] = []
        try:
            for number in range(given.gateways):
                code = given.old if given.old and number % 2 else TESTS.parent
                gateways.append(
                    Gateway(
                        Path(directory) / f"gateway-{number}",
                        environment | paths(code),
                        command=(sys.executable, str(SERVE)),
                        folder=code,
                    )
                )
            soak = SeveralGateways(server, gateways, seed=given.seed)
            soak.run(cycles, given.seconds)
            soak.check_journal()
            takeovers = soak.takeovers()
        finally:
            for gateway in gateways:
                gateway.stop()
            server.stop()
        report = soak.report(time.monotonic() - began) | {
            "gateways": given.gateways,
            "clients": given.clients,
            "kills": soak.counts["kills"],
            "holders_of_duties": takeovers,
            "starts_refused": soak.counts["starts refused"],
            "torn_files_mended": soak.counts["torn files"],
        }
    return printed(report, soak.book)


if __name__ == "__main__":
    sys.exit(main())
