"""Clients that ask, repeat and remember: what each idempotency key was answered, and whether that may be.

A key is settled by its first answer of these three: 200 delivers an output, 410 says that its hold was spent without
one, 403 denies it. From then on it gets the same answer: the identical bytes, 410, or the same numbers. Whatever else
comes back leaves the key open, and the request is sent again.
"""

import hashlib
import http.client
import json
import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from core.amounts import NANO

DELIVERED, LOST, DENIED, OPEN = "delivered", "lost", "denied", "open"
UNCERTAIN = {409, 502, 503, 504}
REFUSED = {"ledger-unavailable", "worker-not-ready"}  # codes before the reserve, which a settled key may get as well
TEXTS = ("It works. I like it.", "It broke. I want my money back.", "Rain. Wind. Then some sun.")
TIMEOUT_S = 60.0


@dataclass
class Account:
    """A tenant under load: its requests and what it has delivered."""

    kind: str
    tenant: str
    key: str
    epsilon: float
    subjects: int = 0
    documents_max: int = 1
    delivered: int = 0  # documents
    delivered_nano: int = 0
    exhausted: bool = False


@dataclass
class Ask:
    """One idempotency key and its body."""

    account: Account
    documents: int
    epsilon_nano: int
    body: bytes
    key: str = field(default_factory=lambda: uuid.uuid4().hex)
    state: str = OPEN
    answer: Any = None  # of a settled key: the digest of the bytes, or the numbers of the denial
    release_id: str | None = None


def new_ask(account: Account, rng: random.Random) -> Ask:
    documents = rng.randint(1, account.documents_max)
    rows: list[dict[str, Any]] = [{"text": rng.choice(TEXTS)} for _ in range(documents)]
    for row in rows:
        if account.subjects:
            row["subject"] = f"person-{rng.randrange(account.subjects)}"
    body = json.dumps({"documents": rows, "epsilon": account.epsilon, "encoding_format": "base64"}).encode()
    return Ask(account, documents, round(account.epsilon * NANO), body)


class Book:
    """Everything that was answered. `faults` says what an answer should not have been."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.asks: list[Ask] = []
        self.retry: list[Ask] = []
        self.answers: Counter[str] = Counter()
        self.repeats: Counter[str] = Counter()
        self.faults: list[str] = []
        self._releases: set[str] = set()

    def fault(self, what: str) -> None:
        with self.lock:
            self.faults.append(what)

    def take(self, ask: Ask, before: str, status: int, content: bytes) -> None:
        """Judge an answer to `ask`, whose state was `before` when it was sent; status 0 is no answer."""
        with self.lock:
            self.answers[str(status or "none")] += 1
            if status == 200:
                self._settle(ask, before, DELIVERED, hashlib.sha256(content).digest())
                if ask.release_id is None:
                    self._deliver(ask, json.loads(content)["privacy"])
            elif status == 410:
                self._settle(ask, before, LOST, None)
            elif status == 403:
                denial = json.loads(content)
                self._settle(ask, before, DENIED, (denial["requested"], denial["remaining"]))
                ask.account.exhausted |= ask.account.subjects == 0
            elif status and status not in UNCERTAIN:
                self.faults.append(f"{status} for {ask.key}: {content[:200]!r}")
            elif status and before != OPEN and json.loads(content)["code"] not in REFUSED:
                self.faults.append(f"a {before} key was tried again: {content[:200]!r}")
            elif before == OPEN:
                self.retry.append(ask)

    def _settle(self, ask: Ask, before: str, state: str, answer: Any) -> None:
        if before != OPEN:
            self.repeats[f"{before} -> {state}"] += 1
        if ask.state == OPEN:
            ask.state, ask.answer = state, answer
        elif (ask.state, ask.answer) != (state, answer):
            self.faults.append(f"{ask.key} was {ask.state} and then {state}, or not with the same content")

    def _deliver(self, ask: Ask, privacy: dict[str, Any]) -> None:
        ask.release_id = privacy["release_id"]
        if ask.release_id in self._releases:
            self.faults.append(f"release {ask.release_id} under two keys")
        if round(privacy["epsilon"] * NANO) != ask.epsilon_nano:
            self.faults.append(f"release {ask.release_id} at another epsilon than requested")
        self._releases.add(ask.release_id)
        ask.account.delivered += ask.documents
        ask.account.delivered_nano += ask.documents * ask.epsilon_nano


class Client:
    """One connection to one of the gateways. After a failure the next request opens one to any of them."""

    def __init__(self, ports: Sequence[int], book: Book, rng: random.Random | None = None) -> None:
        self._ports = ports
        self._rng = rng or random.Random(0)
        self._book = book
        self._connect()

    def _connect(self) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", self._rng.choice(self._ports), timeout=TIMEOUT_S)

    def move(self) -> None:
        """Continue at any of the gateways."""
        self._connection.close()
        self._connect()

    def ask(self, ask: Ask) -> int:
        """Send it, once; returns the status, 0 for no whole answer."""
        before = ask.state
        status, content = self._send("POST", "/embed/sentdp", ask.account.key, ask.body, {"Idempotency-Key": ask.key})
        self._book.take(ask, before, status, content)
        return status

    def look(self, account: Account) -> bool:
        """Whether the budget can be read."""
        return self._send("GET", "/budget", account.key)[0] == 200

    def _send(
        self, method: str, path: str, key: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json", **(headers or {})}
        try:
            self._connection.request(method, path, body, headers)
            answer = self._connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            self.move()
            return 0, b""


def keep_asking(book: Book, accounts: list[Account], ports: Sequence[int], stop: threading.Event, seed: int) -> None:
    """One client's life: mostly new keys, and retries, replays, the same key twice at once, and looks at budgets."""
    rng = random.Random(seed)
    client = Client(ports, book, rng)
    while not stop.is_set():
        if len(ports) > 1 and rng.random() < 0.2:
            client.move()
        dice = rng.random()
        ask = None
        with book.lock:
            account = rng.choice(accounts)
            if dice < 0.25 and book.retry:
                ask = book.retry.pop(rng.randrange(len(book.retry)))
            elif dice < 0.35 and book.asks:
                ask = rng.choice(book.asks[-500:])
            elif dice >= 0.4:
                ask = new_ask(account, rng)
                book.asks.append(ask)
        if ask is None:
            client.look(account)
        elif client.ask(ask) in (0, *UNCERTAIN):
            time.sleep(rng.uniform(0.05, 0.3))
        time.sleep(rng.uniform(0, 0.05))
