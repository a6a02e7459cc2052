"""Kill gateways, workers, Redis and the object store under requests and jobs, and count.

    PYTHONPATH=.:tests:tests/kits python -m soak.whole_system --gateways 2 --kills 100 --seed 1

As `soak.several_gateways`, with worker processes, an S3 server on disk, and tenants that submit jobs through any
gateway, repeat the submissions, watch them and cancel some. Each cycle ends a gateway, a worker of one, Redis or the
object store with SIGKILL, or stops a gateway for longer than the lease of the duties (`pause`) or of its jobs
(`freeze`). What was killed starts again while the next cycles go on; the object store stays away for seconds.

What is checked of requests is that of `soak.kill_cycles`. Of jobs: each accepted one ends once, for a reason that its
request, a cancellation or the number of attempts explains; it is charged once before it draws noise, or not at all;
the noise of one draw is visible; its artifact is what it made; a key finds its job again. See `soak.job_audit`.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from gateway_kit import Gateway, children
from redis_kit import EmbeddedServer
from s3_on_disk import S3OnDisk
from soak.job_audit import JobAudit
from soak.job_clients import ACCEPTED, JobBook, JobClient, JobTenant, keep_submitting, new_job
from soak.kill_cycles import BACK_S_MAX, TERMS, printed
from soak.load import OPEN
from soak.several_gateways import PAUSES, TESTS, SeveralGateways, paths, settings

from core.ledger.jobs import LEASE_MS
from service.jobs.sweep import GRACE_S, SWEEP_S

SERVE = Path(__file__).with_name("serve_jobs.py")
JOB_CLIENTS = 6
OUTAGE_S_MAX = 8.0  # of the object store
JOBS_END_S_MAX = 300.0
TERMS["jobs"] = ({"epsilon": 1_000_000}, {"epsilon": 0.5})
TERMS["few-jobs"] = ({"epsilon": 10}, {"epsilon": 0.5})


def job_settings(store: S3OnDisk) -> dict[str, str]:
    return {
        **store.environment(store.bucket()),
        "PRIVACY_GATEWAY_STORE_TIMEOUT_S": "10",
        "PRIVACY_GATEWAY_EPOCH_STORE_INTERVAL_S": "2",
        "PRIVACY_GATEWAY_JOBS_RUNNING_MAX": "2",
        "PRIVACY_GATEWAY_JOB_ATTEMPTS_MAX": "5",
        "PRIVACY_GATEWAY_JOB_TURN_S": "3",
    }


class WholeSystem(SeveralGateways):
    """The gateways with their workers, Redis, the object store, and the load."""

    kills = ("gateway", "store", "worker", "redis", "freeze", "gateway", "store", "worker", "redis", "pause")

    def __init__(self, server: EmbeddedServer, gateways: list[Gateway], store: S3OnDisk, *, seed: int) -> None:
        self.store = store
        self._returning: dict[str, threading.Thread] = {}  # what starts again, by its kind
        super().__init__(server, gateways, seed=seed)
        self.jobs = JobBook(self.book)
        self.jobs.tenants += [self._job_tenant("jobs"), self._job_tenant("jobs"), self._job_tenant("few-jobs")]
        self.job_audit = JobAudit(self.jobs, self.redis_url, gateways[0].data_dir.parent / "draws")

    def _job_tenant(self, kind: str) -> JobTenant:
        account = self._open(kind)
        return JobTenant(account.tenant, account.key)

    def _clients(self, stop: threading.Event) -> list[threading.Thread]:
        own = [
            threading.Thread(target=keep_submitting, args=(self.book, self.jobs, self.ports, stop, 1000 + number))
            for number in range(JOB_CLIENTS)
        ]
        return super()._clients(stop) + own

    def _end(self, kind: str) -> None:
        if kind == "store":
            self._restarted(kind, self.store.kill, self._start_store)
        elif kind == "worker":
            self._kill_worker()
        elif kind == "freeze":
            chosen = self.rng.choice([one for one in self.gateways if one.process.poll() is None]).process
            self._restarted(kind, lambda: chosen.send_signal(signal.SIGSTOP), lambda: self._thaw(chosen))
        else:
            super()._end(kind)
        self.counts[f"cycles {kind}"] += 1

    def _restarted(self, kind: str, kill: Callable[[], Any], start: Callable[[], None]) -> None:
        """Kill now, and start in the background. What is still starting is waited for."""
        if kind in self._returning:
            self._returning[kind].join()
        killed = time.monotonic()
        kill()

        def back() -> None:
            start()
            self.recoveries[kind].append(time.monotonic() - killed)
            print(f"{kind} is back after {self.recoveries[kind][-1]:.1f} s", flush=True)

        self._returning[kind] = threading.Thread(target=back)
        self._returning[kind].start()

    def _thaw(self, process: subprocess.Popen[bytes]) -> None:
        """By then another gateway has taken its jobs, whose processes have gone on."""
        time.sleep(LEASE_MS / 1000 + GRACE_S + 3 * SWEEP_S)
        process.send_signal(signal.SIGCONT)

    def _start_store(self) -> None:
        """It is back once a job is accepted, whose input is in the store."""
        time.sleep(random.uniform(0, OUTAGE_S_MAX))
        self.store.start()
        client = JobClient(self.ports, self.book, self.jobs, random.Random())
        ask = new_job(self.jobs.tenants[0], random.Random())
        with self.jobs.lock:
            self.jobs.asks.append(ask)
        self._until(lambda: client.submit(ask) == 202 or ask.state not in (OPEN, ACCEPTED), "no job is accepted")

    def _kill_worker(self) -> None:
        """Of a gateway that runs. It starts another one."""
        running = [
            pid
            for gateway in self.gateways
            if gateway.process.poll() is None
            for pid, line in children(gateway.process.pid).items()
            if "gpu_workers.engine.local.worker embed" in line
        ]
        if running:
            with suppress(ProcessLookupError):
                os.kill(self.rng.choice(running), signal.SIGKILL)

    def _until(self, done: Callable[[], bool], fault: str) -> None:
        began = time.monotonic()
        while not done():
            if time.monotonic() - began > BACK_S_MAX:
                self.book.fault(f"{fault} after {BACK_S_MAX:.0f} s")
                return
            time.sleep(0.1)

    def _replace_exhausted(self) -> None:
        super()._replace_exhausted()
        for tenant in list(self.jobs.tenants):
            if tenant.exhausted and not tenant.replaced:
                tenant.replaced = True
                self.jobs.tenants.append(self._job_tenant("few-jobs"))

    def check(self, *, final: bool = False) -> None:
        super().check(final=final)
        audit = self.job_audit.check_all if final else self.job_audit.check_spent
        asyncio.run(audit())

    def _worker_is_back(self) -> None:
        super()._worker_is_back()
        for thread in self._returning.values():
            thread.join()

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
        asks = self.jobs.of()
        ended = sorted(ask.seconds for ask in asks if ask.ended)
        found = {
            "kill_cycles": {
                name.split()[1]: count for name, count in self.counts.items() if name.startswith("cycles ")
            },
            "submissions_by_end": dict(Counter(ask.state for ask in asks)),
            "jobs_by_end": {k.removeprefix("ends "): n for k, n in self.jobs.counts.items() if k.startswith("ends ")},
            "job_answers": {k: n for k, n in self.jobs.counts.items() if not k.startswith("ends ")},
            "job_seconds": {"median": round(ended[len(ended) // 2], 1), "max": round(ended[-1], 1)} if ended else {},
            "jobs_cancelled_by_clients": sum(ask.cancelled for ask in asks),
            "job_audit": dict(self.job_audit.counts),
        }
        return {**super().report(seconds), **found}


def started(
    directory: Path, count: int, *, hold_ttl_s: int, parts: list[Any]
) -> tuple[EmbeddedServer, list[Gateway], S3OnDisk]:
    """Redis, gateways and the store. Each is added to `parts` when it runs."""
    redis_folder = directory / "redis"
    redis_folder.mkdir()
    server = EmbeddedServer(redis_folder)
    server.start()
    parts.append(server)
    store = S3OnDisk(directory / "store")
    parts.append(store)
    environment = settings(server.url, hold_ttl_s=hold_ttl_s) | job_settings(store) | paths(TESTS.parent)
    gateways: list[Gateway] = []
    for number in range(count):
        gateway = Gateway(directory / f"gateway-{number}", environment, command=(sys.executable, str(SERVE)))
        gateways.append(gateway)
        parts.append(gateway)
    return server, gateways, store


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
    WholeSystem.clients = given.clients
    order = [kind not in PAUSES for kind in WholeSystem.kills]
    cycles = next(
        n for n in itertools.count(given.kills) if sum(order[i % len(order)] for i in range(n)) == given.kills
    )
    with tempfile.TemporaryDirectory(prefix="soak-") as temporary:
        directory = given.keep or Path(temporary)
        directory.mkdir(exist_ok=True)
        began = time.monotonic()
        parts: list[Any] = []
        try:
            soak = WholeSystem(
                *started(directory, given.gateways, hold_ttl_s=given.hold_ttl_s, parts=parts), seed=given.seed
            )
            soak.run(cycles, given.seconds)
            soak.check_journal()
            takeovers = soak.takeovers()
        finally:
            for part in reversed(parts):
                part.stop() if isinstance(part, (Gateway, EmbeddedServer)) else part.kill()
        report = {
            "gateways": given.gateways,
            "clients": given.clients,
            "seed": given.seed,
            "kills": soak.counts["kills"],
            **soak.report(time.monotonic() - began),
            "holders_of_duties": takeovers,
            "starts_refused": soak.counts["starts refused"],
            "torn_files_mended": soak.counts["torn files"],
        }
    return printed(report, soak.book)


if __name__ == "__main__":
    sys.exit(main())
