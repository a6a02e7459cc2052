"""The `local` engine with real worker processes: what signals do to a worker, and what a stop leaves behind."""

import asyncio
import errno
import gc
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from engine_kit import Bench, ToyHandler, on_bench, on_engine, toy_engine
from gateway_kit import children

from core.errors import QueueFull, Started, WorkerCold, WorkerDied
from gpu_workers.engine import local_engine
from gpu_workers.engine.arrays import BlockArray
from gpu_workers.engine.local_engine import LocalEngine, WorkerPoolOptions
from gpu_workers.engine.protocol import Role, Task
from gpu_workers.fork_server import ChildProcess

pytestmark = pytest.mark.usefixtures("processes")
LOCAL = ("local",)
Pids = Callable[[], list[int]]


@pytest.fixture
def worker_pids() -> Pids:
    """The worker processes that the test has started. A gateway that tests share runs others."""

    def running() -> list[int]:
        return [pid for pid, line in children(os.getpid()).items() if "gpu_workers.engine.worker embed" in line]

    before = set(running())
    return lambda: [pid for pid in running() if pid not in before]


@pytest.mark.parametrize(("running", "behind"), [(100, 12), (2, 2)])
@on_engine(kinds=LOCAL)
async def test_a_killed_worker_fails_what_it_has_begun_and_is_replaced(
    on: Bench, running: int, behind: int, worker_pids: Pids, caplog: pytest.LogCaptureFixture
) -> None:
    """The batch that waits in its socket, a full one or one as large as the running one, is run by the next worker."""
    blocked = await on.submit(on.work("blocker", weight=running, held=True))
    await on.has_started("blocker")
    held = await on.submit(on.work("held", weight=behind))
    while on.queued:
        await asyncio.sleep(0.005)
    waiting = await on.submit(on.work("waiting"))
    (pid,) = worker_pids()
    caplog.set_level("INFO", "privacy_gateway.engine")
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(WorkerDied):
        await blocked
    assert await held == ["HELD"]
    assert await waiting == ["WAITING"]
    assert worker_pids() != [pid]
    assert on.started == ["blocker", "held", "waiting"]
    assert [record.getMessage() for record in caplog.records] == ["worker-died", "worker-ready"]


@on_engine(kinds=LOCAL)
async def test_a_killed_worker_fails_the_second_batch_once_it_has_begun(on: Bench, worker_pids: Pids) -> None:
    first = await on.submit(on.work("first", weight=2, held=True))
    await on.has_started("first")
    second = await on.submit(on.work("second", weight=2, held=True))
    while on.queued:
        await asyncio.sleep(0.005)
    on.let_go("first")
    assert await first == ["FIRST"]
    await on.has_started("second")
    os.kill(worker_pids()[0], signal.SIGKILL)
    with pytest.raises(WorkerDied):
        await second
    assert on.started == ["first", "second"]


@on_engine(kinds=LOCAL)
async def test_a_worker_gives_way_to_the_front_end(on: Bench, worker_pids: Pids) -> None:
    (pid,) = worker_pids()
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert os.getpriority(os.PRIO_PROCESS, pid) == min(19, own + 5)


@on_bench(lambda: LocalEngine({Role.EMBED: WorkerPoolOptions(workers=[ToyHandler], batch_seconds_max=0.5)}))
async def test_a_worker_that_hangs_on_a_batch_is_replaced(on: Bench, worker_pids: Pids) -> None:
    os.kill(worker_pids()[0], signal.SIGSTOP)
    with pytest.raises(WorkerDied):
        await on.run(on.work("stuck"))
    assert await on.run_brief(on.work("next")) == ["NEXT"]


@contextmanager
def no_collection() -> Iterator[None]:
    """What a cycle keeps stays, as it may for minutes in an idle gateway."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def memory_returns(on: Bench) -> None:
    """Wait until all 4096 bytes of the engine's arrays are free."""
    async with asyncio.timeout(60):
        while True:  # a thread of the engine may hold a message for a moment longer
            with suppress(QueueFull):
                on.engine.arrays.block(4096)
                return
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("ending", ["kill", "raise"])
@on_engine(kinds=LOCAL, array_bytes_max=4096)
async def test_work_that_fails_keeps_no_memory(on: Bench, ending: str, worker_pids: Pids) -> None:

    def failing() -> Task:
        array = BlockArray(on.engine.arrays.block(4096), "<f4", (256, 4))
        if ending == "raise":
            return on.work("failing", fails="raise", vectors=array)
        return on.work("failing", held=True, vectors=array)

    with no_collection():
        call = await on.submit(failing())
        if ending == "kill":
            await on.has_started("failing")
            os.kill(worker_pids()[0], signal.SIGKILL)
        await asyncio.wait([call])
        assert isinstance(call.exception(), Started)
        del call
        await memory_returns(on)


@pytest.mark.parametrize("lacking", ["files", "threads"])
@on_engine(kinds=LOCAL)
async def test_a_worker_that_dies_while_the_machine_lacks_something_is_replaced_once(
    on: Bench, lacking: str, worker_pids: Pids, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A true limit of open files or threads would also hold for everything else in this process."""
    owner, name, error = {
        "files": (socket, "socketpair", OSError(errno.EMFILE, os.strerror(errno.EMFILE))),
        "threads": (threading.Thread, "start", RuntimeError("can't start new thread")),
    }[lacking]
    fails_at = 2 if lacking == "threads" else 1  # the second thread of the first attempt
    works, calls = getattr(owner, name), []

    def refuse(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == fails_at:
            raise error
        return works(*arguments)

    (pid,) = worker_pids()
    monkeypatch.setattr(owner, name, refuse)
    os.kill(pid, signal.SIGKILL)
    while on.engine.status(Role.EMBED).ready:
        await asyncio.sleep(0.005)
    assert await on.run(on.work("next"), timeout_s=60) == ["NEXT"]
    assert len(calls) > fails_at
    assert len(worker_pids()) == 1


def test_a_worker_that_has_died_for_hours_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_engine, "_DELAY_S_MAX", 0.0)
    launched: list[int] = []
    asyncio.run(local_engine.start_again(lambda: launched.append(1), deaths=2000))
    assert launched == [1]


@on_engine(kinds=LOCAL)
async def test_a_stop_charges_no_batch_that_its_worker_has_not_begun_with(
    on: Bench, worker_pids: Pids, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(process: ChildProcess, *call: Any) -> None:
        time.sleep(0.2)  # the thread that reads waits for its turn
        passed_on(process, *call)

    passed_on = ChildProcess._call
    running = await on.submit(on.work("running", weight=2, held=True))
    await on.has_started("running")
    behind = await on.submit(on.work("behind", weight=2))
    while on.queued:
        await asyncio.sleep(0.005)
    os.kill(worker_pids()[0], signal.SIGSTOP)  # so that the stop ends it
    monkeypatch.setattr(ChildProcess, "_call", late)
    await on.engine.stop()
    with pytest.raises(WorkerDied):
        await running
    with pytest.raises(WorkerCold):
        await behind


def test_a_stopped_engine_leaves_no_process(tmp_path: Path, worker_pids: Pids) -> None:
    async def main() -> None:
        engine = toy_engine("local")
        await engine.start()
        while not (pids := worker_pids()):  # it starts in a thread
            await asyncio.sleep(0.005)
        await engine.stop()
        assert not children(os.getpid()).keys() & pids

        await engine.start()
        await engine.stop()
        assert not worker_pids(), "also one that had not started"

    asyncio.run(main())
