"""Jobs of two gateways that die or pause while Redis and the blob store fail: each ends once, and shows one draw.

A thread stands for a job's process. A gateway that has died is one whose calls of Redis and of the store never return.
The calls of one that pauses wait, and its processes go on.
"""

import asyncio
import hashlib
import importlib
import random
import secrets
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis_kit import GuardedServer
from soak import job as soak_job
from soak.job_kind import SoakKind

from core.accounting.events import Unit
from core.amounts import NANO, Amount
from core.blobs.local import LocalBlobs
from core.errors import JobFailed, LedgerUnavailable, StoreUnavailable
from core.ledger.hash_chain.audit import audit_tenant
from core.ledger.records import Limit
from core.ledger.transitions import Ledger
from core.master_key import MasterKey
from core.redis.client import LedgerClient, connect
from core.state.jobs import JobHold, JobRecord, JobStatus, JobStore
from core.state.stored_files import ARTIFACTS, StoredFileIndex
from gpu_workers.jobs.protocol import ChargeRequested, Failed, JobOrder, JobProgress, Succeeded
from service.config.settings import Settings
from service.files.copies import LocalCopies
from service.files.stored import StoredFiles
from service.jobs import attempt as attempt_module
from service.jobs import runner
from service.jobs.attempt import AttemptLimits, RunnerLimits
from service.jobs.blobs import JobBlobs
from service.jobs.files import JobFiles
from service.jobs.kind import JobKinds
from service.jobs.runner import JobRunner
from service.jobs.storage import Storage

KEY = MasterKey(bytes(range(32)))
LEASE_MS = 400
EPSILON = 0.5
LIMITS = RunnerLimits(
    running_max=2, waiting_max=99, tenant_share=1.0, retention_s=3600, alone=False,
    attempt=AttemptLimits(
        seconds_max=600, turn_s=600, memory_bytes_max=10**9, priority="normal", attempts_max=99
    ),
)  # fmt: skip
SHARE_OF_FAULTS = {"redis": 0.05, "store": 0.3}


NO_FAULTS = {"redis": 0.0, "store": 0.0}


class Fate:
    """Whether a gateway lives and is awake, and how often its calls fail."""

    def __init__(self, seed: int) -> None:
        self.is_dead = False
        self.awake = asyncio.Event()
        self.awake.set()
        self.share = SHARE_OF_FAULTS
        self._dice = random.Random(seed)

    async def lives(self) -> None:
        await self.awake.wait()
        if self.is_dead:
            await asyncio.Event().wait()

    async def around(self, of: str, error: Exception, work: Callable[[], Any]) -> Any:
        """Run `work`, unless it fails before; or its answer is lost."""
        await self.lives()
        if self._dice.random() < self.share[of] / 2:
            raise error
        found = await work()
        await self.lives()
        if self._dice.random() < self.share[of] / 2:
            raise error
        return found


def failing(of: str, owner: type, name: str, error: Exception) -> Callable[..., Any]:
    """The method of this name, whose calls fail as the `fate` of the instance says."""
    original = getattr(owner, name)

    async def call(self: Any, *args: Any, **options: Any) -> Any:
        return await self.fate.around(of, error, lambda: original(self, *args, **options))

    return call


class FailingClient(LedgerClient):
    def __init__(self, url: str, fate: Fate) -> None:
        super().__init__(connect(url=url))
        self.fate = fate

    run, call = (failing("redis", LedgerClient, name, LedgerUnavailable("no answer")) for name in ("run", "call"))


class FailingBlobs(LocalBlobs):
    def __init__(self, folder: Path, fate: Fate) -> None:
        super().__init__(folder)
        self.fate = fate

    put, put_file, get = (
        failing("store", LocalBlobs, name, StoreUnavailable(reason="unreachable"))
        for name in ("put", "put_file", "get")
    )


class Killed(BaseException):
    """The process of the job has ended."""


class Thread:
    """Stands for `ChildProcess`: a job's function in a thread."""

    def __init__(self, order: JobOrder, on_message: Callable[[Any], None], on_death: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_message, self._on_death, self._order = on_message, on_death, order
        self._charged, self._is_killed = threading.Event(), False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _say(self, what: Callable[..., None], *message: Any) -> None:
        if self._is_killed:
            raise Killed
        self._loop.call_soon_threadsafe(what, *message)

    def _run(self) -> None:
        module, _, function = self._order.entry_point.partition(":")
        try:
            try:
                result = getattr(importlib.import_module(module), function)(self._order, self._report, self._charge)
                message: Succeeded | Failed = Succeeded(result)
            except JobFailed as problem:
                message = Failed(problem)
            self._say(self._on_message, message)
        except BaseException:  # Killed, or an error that ends a process
            self._loop.call_soon_threadsafe(self._on_death)

    def _report(self, stage: str, fraction: float, metrics: Any = None) -> None:
        self._say(self._on_message, JobProgress(stage, fraction, metrics))

    def _charge(self) -> None:
        self._say(self._on_message, ChargeRequested(None))
        self._charged.wait()
        if self._is_killed:
            raise Killed

    def send(self, _: Any) -> None:
        self._charged.set()

    def kill(self) -> None:
        self._is_killed = True
        self._charged.set()

    async def stop(self) -> None:
        await asyncio.to_thread(self._thread.join)


class Gateway:
    """The runner of one gateway, over its failing Redis and store. `processes` are those that it has started."""

    def __init__(self, folder: Path, name: str, url: str, seed: int) -> None:
        self.folder, self.name, self.url = folder, name, url
        self.fate = Fate(seed)
        self.processes: list[Thread] = []
        self.client = FailingClient(url, self.fate)
        self.store = JobStore(self.client, gateway=secrets.token_hex(8), lease_ms=LEASE_MS)
        blobs = FailingBlobs(folder / "store", self.fate)
        copies = LocalCopies(folder / name, bytes_max=10**9, free_bytes_min=0)
        self.stored = StoredFiles(copies, blobs, StoredFileIndex(self.client, bytes_max=10**9), KEY)
        storage = Storage(folder / name, tenant_bytes_max=10**9, free_bytes_min=0, stored=self._nothing)
        self.files = JobFiles(folder / name, KEY, storage)
        self.kind = SoakKind(Settings(data_dir=folder / name))
        ledger = Ledger(self.client, KEY)
        self.runner = JobRunner(
            self.store,
            self.files,
            JobBlobs(blobs, KEY),
            self.stored,
            JobKinds([self.kind]),
            ledger=ledger,
            limits=LIMITS,
        )

    @staticmethod
    async def _nothing(_: str) -> int:
        return 0

    async def open(self) -> None:
        share, self.fate.share = self.fate.share, NO_FAULTS
        await self.runner.open()
        self.fate.share = share

    async def pause(self) -> None:
        """For longer than the lease of its jobs, which another gateway takes meanwhile."""
        self.fate.awake.clear()
        await asyncio.sleep(3 * LEASE_MS / 1000)
        self.fate.awake.set()

    async def die(self) -> None:
        self.fate.is_dead = True
        for process in self.processes:
            process.kill()
            await process.stop()


class World:
    """Two gateways, the jobs of one tenant, and a Redis and a store beside them that do not fail."""

    def __init__(self, folder: Path, url: str, seed: int) -> None:
        self.folder, self.url, self.dice = folder, url, random.Random(seed)
        self.tenant = f"jobs-{secrets.token_hex(4)}"
        self.client = LedgerClient(connect(url=url))
        self.ledger = Ledger(self.client, KEY)
        self.jobs = JobStore(self.client, gateway="nobody")
        self.marks: dict[str, set[int]] = {}
        self.ends: dict[str, str] = {}
        self.cancelled: set[str] = set()
        self.gateways = [Gateway(folder, name, url, self.dice.randrange(10**6)) for name in ("a", "b")]
        self.submitter = Gateway(folder, "submitter", url, 0)  # it runs no jobs, and does not fail
        self.submitter.fate.share = NO_FAULTS
        self.all = [self.submitter, *self.gateways]

    def starter(self) -> Callable[..., Thread]:
        def start(
            order: JobOrder, *, on_message: Callable[[Any], None], on_death: Callable[[], None], **_: Any
        ) -> Thread:
            process = Thread(order, on_message, on_death)
            owner = next(one for one in self.gateways if order.folder.is_relative_to(one.folder / one.name))
            owner.processes.append(process)
            return process

        return start

    async def submit(self, ends: str) -> None:
        """As `service.jobs.submit` does, over the Redis that does not fail."""
        gateway = self.submitter
        job_id = secrets.token_hex(16)
        fields: dict[str, Any] = {
            "name": f"job-{job_id[:8]}", "epsilon": EPSILON, "steps": self.dice.randint(1, 20), "ends": ends,
        }  # fmt: skip
        fields["subject"] = None
        price = await gateway.kind.price(self.tenant, fields)
        assert price is not None
        incoming = gateway.files.incoming(self.tenant, job_id, stored=0)
        incoming.write(orjson.dumps({"number": 1}) + b"\n")
        claim = incoming.finish(fields)
        assert incoming.keep()
        manifest = await gateway.runner.working.store_input(self.tenant, job_id)
        held = await self.ledger.reserve(self.tenant, price.charges)
        hold = JobHold(held.release_id, Amount(price.charges[0].event.epsilon_nano))
        terms = {"kind": "soak", "label": fields["name"], "claim": claim, "open_max": 99}
        await self.jobs.create(self.tenant, job_id, hold=hold, state=manifest.state, size=manifest.size, **terms)
        self.ends[job_id] = ends
        self.marks[job_id] = set()

    async def look(self) -> list[JobRecord]:
        found = [await self.jobs.get(self.tenant, job_id) for job_id in self.ends]
        for job in found:
            shown = ((job.metrics or {}).get(soak_job.MARK), (job.result or {}).get("mark"))
            self.marks[job.job_id] |= {int(mark) for mark in shown if mark is not None}
        return found

    async def replace(self, number: int) -> None:
        """A gateway dies, and starts again on its folder."""
        await self.gateways[number].die()
        name = self.gateways[number].name
        self.gateways[number] = Gateway(self.folder, name, self.url, self.dice.randrange(10**6))
        self.all.append(self.gateways[number])
        await self.gateways[number].open()

    async def run(self, events: list[str]) -> None:
        await self.ledger.open_tenant(self.tenant, limits={unit: Limit(100 * NANO) for unit in Unit})
        for gateway in self.gateways:
            await gateway.open()
        for ends in ("well", "well", "before", "after"):
            await self.submit(ends)
        for event in events:
            for _ in range(self.dice.randint(1, 20)):
                await self.look()
                await asyncio.sleep(0.02)
            if event == "cancel":
                chosen = self.dice.choice(sorted(self.ends))
                await self.jobs.cancel(self.tenant, chosen)
                self.cancelled.add(chosen)
            elif event == "pause":
                await self.dice.choice(self.gateways).pause()
            else:
                await self.replace(self.dice.randrange(2))
        async with asyncio.timeout(120):
            while not all(job.status.ended for job in await self.look()):
                await asyncio.sleep(0.05)
        await self.check(await self.look())

    async def check(self, jobs: list[JobRecord]) -> None:
        entries = (await self.ledger.journal(self.tenant, limit=1000)).entries
        transitions: list[str] = [entry.transition for entry in entries]
        assert transitions.count("reserve") == len(jobs)
        assert transitions.count("commit") == sum(job.spent.epsilon_nano > 0 for job in jobs)
        assert transitions.count("cancel") == sum(job.spent.epsilon_nano == 0 for job in jobs)
        for job in jobs:
            assert len(self.marks[job.job_id]) <= 1, "the noise of two draws is visible"
            assert job.reserved == Amount(0)
            assert not self.marks[job.job_id] or job.spent.epsilon_nano == EPSILON * NANO
            if job.status is JobStatus.CANCELLED:
                assert job.job_id in self.cancelled
                continue
            reason = None if job.problem is None else job.problem["reason"]
            wanted = {"well": None, "before": "soak-before", "after": "soak-after"}[self.ends[job.job_id]]
            assert reason == wanted, job
            assert (job.spent.epsilon_nano > 0) == (self.ends[job.job_id] != "before")
            if job.status is JobStatus.SUCCEEDED:
                assert job.result is not None
                found = await self.submitter.stored.find(self.tenant, ARTIFACTS, job.job_id)
                assert found is not None
                content = Path(found.path).read_bytes()
                assert hashlib.sha256(content).hexdigest() == job.result["sha256"]
        assert (await audit_tenant(self.client, self.tenant)).ok

    async def end(self) -> None:
        for gateway in self.gateways:
            await gateway.die()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for client in (self.client, *(gateway.client for gateway in self.all)):
            await client.close()


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = GuardedServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server.url
    server.stop()


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases, sweeps and pauses of a fraction of a second."""
    monkeypatch.setattr(soak_job, "STEP_S", 0.02)
    monkeypatch.setattr(attempt_module, "_BEAT_S", 0.05)
    monkeypatch.setattr(attempt_module, "LEASE_MS", LEASE_MS)
    monkeypatch.setattr(attempt_module, "RETRY_S", 0.02)
    monkeypatch.setattr(runner, "RETRY_S", 0.02)
    monkeypatch.setattr(runner, "SWEEP_S", 0.1)
    monkeypatch.setattr(runner, "GRACE_S", 0.2)


@pytest.mark.parametrize("examples", [6, pytest.param(60, marks=pytest.mark.slow("crash"))])
def test_jobs_end_once_whatever_fails(
    tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch, examples: int
) -> None:
    numbers = iter(range(10**6))

    @settings(
        max_examples=examples, deadline=None, database=None, derandomize=examples < 10,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(
        seed=st.integers(0, 10**6),
        events=st.lists(st.sampled_from(["die", "die", "pause", "cancel"]), min_size=2, max_size=5),
    )
    def check(seed: int, events: list[str]) -> None:
        async def scenario() -> None:
            folder = tmp_path / str(next(numbers))
            folder.mkdir()
            world = World(folder, redis_url, seed)
            monkeypatch.setattr(attempt_module, "start_job", world.starter())
            try:
                await world.run(events)
            finally:
                await world.end()

        asyncio.run(scenario())

    check()
