"""The `local` engine with real worker processes: order, bounds, and what a death or a departure costs.

The sanitise role runs here: it loads no model, and a long text keeps it busy for as long as a test needs.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from gateway_kit import children

from core.errors import (
    ClientGone,
    DeadlineBeforeStart,
    DeadlineExceeded,
    InvalidInput,
    QueueFull,
    WorkerCold,
    WorkerDied,
)
from core.text.policy import MaskPolicy, SanitizeTask
from gpu_workers.engine.local.engine import LocalEngine, WorkerPoolOptions
from gpu_workers.engine.protocol import Role, Task
from gpu_workers.handlers.options import WorkerOptions

LANE = WorkerPoolOptions(workers=[WorkerOptions()], queue_tasks_max=16, batch_tokens_max=100, batch_linger_ms=1)
SLOW = "Call +44 20 7946 0958 or write to jo@example.org. " * 6000


def task(text: str = "Write to jo@example.org now.", weight: int = 10) -> Task:
    return Task(SanitizeTask(text=text, policy=MaskPolicy(), fill="class_marker"), weight)


def slow() -> Task:
    return task(SLOW, weight=100)


async def run(
    engine: LocalEngine, *tasks: Task, timeout_s: float = 60, client_disconnected: asyncio.Event | None = None
) -> list[str]:
    results = await engine.run(
        Role.SANITIZE, tasks, timeout_s=timeout_s, client_disconnected=client_disconnected or asyncio.Event()
    )
    return [result.text for result in results]


def worker_pid() -> int:
    """The worker that was started last."""
    return max(pid for pid, line in children(os.getpid()).items() if "gpu_workers.engine.local.worker sanitize" in line)


Check = Callable[[LocalEngine], Awaitable[None]]


async def started(options: WorkerPoolOptions) -> LocalEngine:
    engine = LocalEngine({Role.SANITIZE: options})
    await engine.start()
    while not engine.status(Role.SANITIZE).ready:
        await asyncio.sleep(0.05)
    return engine


@contextmanager
def running(options: WorkerPoolOptions = LANE) -> Iterator[Callable[[Check], None]]:
    """An engine on an event loop of its own, for checks that run on that loop one after the other."""
    with asyncio.Runner() as runner:
        engine = runner.run(started(options))
        yield lambda check: runner.run(check(engine))  # type: ignore[arg-type]
        runner.run(engine.stop())


@pytest.fixture(scope="module")
def on_engine() -> Iterator[Callable[[Check], None]]:
    with running() as on:
        yield on


def test_results_come_in_order_and_documents_of_many_callers_share_batches(on_engine: Callable[[Check], None]) -> None:
    async def check(engine: LocalEngine) -> None:
        texts = [f"Document {index} for jo@example.org." for index in range(12)]
        many = await asyncio.gather(*(run(engine, task(text), task("two")) for text in texts[:6]))
        assert many == [[f"Document {index} for [EMAIL_ADDRESS].", "two"] for index in range(6)]

    on_engine(check)


def test_a_full_queue_refuses_a_group_whole(on_engine: Callable[[Check], None]) -> None:
    async def check(engine: LocalEngine) -> None:
        busy = [asyncio.ensure_future(run(engine, slow())) for _ in range(3)]
        await asyncio.sleep(0.05)
        with pytest.raises(QueueFull):
            await run(engine, *[task()] * 17)
        assert await run(engine, *[task()] * 4) == ["Write to [EMAIL_ADDRESS] now."] * 4
        await asyncio.gather(*busy)

    on_engine(check)


def test_who_leaves_or_waits_too_long_before_the_start_is_dropped_unread(on_engine: Callable[[Check], None]) -> None:
    async def check(engine: LocalEngine) -> None:
        busy = [asyncio.ensure_future(run(engine, slow())) for _ in range(4)]
        await asyncio.sleep(0.05)
        client_disconnected = asyncio.Event()
        leaving = asyncio.ensure_future(run(engine, task(), client_disconnected=client_disconnected))
        await asyncio.sleep(0.05)
        client_disconnected.set()
        with pytest.raises(ClientGone):
            await leaving
        with pytest.raises(DeadlineBeforeStart):
            await run(engine, task(), timeout_s=0.05)
        assert engine.status(Role.SANITIZE).queued <= 2
        await asyncio.gather(*busy)

    on_engine(check)


def test_who_leaves_after_the_start_still_gets_a_result_to_keep(on_engine: Callable[[Check], None]) -> None:
    async def check(engine: LocalEngine) -> None:
        client_disconnected = asyncio.Event()
        running = asyncio.ensure_future(run(engine, slow(), client_disconnected=client_disconnected))
        await asyncio.sleep(0.1)
        client_disconnected.set()
        assert "[EMAIL_ADDRESS]" in (await running)[0]

    on_engine(check)


def test_started_work_that_takes_too_long_is_spent(on_engine: Callable[[Check], None]) -> None:
    async def check(engine: LocalEngine) -> None:
        with pytest.raises(DeadlineExceeded):
            await run(engine, slow(), timeout_s=0.1)

    on_engine(check)


def test_a_death_fails_what_the_worker_held_and_nothing_else(on_engine: Callable[[Check], None]) -> None:
    async def check(engine: LocalEngine) -> None:
        await run(engine, task())  # nothing of an earlier check is left in the worker
        held = [asyncio.ensure_future(run(engine, slow())) for _ in range(2)]
        await asyncio.sleep(0.1)
        waiting = asyncio.ensure_future(run(engine, task(weight=10)))
        await asyncio.sleep(0.05)
        pid = worker_pid()
        os.kill(pid, signal.SIGKILL)
        for outcome in await asyncio.gather(*held, return_exceptions=True):
            assert isinstance(outcome, WorkerDied)
        assert await waiting == ["Write to [EMAIL_ADDRESS] now."]
        assert worker_pid() != pid

    on_engine(check)


def test_a_worker_that_hangs_on_a_batch_is_replaced() -> None:
    async def check(engine: LocalEngine) -> None:
        pid = worker_pid()
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(WorkerDied):
            await run(engine, task())
        assert await run(engine, task()) == ["Write to [EMAIL_ADDRESS] now."]

    with running(replace(LANE, batch_seconds_max=0.5)) as on_engine:
        on_engine(check)


def test_one_bad_document_fails_its_own_group(on_engine: Callable[[Check], None]) -> None:
    async def check(engine: LocalEngine) -> None:
        policy = MaskPolicy(techniques=("allow_list",), allow_list="no-such-list")
        bad = Task(SanitizeTask(text="anything", policy=policy, fill="marker"), 10)
        good, failed = await asyncio.gather(run(engine, task()), run(engine, task(), bad), return_exceptions=True)
        assert good == ["Write to [EMAIL_ADDRESS] now."]
        assert isinstance(failed, InvalidInput)
        assert "no-such-list" not in str(failed)

    on_engine(check)


def test_apart_a_bad_document_leaves_its_own_group_alone(on_engine: Callable[[Check], None]) -> None:
    async def check(engine: LocalEngine) -> None:
        policy = MaskPolicy(techniques=("allow_list",), allow_list="no-such-list")
        bad = Task(SanitizeTask(text="anything", policy=policy, fill="marker"), 10)
        before, failed, after = await engine.run(
            Role.SANITIZE,
            [task(), bad, task()],
            timeout_s=60,
            client_disconnected=asyncio.Event(),
            isolate_failures=True,
        )
        assert before.text == after.text == "Write to [EMAIL_ADDRESS] now."
        assert isinstance(failed, InvalidInput)

    on_engine(check)


def test_a_cold_engine_refuses_and_a_stopped_one_leaves_no_process() -> None:
    async def main() -> None:
        engine = LocalEngine({Role.SANITIZE: LANE})
        await engine.start()
        with pytest.raises(WorkerCold):
            await run(engine, task())
        pid = worker_pid()
        await engine.stop()
        assert pid not in children(os.getpid())

    asyncio.run(main())
