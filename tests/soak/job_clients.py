"""Clients that submit jobs, repeat the submissions, watch the jobs and cancel some, and what they may be answered.

A submission is settled by its first answer of these three: 202 accepts a job, 410 says that its hold was spent without
a job, 403 denies it. From then on its key gets the same answer: the same job, 410 or 403. Whatever else comes back, or
nothing, leaves it open, and it is sent again until it is settled. A job that has ended never changes, and whatever
anybody sees of its noise is of one draw.
"""

import hashlib
import json
import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from soak.job import AFTER, BEFORE, MARK, WELL
from soak.load import DENIED, LOST, OPEN, Account, Book, Client

from core.amounts import NANO

ACCEPTED = "accepted"
ENDED = frozenset({"succeeded", "failed", "cancelled"})
UNCERTAIN = {0, 409, 429, 502, 503, 504}
EXHAUSTED = "attempts-exhausted"
ENDS = (WELL,) * 8 + (BEFORE, AFTER)
STEPS = (4, 24)
OPEN_MAX = 4  # unfinished jobs of one tenant, below the setting


@dataclass
class JobAsk:
    """One idempotency key, its body, and what is known of its job. `mark`: of the one draw that is visible."""

    tenant: Account
    name: str
    ends: str
    epsilon_nano: int
    body: bytes
    key: str = field(default_factory=lambda: uuid.uuid4().hex)
    state: str = OPEN
    job_id: str = ""
    block: dict[str, Any] = field(default_factory=dict)  # the last one, or the one that is the job's end
    mark: int | None = None
    cancelled: bool = False  # it was asked for
    artifact_read: bool = False

    @property
    def ended(self) -> bool:
        return self.block.get("status") in ENDED


def new_job(tenant: Account, rng: random.Random) -> JobAsk:
    name = f"job-{uuid.uuid4().hex[:16]}"
    ends, epsilon = rng.choice(ENDS), rng.choice((0.1, 0.25, 0.5))
    fields = {"name": name, "question": "", "epsilon": epsilon, "steps": rng.randint(*STEPS), "ends": ends}
    body = json.dumps({**fields, "answers": [True] * rng.randint(1, 200)}).encode()
    return JobAsk(tenant, name, ends, round(epsilon * NANO), body)


class JobBook:
    """Every job that was asked for. Faults go to the `book` of the soak."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self.lock = threading.Lock()
        self.asks: list[JobAsk] = []
        self.tenants: list[Account] = []
        self.counts: Counter[str] = Counter()
        self._jobs: dict[str, JobAsk] = {}  # by job id

    def fault(self, ask: JobAsk, what: str) -> None:
        self._book.fault(f"job {ask.job_id or ask.key}: {what}")

    def of(self, *, tenant: Account | None = None, unfinished: bool = False) -> list[JobAsk]:
        with self.lock:
            chosen: Iterable[JobAsk] = self.asks
            if tenant is not None:
                chosen = (ask for ask in chosen if ask.tenant is tenant)
            if unfinished:
                chosen = (ask for ask in chosen if ask.state == OPEN or (ask.state == ACCEPTED and not ask.ended))
            return list(chosen)

    def submitted(self, ask: JobAsk, before: str, status: int, content: bytes) -> None:
        """Judge the answer to a submission, whose state was `before` when it was sent."""
        with self.lock:
            self.counts[f"submissions {status}"] += 1
            if before != OPEN:
                self.counts["repeated"] += 1
            if status == 202:
                block = json.loads(content)
                self._settle(ask, ACCEPTED, block["job_id"])
                self._judge(ask, block, ended_before=False)
            elif status == 403:
                self._settle(ask, DENIED)
                ask.tenant.exhausted = True
            elif status == 410:
                self._settle(ask, LOST)
            elif status not in UNCERTAIN:
                self.fault(ask, f"its submission got {status}: {content[:300]!r}")

    def _settle(self, ask: JobAsk, state: str, job_id: str = "") -> None:
        if ask.state == OPEN:
            ask.state, ask.job_id = state, job_id
            if job_id and self._jobs.setdefault(job_id, ask) is not ask:
                self.fault(ask, "one job for two keys")
        elif (ask.state, ask.job_id) != (state, job_id):
            self.fault(ask, f"its key was {ask.state} and then {state} {job_id}")

    def seen(self, ask: JobAsk, ended_before: bool, status: int, content: bytes) -> None:
        """Judge a look at an accepted job. `ended_before`: whether it had ended when the request was sent."""
        with self.lock:
            self.counts[f"looks {status}"] += 1
            if status == 200:
                self._judge(ask, json.loads(content), ended_before=ended_before)
            elif status not in UNCERTAIN:
                self.fault(ask, f"a look at it got {status}: {content[:300]!r}")

    def _judge(self, ask: JobAsk, block: dict[str, Any], *, ended_before: bool) -> None:
        if block["label"] != ask.name:
            self.fault(ask, "it has another label")
        for marks in (block.get("metrics", {}).get(MARK), block.get("result", {}).get("mark")):
            if marks is not None and ask.mark not in (None, int(marks)):
                self.fault(ask, f"the noise of two draws is visible: {ask.mark} and {int(marks)}")
            ask.mark = ask.mark if marks is None else int(marks)
        if ask.ended:
            if (ended_before or block["status"] in ENDED) and block != ask.block:
                self.fault(ask, f"it had ended and changed: {ask.block} and {block}")
            return
        ask.block = block
        if ask.ended:
            self._judge_end(ask, block)

    def _judge_end(self, ask: JobAsk, block: dict[str, Any]) -> None:
        """Every end is one that its request, a cancellation or the number of attempts explains."""
        spent = round(block["spent"]["epsilon"] * NANO)
        reason = block.get("problem", {}).get("reason")
        self.counts[f"ends {block['status']}{f' {reason}' if reason else ''}"] += 1
        self.counts["resumed"] += block["attempts"] > 1
        self.counts["attempts max"] = max(self.counts["attempts max"], block["attempts"])
        planned = {WELL: None, BEFORE: "soak-before", AFTER: "soak-after"}[ask.ends]
        match block["status"]:
            case "succeeded":
                fits = planned is None and spent == ask.epsilon_nano
            case "failed":
                fits = reason == EXHAUSTED or (
                    reason == planned and spent == (ask.epsilon_nano if ask.ends == AFTER else 0)
                )
            case _:
                fits = ask.cancelled
        if not fits or spent not in (0, ask.epsilon_nano) or round(block["reserved"]["epsilon"] * NANO):
            self.fault(ask, f"this end is not explained: {block}")

    def artifact(self, ask: JobAsk, status: int, content: bytes) -> None:
        """Judge the artifact of a job that has succeeded."""
        with self.lock:
            self.counts[f"artifacts {status}"] += 1
            if status == 200 and hashlib.sha256(content).hexdigest() != ask.block["result"]["sha256"]:
                self.fault(ask, "its artifact has another SHA-256")
            elif status == 200:
                ask.artifact_read = True
            elif status not in UNCERTAIN - {409} or b'"blob-' in content:
                self.fault(ask, f"its artifact got {status}: {content[:300]!r}")


class JobClient(Client):
    """As `Client`, for jobs. Each request may go to another gateway."""

    def __init__(self, ports: Sequence[int], book: Book, jobs: JobBook, rng: random.Random) -> None:
        super().__init__(ports, book, rng)
        self._jobs = jobs

    def submit(self, ask: JobAsk) -> int:
        before = ask.state
        status, content = self._send("POST", "/jobs/soak", ask.tenant.key, ask.body, {"Idempotency-Key": ask.key})
        self._jobs.submitted(ask, before, status, content)
        return status

    def see(self, ask: JobAsk) -> int:
        before = ask.ended
        status, content = self._send("GET", f"/jobs/{ask.job_id}", ask.tenant.key)
        self._jobs.seen(ask, before, status, content)
        return status

    def cancel(self, ask: JobAsk) -> int:
        before = ask.ended
        ask.cancelled = True
        status, content = self._send("POST", f"/jobs/{ask.job_id}/cancel", ask.tenant.key)
        self._jobs.seen(ask, before, status, content)
        return status

    def fetch(self, ask: JobAsk) -> int:
        status, content = self._send("GET", f"/jobs/{ask.job_id}/artifact", ask.tenant.key)
        self._jobs.artifact(ask, status, content)
        return status


def keep_submitting(book: Book, jobs: JobBook, ports: Sequence[int], stop: threading.Event, seed: int) -> None:
    """One client's life: new jobs, repeated submissions, looks, and now and then a cancellation."""
    rng = random.Random(seed)
    client = JobClient(ports, book, jobs, rng)
    while not stop.is_set():
        if rng.random() < 0.4:
            client.move()
        status = _step(client, jobs, rng)
        time.sleep(rng.uniform(0.1, 0.5) if status not in UNCERTAIN else rng.uniform(0.3, 1.0))


def _step(client: JobClient, jobs: JobBook, rng: random.Random) -> int:
    with jobs.lock:
        tenant = rng.choice([each for each in jobs.tenants if not each.exhausted] or jobs.tenants)
    unfinished = jobs.of(tenant=tenant, unfinished=True)
    running = [ask for ask in unfinished if ask.state == ACCEPTED]
    lost = [ask for ask in unfinished if ask.state == OPEN]
    everything = jobs.of(tenant=tenant)
    dice = rng.random()
    if len(unfinished) < OPEN_MAX and dice < 0.5:
        ask = new_job(tenant, rng)
        with jobs.lock:
            jobs.asks.append(ask)
        return client.submit(ask)
    if lost and dice < 0.7:
        return client.submit(rng.choice(lost))
    if everything and dice < 0.75:
        return client.submit(rng.choice(everything[-50:]))
    if running and dice < 0.78:
        return client.cancel(rng.choice(running))
    done = [ask for ask in everything[-100:] if ask.block.get("status") == "succeeded"]
    unread = [ask for ask in done if not ask.artifact_read]
    if done and dice < 0.86:
        return client.fetch(rng.choice(unread or done))
    if running:
        return client.see(rng.choice(running))
    return client.see(rng.choice(done)) if done else 200
