"""The load of a soak, and what the ledger must say of it after each kill and at the end.

No crash may under-count: what the ledger has as spent is never less than what was delivered, and in the end it is
exactly what was delivered plus what was spent without an output.
"""

import asyncio
import json
import random
import subprocess
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import httpx
from gateway_kit import COMMAND, Gateway, clean_environment
from redis_kit import EmbeddedServer
from soak.load import DELIVERED, LOST, OPEN, Account, Book, Client, keep_asking

from core.ledger.counters import COUNT, EPSILON
from core.ledger.reader import LedgerReader
from core.redis.client import LedgerClient, connect

BACK_S_MAX = 180.0
# The limits and the requests of each tenant. One that has run out is followed by another of its kind.
TERMS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "edge": ({"epsilon": 10}, {"epsilon": 0.1, "documents_max": 3}),  # 64 clients empty it in a second or two
    "subjects": ({"epsilon": 1_000_000, "subject_epsilon": 1}, {"epsilon": 0.1, "subjects": 100}),
    "delta": ({"epsilon": 3, "delta": 1e-6}, {"epsilon": 0.05}),
    "plan": ({"epsilon": 2, "delta": 1e-6, "plans": {"sentence_codes": 0.05}}, {"epsilon": 0.05}),
    "jobs": ({"epsilon": 1_000_000}, {"epsilon": 0.5}),
    "few-jobs": ({"epsilon": 10}, {"epsilon": 0.5}),
}


class Load:
    """Clients of several gateways on one Redis, and the counts of one run."""

    kinds: Sequence[str] = ("edge", "subjects", "delta", "plan")  # of tenants

    def __init__(self, server: EmbeddedServer, gateways: list[Gateway], *, clients: int, seed: int) -> None:
        self.rng = random.Random(seed)
        self.book = Book()
        self.server = server
        self.gateways = gateways
        self.ports = [gateway.port for gateway in gateways]
        self.accounts = [self._open(kind) for kind in self.kinds]
        self.everyone = list(self.accounts)
        self.recoveries: dict[str, list[float]] = defaultdict(list)
        self.counts: Counter[str] = Counter()
        self._clients_max = clients

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

    def _clients(self, stop: threading.Event) -> list[threading.Thread]:
        """The load. Each thread ends soon after `stop`."""
        return [
            threading.Thread(target=keep_asking, args=(self.book, self.accounts, self.ports, stop, number))
            for number in range(self._clients_max)
        ]

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
                        own = [a.amount.epsilon_nano for a in entry.amounts if a.account == f"{tenant}/sentence"]
                        found[entry.release_id] = sum(own)  # nothing for a job
                cursor = page.next_cursor
            return found

        committed = self._read(commits)
        for ask in self.book.asks:
            cost = committed[ask.account.tenant].get(ask.release_id)
            if ask.state == DELIVERED and cost != ask.documents * ask.epsilon_nano:
                self.book.fault(f"release {ask.release_id} was delivered and the journal has {cost}")

    def _read(self, read: Any) -> dict[str, Any]:
        async def all_tenants() -> dict[str, Any]:
            client = LedgerClient(connect(url=self.server.url))
            try:
                ledger = LedgerReader(client)
                return {account.tenant: await read(ledger, account.tenant) for account in self.everyone}
            finally:
                await client.close()

        return asyncio.run(all_tenants())

    def audit(self) -> None:
        """`privacy-gateway ledger audit`, beside the running gateway."""
        command = [str(COMMAND), "ledger", "audit", "--data-dir", str(self.gateways[0].data_dir)]
        done = subprocess.run(
            command, capture_output=True, text=True, env=clean_environment() | self.gateways[0].environment, check=False
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
            "seconds": round(seconds),
            "requests": sum(self.book.answers.values()),
            "answers": dict(self.book.answers),
            "repeats_of_settled_keys": dict(self.book.repeats),
            "tenants": dict(Counter(account.kind for account in self.everyone)),
            "keys": {name.split()[1]: count for name, count in self.counts.items() if name.startswith("keys ")},
            "documents_delivered": self.counts["delivered"],
            "documents_durable": self.counts["durable"],
            "epsilon_delivered": self.counts["delivered_nano"] / nano,
            "epsilon_durable": self.counts["durable_nano"] / nano,
            "overspends": self.counts["overspends"],
            "checks": self.counts["checks"],
            "audits": self.counts["audits"],
            "recovery_s": {
                kind: {"median": round(sorted(times)[len(times) // 2], 2), "max": round(max(times), 2)}
                for kind, times in self.recoveries.items()
            },
            "faults": len(self.book.faults),
        }


def printed(report: dict[str, Any], book: Book) -> int:
    """Print the report, and as JSON in the last line. Returns the exit code."""
    for fault in book.faults[:50]:
        print(f"FAULT {fault}")
    for name, value in report.items():
        print(f"{name:<26}{value}")
    print(json.dumps(report))
    return 1 if book.faults else 0
