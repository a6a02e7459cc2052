"""Kill gateways, workers and Redis under requests and jobs, again and again, and count.

    PYTHONPATH=.:tests:tests/kits python -m soak.whole_system --gateways 2 --kills 100 --seed 1

Two or more gateways serve one ledger and one blob store. Clients change between them, with idempotency keys, replays
and budgets that run out. Tenants submit jobs through any gateway, repeat the submissions, watch them and cancel some.
Each cycle ends a gateway, a worker of one or Redis with SIGKILL, or stops a gateway for longer than the lease of the
duties (`pause`) or of its jobs (`freeze`). What was killed starts again while the next cycles go on.

What is checked of requests: nothing is overspent or under-counted, a settled key never changes its answer, and in the
end the ledger has exactly what was delivered and what was spent without an output. Of jobs: each accepted one ends
once, for a reason that its request, a cancellation or the number of attempts explains; it is charged once before it
draws noise, or not at all; the noise of one draw is visible; its artifact is what it made; a key finds its job again.
See `soak.job_audit`. Ends with a table and a line of JSON; exit code 1 after any fault.
"""

import argparse
import asyncio
import itertools
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from constants_kit import constants
from gateway_kit import Gateway, children, command_line
from redis_kit import EmbeddedServer
from soak.job_audit import JobAudit
from soak.job_clients import JobBook, JobClient, keep_submitting
from soak.ledger_load import BACK_S_MAX, Load, printed
from soak.load import OPEN, Account, Client
from wait_kit import until

from core.redis import names
from core.redis.client import LedgerClient, connect
from core.state.jobs import LEASE_MS
from service.jobs.runner import GRACE_S, SWEEP_S

TESTS = Path(__file__).parents[1]
SERVE = Path(__file__).with_name("serve.py")
JOB_CLIENTS = 6
JOBS_END_S_MAX = 300.0
LEASE_S = 3
PAUSES = {"pause", "freeze"}
WORKER = "gpu_workers.engine.worker embed"
SETTINGS = {
    "PYTHONPATH": os.pathsep.join(map(str, (TESTS.parent, TESTS, TESTS / "kits"))),
    "PRIVACY_GATEWAY_MASTER_KEY": "5a" * 32,
    "PRIVACY_GATEWAY_RESPONSE_RETENTION_S": "86400",
    "PRIVACY_GATEWAY_STORED_BYTES_PER_TENANT_MAX": str(1 << 40),
    "PRIVACY_GATEWAY_UNCHARGED_HOLDS_PER_HOUR_MAX": "3600000",
    "PRIVACY_GATEWAY_REQUESTS_IN_FLIGHT_PER_TENANT_MAX": "128",
    "PRIVACY_GATEWAY_SEAL_INTERVAL_S": "0.5",
    "PRIVACY_GATEWAY_JOBS_RUNNING_MAX": "2",
}
ORPHAN_S_MAX = 60.0  # a process that has just begun notices the death of its gateway once it has loaded its libraries
CONSTANTS = {
    "hold_margin_s": 1,
    "service.operation.maintenance.EXPIRE_INTERVAL_S": 1,
    "service.operation.maintenance.DUTIES_LEASE_S": LEASE_S,
    "service.operation.maintenance.SERIES_INTERVAL_S": 1,
    "service.jobs.attempt.JOB_ATTEMPTS_MAX": 5,
    "service.jobs.attempt.JOB_TURN_S": 3,
}


class WholeSystem(Load):
    """The gateways with their workers, Redis, and the load."""

    kills = ("gateway", "worker", "redis", "freeze", "gateway", "worker", "redis", "pause")

    def __init__(self, server: EmbeddedServer, gateways: list[Gateway], *, clients: int, seed: int) -> None:
        super().__init__(server, gateways, clients=clients, seed=seed)
        self._starting: dict[Gateway, threading.Thread] = {}
        self._freezing: list[threading.Thread] = []
        self.jobs = JobBook(self.book)
        self.jobs.tenants += [self._job_tenant("jobs"), self._job_tenant("jobs"), self._job_tenant("few-jobs")]
        self._draws = gateways[0].data_dir.parent / "draws"

    def _job_tenant(self, kind: str) -> Account:
        self.everyone.append(self._open(kind))  # its limits are checked as those of the others
        return self.everyone[-1]

    def _clients(self, stop: threading.Event) -> list[threading.Thread]:
        own = [
            threading.Thread(target=keep_submitting, args=(self.book, self.jobs, self.ports, stop, 1000 + number))
            for number in range(JOB_CLIENTS)
        ]
        return super()._clients(stop) + own

    def run(self, cycles: int, seconds: float) -> None:
        stop = threading.Event()
        clients = self._clients(stop)
        for client in clients:
            client.start()
        deadline = time.monotonic() + seconds
        try:
            for number in range(cycles):
                if time.monotonic() > deadline:
                    break
                self._cycle(self.kills[number % len(self.kills)])
        finally:
            stop.set()
            for thread in [*self._starting.values(), *self._freezing, *clients]:
                thread.join()
        self._settle_open_keys()
        self.check(final=True)
        self.audit()

    def _cycle(self, kind: str) -> None:
        self._starting = {one: thread for one, thread in self._starting.items() if thread.is_alive()}
        time.sleep(self.rng.uniform(0.1, 1.0))
        {
            "gateway": self._kill_gateway,
            "worker": self._kill_worker,
            "redis": self._kill_redis,
            "pause": self._pause,
            "freeze": self._freeze,
        }[kind]()
        self.counts[f"cycles {kind}"] += 1
        if kind not in PAUSES:
            self.counts["kills"] += 1
        self.check()
        if self.counts["kills"] % 20 == 0:
            self.audit()
        self._replace_exhausted()
        self.counts["cycles"] += 1
        print(f"cycle {self.counts['cycles']} {kind}, faults {self.book.faults}", flush=True)

    def _running(self) -> list[Gateway]:
        return [one for one in self.gateways if one.process.poll() is None]

    def _kill_redis(self) -> None:
        """It is back when a budget can be read."""
        killed = time.monotonic()
        self.server.kill()
        self._start_redis(killed)
        client = Client(self.ports, self.book)
        while not client.look(self.accounts[0]):
            if time.monotonic() - killed > BACK_S_MAX:
                self.book.fault(f"no redis after {BACK_S_MAX:.0f} s")
                return
            time.sleep(0.02)
        self.recoveries["redis"].append(time.monotonic() - killed)

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

    def _kill_gateway(self) -> None:
        """At least one gateway goes on serving."""
        for thread in list(self._starting.values())[: max(0, len(self._starting) - len(self.gateways) + 2)]:
            thread.join()
        gateway = self.rng.choice(self._running())
        orphans = children(gateway.process.pid)
        killed = time.monotonic()
        gateway.process.kill()
        gateway.process.wait()
        if gateway in self._starting:  # whoever waits for it to be ready starts it again, and nobody else may
            self._starting[gateway].join()
            if gateway.process.poll() is None:
                return

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
                try:
                    until(lambda pid=pid, line=line: not line or command_line(pid) != line, within_s=ORPHAN_S_MAX)
                except AssertionError:
                    self.book.fault(f"a killed gateway has left a process: {line}")

        thread = threading.Thread(target=start)
        thread.start()
        self._starting[gateway] = thread

    def _stop_for(self, seconds: float, process: Any) -> None:
        process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        process.send_signal(signal.SIGCONT)

    def _pause(self) -> None:
        """Stop a gateway for longer than the lease of the duties: now and then the one that seals."""
        self._stop_for(LEASE_S * 1.5, self.rng.choice(self._running()).process)

    def _freeze(self) -> None:
        """Stop a gateway for longer than the lease of its jobs, whose processes go on. Another gateway takes them."""
        for thread in self._freezing:
            thread.join()
        frozen = (LEASE_MS / 1000 + GRACE_S + 3 * SWEEP_S, self.rng.choice(self._running()).process)
        self._freezing = [threading.Thread(target=self._stop_for, args=frozen)]
        self._freezing[0].start()

    def _kill_worker(self) -> None:
        """Of a gateway that runs. It starts another one."""
        running = [
            pid for gateway in self._running() for pid, line in children(gateway.process.pid).items() if WORKER in line
        ]
        if running:
            with suppress(ProcessLookupError):
                os.kill(self.rng.choice(running), signal.SIGKILL)

    def _replace_exhausted(self) -> None:
        super()._replace_exhausted()
        if all(tenant.exhausted for tenant in self.jobs.tenants if tenant.kind == "few-jobs"):
            self.jobs.tenants.append(self._job_tenant("few-jobs"))

    def check(self, *, final: bool = False) -> None:
        super().check(final=final)
        if final:
            asyncio.run(self._audit_jobs())

    async def _audit_jobs(self) -> None:
        client = LedgerClient(connect(url=self.server.url))
        try:
            await JobAudit(self.jobs, client, self._draws).check()
        finally:
            await client.close()

    def _settle_open_keys(self) -> None:
        """Also every submission, and until every accepted job has ended."""
        client = JobClient(self.ports, self.book, self.jobs, random.Random(1))
        ends_at = time.monotonic() + JOBS_END_S_MAX
        while (unfinished := self.jobs.of(unfinished=True)) and time.monotonic() < ends_at:
            for ask in unfinished:
                client.submit(ask) if ask.state == OPEN else client.see(ask)
            client.move()
            time.sleep(1)
        for ask in self.jobs.of(unfinished=True):
            self.jobs.fault(ask, f"it has not ended after {JOBS_END_S_MAX:.0f} s: {ask.state} {ask.block}")
        for ask in self.jobs.of():
            client.submit(ask)  # its key finds it, or gets the same refusal
            if ask.block.get("status") == "succeeded" and not ask.artifact_read and client.fetch(ask) != 200:
                self.jobs.fault(ask, "its artifact cannot be read")
        super()._settle_open_keys()

    def report(self, seconds: float) -> dict[str, Any]:
        found = {
            "kill_cycles": {k.removeprefix("cycles "): n for k, n in self.counts.items() if k.startswith("cycles ")},
            "submissions_by_end": dict(Counter(ask.state for ask in self.jobs.of())),
            "jobs_by_end": {k.removeprefix("ends "): n for k, n in self.jobs.counts.items() if k.startswith("ends ")},
            "job_answers": {k: n for k, n in self.jobs.counts.items() if not k.startswith("ends ")},
        }
        return {**super().report(seconds), **found}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gateways", type=int, default=2)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--hold-ttl-s", type=int, default=21)
    parser.add_argument("--seconds", type=float, default=7200, help="begin no cycle after this time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a new folder for the data and the logs, which stay")
    given = parser.parse_args()
    order = [kind not in PAUSES for kind in WholeSystem.kills]
    cycles = next(
        n for n in itertools.count(given.kills) if sum(order[i % len(order)] for i in range(n)) == given.kills
    )
    with tempfile.TemporaryDirectory(prefix="soak-") as temporary:
        directory = given.keep or Path(temporary)
        (directory / "redis").mkdir(parents=True)
        began = time.monotonic()
        server = EmbeddedServer(directory / "redis")
        server.start()
        environment = (
            SETTINGS
            | constants(CONSTANTS)
            | {
                "REDIS_URL": server.url,
                "PRIVACY_GATEWAY_STORE_URL": f"file://{directory}/store",
                # what a killed process held is spent while the run goes on
                "PRIVACY_GATEWAY_REQUEST_TIMEOUT_S": str(given.hold_ttl_s - 1),
            }
        )
        gateways: list[Gateway] = []
        try:
            for number in range(given.gateways):
                folder = directory / f"gateway-{number}"
                gateways.append(Gateway(folder, environment, command=(sys.executable, str(SERVE))))
            soak = WholeSystem(server, gateways, clients=given.clients, seed=given.seed)
            soak.run(cycles, given.seconds)
            soak.check_journal()
            holders = int(server.admin().get(names.FENCE_KEY) or 0)
        finally:
            for gateway in gateways:
                gateway.stop()
            server.stop()
        report = {
            "gateways": given.gateways,
            "clients": given.clients,
            "seed": given.seed,
            "kills": soak.counts["kills"],
            **soak.report(time.monotonic() - began),
            "holders_of_duties": holders,
            "starts_refused": soak.counts["starts refused"],
            "torn_files_mended": soak.counts["torn files"],
        }
    return printed(report, soak.book)


if __name__ == "__main__":
    sys.exit(main())
