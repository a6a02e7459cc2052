"""Kill a gateway's worker, its Redis and itself under load, again and again, and count.

    PYTHONPATH=.:tests:tests/kits python -m soak.kill_cycles --cycles 200

Each cycle ends one of the three with SIGKILL at a random moment and checks the ledger once it is back. The load goes
on all the time: several tenants, idempotency keys, replays, budgets that run out. No crash may under-count:
what the ledger has as spent is never less than what was delivered, and in the end it is exactly what was delivered
plus what was spent without an output. Ends with a table and a line of JSON; exit code 1 after any fault.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gateway_kit import COMMAND, Gateway, children, clean_environment, command_line
from soak.load import DELIVERED, LOST, OPEN, Account, Book, Client, keep_asking, new_ask

from core.ledger.client import LedgerClient, connect
from core.ledger.counters import COUNT, EPSILON
from core.ledger.embedded import socket_path
from core.ledger.reader import LedgerReader

# Redis is back in a fraction of a second, the others load models: it also dies while a worker is loading
KINDS = (*("worker", "redis", "redis", "redis", "redis") * 2, "gateway")
CLIENTS = 6
BACK_S_MAX = 180.0
SETTINGS = {
    "PRIVACY_GATEWAY_EXPIRE_INTERVAL_S": "1",
    "PRIVACY_GATEWAY_RESPONSE_RETENTION_S": "86400",
    "PRIVACY_GATEWAY_STORED_BYTES_PER_TENANT_MAX": str(1 << 40),
    "PRIVACY_GATEWAY_UNCHARGED_HOLDS_PER_HOUR_MAX": "3600000",
    "OMP_WAIT_POLICY": "PASSIVE",
}
# The limits and the requests of each tenant. One that has run out is followed by another of its kind.
TERMS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "endless": ({"epsilon": 1_000_000}, {"epsilon": 0.3, "documents_max": 3}),
    "small": ({"epsilon": 3}, {"epsilon": 0.1, "documents_max": 2}),
    "subjects": ({"epsilon": 1_000_000, "subject_epsilon": 1}, {"epsilon": 0.1, "subjects": 100}),
    "delta": ({"epsilon": 3, "delta": 1e-6}, {"epsilon": 0.05}),
    "plan": ({"epsilon": 2, "delta": 1e-6, "plans": {"sentence_codes": 0.05}}, {"epsilon": 0.05}),
}


def of_holds(hold_ttl_s: int) -> dict[str, str]:
    """The settings by which what a killed process held is spent while the run goes on."""
    return {
        "PRIVACY_GATEWAY_REQUEST_TIMEOUT_S": str(hold_ttl_s - 1),
        "PRIVACY_GATEWAY_HOLD_TTL_S": str(hold_ttl_s),
    }


class Soak:
    """A gateway, its load, and the counts of one run."""

    kinds: Sequence[str] = tuple(TERMS)  # of tenants
    kills: Sequence[str] = KINDS
    clients = CLIENTS

    def __init__(self, gateway: Gateway, *, seed: int) -> None:
        self.rng = random.Random(seed)
        self.book = Book()
        self.gateway = gateway
        self.ports = [gateway.port]
        self.accounts = [self._open(kind) for kind in self.kinds]
        self.everyone = list(self.accounts)
        self.recoveries: dict[str, list[float]] = defaultdict(list)
        self.counts: Counter[str] = Counter()
        self._loading: threading.Thread | None = None  # waits for a killed worker

    @property
    def redis_url(self) -> str:
        return f"unix://{socket_path(self.gateway.data_dir)}"

    def _open(self, kind: str) -> Account:
        terms, how = TERMS[kind]
        tenant = self.gateway.tenant(**terms)
        return Account(kind, tenant.name, tenant.key, **how)

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
            self._worker_is_back()
            for client in clients:
                client.join()
        self._settle_open_keys()
        self.check(final=True)
        self.audit()

    def _clients(self, stop: threading.Event) -> list[threading.Thread]:
        """The load. Each thread ends soon after `stop`."""
        return [
            threading.Thread(target=keep_asking, args=(self.book, self.accounts, self.ports, stop, number))
            for number in range(self.clients)
        ]

    def _cycle(self, kind: str) -> None:
        if kind != "redis":
            self._worker_is_back()
        time.sleep(self.rng.uniform(0.1, 1.5))
        if kind == "gateway":
            self._kill_gateway()
        else:
            pid = self.gateway.pid_of(
                {"worker": "gpu_workers.engine.local.worker embed", "redis": "redis-server"}[kind]
            )
            killed = time.monotonic()
            os.kill(pid, signal.SIGKILL)
            waiter = threading.Thread(target=self._recover, args=(kind, killed))
            waiter.start()
            if kind == "worker":
                self._loading = waiter
            else:
                waiter.join()
        self.check()
        self._replace_exhausted()
        self.counts["cycles"] += 1
        print(f"cycle {self.counts['cycles']} {kind}, faults {len(self.book.faults)}", flush=True)

    def _kill_gateway(self) -> None:
        """Its workers, its Redis and its calculations are left behind: none of them may outlive the next start."""
        self.audit()
        orphans = children(self.gateway.process.pid)
        killed = time.monotonic()
        self.gateway.process.kill()
        self.gateway.process.wait()
        self.gateway.start()
        self._recover("gateway", killed)
        for pid, line in orphans.items():
            if line and command_line(pid) == line:
                self.book.fault(f"a killed gateway has left a process: {line}")

    def _worker_is_back(self) -> None:
        if self._loading is not None:
            self._loading.join()
            self._loading = None

    def _recover(self, kind: str, killed: float) -> None:
        """Wait for the first output, or for Redis the first budget, that was requested after the kill."""
        client = Client(self.ports, self.book)
        while time.monotonic() - killed < BACK_S_MAX:
            if client.look(self.accounts[0]) if kind == "redis" else self._delivers(client):
                self.recoveries[kind].append(time.monotonic() - killed)
                print(f"{kind} is back after {self.recoveries[kind][-1]:.1f} s", flush=True)
                return
            time.sleep(0.02)
        self.book.fault(f"no {kind} after {BACK_S_MAX:.0f} s")

    def _delivers(self, client: Client) -> bool:
        with self.book.lock:
            ask = new_ask(self.accounts[0], self.rng)
            self.book.asks.append(ask)
        return client.ask(ask) == 200

    def _replace_exhausted(self) -> None:
        for place, account in enumerate(self.accounts):
            if account.exhausted:
                self.accounts[place] = self._open(account.kind)
                self.everyone.append(self.accounts[place])

    def check(self, *, final: bool = False) -> None:
        """Read every account: within its limit, and not less spent than was delivered before the reading."""
        with self.book.lock:
            delivered = {account.tenant: (account.delivered, account.delivered_nano) for account in self.everyone}
        states = self._read(lambda ledger, tenant: ledger.accounts(tenant))
        for tenant, found in states.items():
            for state in found:
                if not state.within_limit:
                    self.counts["overspends"] += 1
                    self.book.fault(f"{state.account} is over its limit")
            sentence = next(state for state in found if state.account == f"{tenant}/sentence")
            documents, nano = delivered[tenant]
            spent, spent_nano = sentence.committed_vector[COUNT], sentence.committed_vector[EPSILON]
            if spent < documents or spent_nano < nano:
                self.book.fault(f"{tenant}: {spent} documents spent, {documents} delivered")
            if final:
                self._check_sum(tenant, spent, spent_nano, any(sentence.held_vector))
        self.counts["checks"] += 1

    def _check_sum(self, tenant: str, spent: int, spent_nano: int, held: bool) -> None:
        """The spent budget is that of the delivered and the lost releases. Every delivered release was committed."""
        mine = [ask for ask in self.book.asks if ask.account.tenant == tenant]
        charged = [ask for ask in mine if ask.state in (DELIVERED, LOST)]
        if held or any(ask.state == OPEN for ask in mine):
            self.book.fault(f"{tenant}: a key or a hold is still open")
        if spent != sum(ask.documents for ask in charged):
            self.book.fault(f"{tenant}: {spent} documents spent, {sum(ask.documents for ask in charged)} charged keys")
        if spent_nano != sum(ask.documents * ask.epsilon_nano for ask in charged):
            self.book.fault(f"{tenant}: another epsilon is spent than its charged keys cost")
        self.counts["durable"] += spent
        self.counts["durable_nano"] += spent_nano
        self.counts["delivered"] += sum(ask.documents for ask in mine if ask.state == DELIVERED)
        self.counts["delivered_nano"] += sum(a.documents * a.epsilon_nano for a in mine if a.state == DELIVERED)
        for keys in mine:
            self.counts[f"keys {keys.state}"] += 1

    def check_journal(self) -> None:
        """Every delivered release is committed in the journal, at its price."""

        async def commits(ledger: LedgerReader, tenant: str) -> dict[str, int]:
            found, cursor = {}, 0
            while cursor is not None:
                page = await ledger.journal(tenant, cursor=cursor, limit=1000)
                for entry in page.entries:
                    if entry.transition == "commit":
                        own = (a for a in entry.amounts if a.account == f"{tenant}/sentence")
                        found[entry.release_id] = next(own).amount.epsilon_nano
                cursor = page.next_cursor
            return found

        committed = self._read(commits)
        for ask in self.book.asks:
            cost = committed[ask.account.tenant].get(ask.release_id)
            if ask.state == DELIVERED and cost != ask.documents * ask.epsilon_nano:
                self.book.fault(f"release {ask.release_id} was delivered and the journal has {cost}")

    def _read(self, read: Any) -> dict[str, Any]:
        async def all_tenants() -> dict[str, Any]:
            client = LedgerClient(connect(url=self.redis_url))
            try:
                ledger = LedgerReader(client)
                return {account.tenant: await read(ledger, account.tenant) for account in self.everyone}
            finally:
                await client.close()

        return asyncio.run(all_tenants())

    def audit(self) -> None:
        """`privacy-gateway ledger audit`, beside the running gateway."""
        command = [str(COMMAND), "ledger", "audit", "--data-dir", str(self.gateway.data_dir)]
        done = subprocess.run(
            command, capture_output=True, text=True, env=clean_environment() | self.gateway.environment, check=False
        )
        self.counts["audits"] += 1
        if done.returncode != 0:
            self.book.fault(f"audit: {done.stdout}{done.stderr}")

    def _settle_open_keys(self) -> None:
        """Ask for every open key until it is settled: holds of a killed gateway end after HOLD_TTL_S."""
        client, deadline = Client(self.ports, self.book), time.monotonic() + BACK_S_MAX
        while time.monotonic() < deadline:
            unsettled = [ask for ask in self.book.asks if ask.state == OPEN]
            if not unsettled:
                return
            for ask in unsettled:
                client.ask(ask)
            time.sleep(1)

    def report(self, seconds: float) -> dict[str, Any]:
        nano = 10**9
        return {
            "cycles": {kind: len(times) for kind, times in self.recoveries.items()},
            "seconds": round(seconds),
            "requests": sum(self.book.answers.values()),
            "answers": dict(self.book.answers),
            "repeats_of_settled_keys": dict(self.book.repeats),
            "tenants": dict(Counter(account.kind for account in self.everyone)),
            "keys": {name.split()[1]: count for name, count in self.counts.items() if name.startswith("keys ")},
            "documents_delivered": self.counts["delivered"],
            "documents_durable": self.counts["durable"],
            "documents_difference": self.counts["durable"] - self.counts["delivered"],
            "epsilon_delivered": self.counts["delivered_nano"] / nano,
            "epsilon_durable": self.counts["durable_nano"] / nano,
            "epsilon_difference": (self.counts["durable_nano"] - self.counts["delivered_nano"]) / nano,
            "overspends": self.counts["overspends"],
            "checks": self.counts["checks"],
            "audits": self.counts["audits"],
            "recovery_s": {
                kind: {"median": round(statistics.median(times), 2), "max": round(max(times), 2)}
                for kind, times in self.recoveries.items()
            },
            "faults": len(self.book.faults),
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=200)
    parser.add_argument("--hold-ttl-s", type=int, default=21)
    parser.add_argument("--seconds", type=float, default=3600, help="begin no cycle after this time")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-") as directory:
        began = time.monotonic()
        gateway = Gateway(Path(directory) / "data", SETTINGS | of_holds(given.hold_ttl_s))
        try:
            soak = Soak(gateway, seed=given.seed)
            soak.run(given.cycles, given.seconds)
            soak.check_journal()
        finally:
            gateway.stop()
        report = soak.report(time.monotonic() - began)
    return printed(report, soak.book)


def printed(report: dict[str, Any], book: Book) -> int:
    """Print the report, and as JSON in the last line. Returns the exit code."""
    for fault in book.faults[:50]:
        print(f"FAULT {fault}")
    for name, value in report.items():
        print(f"{name:<26}{value}")
    print(json.dumps(report))
    return 1 if book.faults else 0


if __name__ == "__main__":
    sys.exit(main())
