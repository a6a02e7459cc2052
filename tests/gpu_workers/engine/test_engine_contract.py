"""What every engine does: admission, order, deadlines, disconnects, failures, deaths, arrays and stop.

A task has started once it was handed to a worker. Before that a group may be refunded (`NotStarted`), after that it is
spent (`Started`).
"""

import asyncio
import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_kit import (
    KINDS,
    SECRET,
    TOY_FACTS,
    Bench,
    BrokenHandler,
    Kind,
    UnfitHandler,
    bench,
    find_kits,
    on_engine,
    toy_engine,
)

from core.errors import (
    ClientGone,
    DeadlineBeforeStart,
    InvalidInput,
    NotStarted,
    QueueFull,
    Started,
    TaskFailed,
    WorkerCold,
    WorkerDied,
)
from core.files.disk import FileVersion, file_digest
from gpu_workers.engine.arrays import BlockArray
from gpu_workers.engine.protocol import Role


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kind:
    find_kits(monkeypatch)
    found: Kind = request.param
    return found


# Admission and order


@on_engine()
async def test_tasks_of_many_callers_share_a_batch_up_to_its_tokens(on: Bench) -> None:
    busy = await on.busy()
    calls = [await on.submit(on.work(name, weight=40)) for name in ("one", "two", "three", "four")]
    on.let_go("blocker")
    await asyncio.gather(busy, *calls)
    assert on.batches == [["blocker"], ["one", "two"], ["three", "four"]]


@on_engine()
async def test_a_task_above_the_tokens_of_a_batch_runs_alone(on: Bench) -> None:
    assert await on.run(on.work("small"), on.work("large", weight=1000)) == ["SMALL", "LARGE"]
    assert on.batches == [["small"], ["large"]]


@on_engine()
async def test_groups_start_in_the_order_of_their_admission(on: Bench) -> None:
    """For groups that the engine cannot tell from each other: no later one, however small, goes before an earlier."""
    busy = await on.busy()
    large = await on.submit(*(on.work(f"large-{n}", weight=60) for n in range(3)))
    small = await on.submit(on.work("small", weight=1))
    last = await on.submit(on.work("last", weight=60))
    on.let_go("blocker")
    await asyncio.gather(busy, large, small, last)
    assert on.started == ["blocker", "large-0", "large-1", "large-2", "small", "last"]


@on_engine(queue_tasks_max=4)
async def test_a_full_queue_refuses_a_group_whole(on: Bench) -> None:
    busy = await on.busy()
    waiting = await on.submit(*(on.work(f"waiting-{n}") for n in range(3)))
    with pytest.raises(QueueFull):
        await on.run(on.work("refused-0"), on.work("refused-1"))
    fits = await on.submit(on.work("fits"))
    assert on.queued == 4
    on.let_go("blocker")
    await asyncio.gather(busy, waiting, fits)
    assert on.started == ["blocker", "waiting-0", "waiting-1", "waiting-2", "fits"]


@on_engine(queue_tasks_max=1, roles=(Role.EMBED, Role.SANITIZE))
async def test_roles_have_queues_of_their_own(on: Bench) -> None:
    assert set(on.engine.roles) == {Role.EMBED, Role.SANITIZE}
    busy = await on.busy()
    waiting = await on.submit(on.work("waiting"))
    other = await on.of(Role.SANITIZE).submit(on.work("other"))
    with pytest.raises(QueueFull):
        await on.run(on.work("refused"))
    on.let_go("blocker")
    assert await asyncio.gather(busy, waiting, other) == [["BLOCKER"], ["WAITING"], ["OTHER"]]


# Waiting for capacity


@on_engine(queue_tasks_max=4)
async def test_a_caller_does_not_wait_for_capacity_that_exists_or_that_never_will(on: Bench) -> None:
    await on.engine.wait_for_capacity(Role.EMBED, [on.work("more")] * 4, tenant="tenant", timeout_s=0)
    with pytest.raises(QueueFull):  # the queue never holds so many: no time passes
        await on.engine.wait_for_capacity(Role.EMBED, [on.work("more")] * 5, tenant="tenant", timeout_s=3600)


@pytest.mark.parametrize("freed_by", ["start", "disconnect"])
@on_engine(queue_tasks_max=4)
async def test_a_caller_waits_until_the_queue_has_capacity(on: Bench, freed_by: str) -> None:
    busy = await on.busy()
    disconnected = asyncio.Event()
    calls = [await on.submit(on.work(f"waiting-{n}"), client_disconnected=disconnected) for n in range(4)]
    capacity = asyncio.ensure_future(
        on.engine.wait_for_capacity(Role.EMBED, [on.work("more")] * 2, tenant="tenant", timeout_s=600)
    )
    with pytest.raises(QueueFull):
        await on.engine.wait_for_capacity(Role.EMBED, [on.work("more")] * 1, tenant="tenant", timeout_s=0.05)
    assert not capacity.done()
    if freed_by == "disconnect":
        disconnected.set()
    else:
        on.let_go("blocker")
    await capacity
    more = await on.submit(on.work("one"), on.work("two"))
    on.let_go("blocker")
    assert await more == ["ONE", "TWO"]
    await asyncio.gather(busy, *calls, return_exceptions=True)


# Deadlines and disconnects


@on_engine()
async def test_a_group_that_waits_too_long_was_not_started(on: Bench) -> None:
    busy = await on.busy()
    for isolated in (False, True):
        with pytest.raises(DeadlineBeforeStart) as error:
            await on.run(on.work("late"), timeout_s=0.05, isolate_failures=isolated)
        assert isinstance(error.value, NotStarted)
    assert on.queued == 0
    on.let_go("blocker")
    await busy
    await on.run(on.work("next"))
    assert on.started == ["blocker", "next"]


@on_engine()
async def test_a_group_whose_client_disconnects_before_the_start_is_dropped_unread(on: Bench) -> None:
    busy = await on.busy()
    disconnected = asyncio.Event()
    leaving = await on.submit(on.work("leaving"), client_disconnected=disconnected)
    disconnected.set()
    with pytest.raises(ClientGone) as error:
        await leaving
    assert isinstance(error.value, NotStarted)
    assert on.queued == 0
    on.let_go("blocker")
    await busy
    await on.run(on.work("next"))
    assert on.started == ["blocker", "next"]


@on_engine()
async def test_a_group_whose_client_disconnects_after_the_start_is_finished(on: Bench) -> None:
    """The client can fetch the result by its key."""
    disconnected = asyncio.Event()
    first, second = on.work("first", weight=60, held=True), on.work("second", weight=60)
    leaving = await on.submit(first, second, client_disconnected=disconnected)
    await on.has_started("first")
    disconnected.set()
    await asyncio.sleep(0)
    on.let_go("first")
    assert await leaving == ["FIRST", "SECOND"]


@on_engine()
async def test_a_group_that_started_and_takes_too_long_is_spent(on: Bench) -> None:
    """Also where only some of its tasks have started; the others are withdrawn."""
    tasks = [on.work("first", weight=90, held=True), *(on.work(f"rest-{n}", weight=90) for n in range(8))]
    with pytest.raises(Started, match="too long") as error:
        await on.run_too_long(*tasks)
    await on.has_started("first")
    assert isinstance(error.value, Started)
    assert on.queued == 0
    on.let_go("first")
    assert await on.run(on.work("next")) == ["NEXT"]
    assert "rest-7" not in on.started


# Failures


@pytest.mark.parametrize("fails", ["unprepared", "unfit"])
@on_engine()
async def test_a_task_that_fails_fails_its_own_group(on: Bench, fails: Any) -> None:
    busy = await on.busy()
    good = await on.submit(on.work("good"))
    bad = await on.submit(on.work("before"), on.work("bad", fails=fails))
    on.let_go("blocker")
    await busy
    assert await good == ["GOOD"]
    with pytest.raises(InvalidInput):
        await bad


@pytest.mark.parametrize("fails", ["unprepared", "unfit"])
@on_engine()
async def test_failures_are_isolated_where_the_caller_asks_for_it(on: Bench, fails: Any) -> None:
    before, failed, after = await on.run(
        on.work("before"), on.work("bad", fails=fails), on.work("after"), isolate_failures=True
    )
    assert (before, after) == ("BEFORE", "AFTER")
    assert isinstance(failed, InvalidInput)


@on_engine()
async def test_an_exception_of_a_handler_loses_its_message(on: Bench) -> None:
    with pytest.raises(TaskFailed) as error:
        await on.run(on.work("bad", fails="raise"))
    assert SECRET not in repr(error.value) + repr(vars(error.value))
    assert on.started == ["bad"], "a failed draw is not repeated"


@on_engine()
async def test_no_answer_of_a_worker_leads_to_a_refund(on: Bench) -> None:
    with pytest.raises(TaskFailed):
        await on.run(on.work("bad", fails="refund"))


# Death of a worker


@on_engine()
async def test_a_death_fails_what_the_worker_held_and_nothing_else(on: Bench) -> None:
    dying = await on.submit(on.work("dying", weight=100, held=True, fails="death"))
    await on.has_started("dying")
    waiting = await on.submit(on.work("waiting"))
    on.let_go("dying")
    with pytest.raises(WorkerDied) as error:
        await dying
    assert isinstance(error.value, Started)
    assert await waiting == ["WAITING"]
    assert on.engine.status(Role.EMBED).ready


@on_engine()
async def test_a_death_ends_a_group_of_which_only_some_has_started(on: Bench) -> None:
    dying = on.work("dying", weight=100, held=True, fails="death")
    call = await on.submit(dying, *(on.work(f"rest-{n}", weight=10) for n in range(3)))
    await on.has_started("dying")
    on.let_go("dying")
    with pytest.raises(WorkerDied):
        await call
    assert await on.run(on.work("next")) == ["NEXT"]
    assert on.started == ["dying", "next"]


@on_engine()
async def test_a_death_is_isolated_as_any_failure(on: Bench) -> None:
    failed, after = await on.run(
        on.work("dying", weight=100, fails="death"), on.work("after", weight=100), isolate_failures=True
    )
    assert isinstance(failed, WorkerDied)
    # a worker may have held the second batch when it died
    assert after == "AFTER" or isinstance(after, WorkerDied)


# Arrays


@on_engine()
async def test_arrays_go_in_and_come_out(on: Bench) -> None:
    def placed(rows: int, dtype: str, offset: int = 0) -> BlockArray:
        size = offset + rows * 4 * np.dtype(dtype).itemsize
        return BlockArray(on.engine.arrays.block(size), dtype, (rows, 4), offset)

    tasks, released = [], []
    for rows, dtype, offset in ((3, "float32", 0), (5, "float16", 6), (7, "float64", 13)):
        vectors = placed(rows, dtype, offset)
        vectors.write_rows(np.full((rows, 4), rows, dtype), 0)
        released.append(placed(rows, dtype, offset))
        tasks.append(on.work(f"rows-{rows}", vectors=vectors, released=released[-1]))
    assert await on.run(*tasks) == ["ROWS-3", "ROWS-5", "ROWS-7"]
    for array, rows in zip(released, (3, 5, 7), strict=True):
        assert array.read().tolist() == [[2 * rows] * 4] * rows


@on_engine()
async def test_arrays_that_a_worker_never_wrote_are_zeros(on: Bench) -> None:
    released = BlockArray(on.engine.arrays.block(16), "float32", (1, 4))
    assert await on.run(on.work("idle", released=released)) == ["IDLE"]
    assert released.read().tolist() == [[0] * 4]


@on_engine(array_bytes_max=1000)
async def test_arrays_are_limited_and_their_memory_returns(on: Bench) -> None:
    vectors = BlockArray(on.engine.arrays.block(600), "float32", (1, 150))
    with pytest.raises(QueueFull):
        on.engine.arrays.block(500)
    released = BlockArray(on.engine.arrays.block(400), "float16", (1, 150))
    await on.run(on.work("work", vectors=vectors, released=released))
    del vectors, released
    while True:  # a thread of the engine may hold the message for a moment longer
        gc.collect()
        try:
            assert on.engine.arrays.block(1000).size == 1000
            return
        except QueueFull:
            await asyncio.sleep(0.005)


# Files


@on_engine()
async def test_a_task_gets_its_file_and_one_whose_file_is_gone_is_not_started(on: Bench) -> None:
    path = on.folder / "tenants/acme/pack"
    path.parent.mkdir(parents=True)
    path.write_text("content")
    pack = FileVersion(str(path), file_digest(path))
    gone = FileVersion(str(path.with_name("gone")), "0" * 64)
    assert await on.run(on.work("one", pack=pack), on.work("two")) == ["ONE content", "TWO"]
    with pytest.raises(WorkerCold):
        await on.run(on.work("three", pack=gone))
    assert on.started == ["one", "two"]


@on_engine()
async def test_a_task_whose_file_was_removed_since_it_was_queued_is_not_started(on: Bench) -> None:
    pack = on.folder / "pack"
    pack.write_text("content")
    busy = await on.busy()
    lacking = await on.submit(on.work("lacking", pack=FileVersion(str(pack), file_digest(pack))))
    beside = await on.submit(on.work("beside"))
    pack.unlink()
    on.let_go("blocker")
    with pytest.raises(WorkerCold):  # it has not started, so nothing is charged
        await lacking
    assert await asyncio.gather(busy, beside) == [["BLOCKER"], ["BESIDE"]]
    assert "lacking" not in on.started


# Start and stop


def test_a_cold_engine_refuses(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        engine = toy_engine(kind)
        on = Bench(engine, tmp_path)
        assert not engine.status(Role.EMBED).ready
        with pytest.raises(WorkerCold) as error:
            await on.run(on.work("early"))
        assert isinstance(error.value, NotStarted)
        await engine.start()
        await engine.stop()

    asyncio.run(main())


def test_the_facts_of_a_worker_are_shown_once_it_is_ready(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        engine = toy_engine(kind)
        assert engine.status(Role.EMBED).facts is None
        async with bench(engine, tmp_path):
            status = engine.status(Role.EMBED)
            assert (status.stage, status.facts) == ("ready", TOY_FACTS)

    asyncio.run(main())


@pytest.mark.parametrize(("factory", "reason"), [(UnfitHandler, "this device is unfit"), (BrokenHandler, "ValueError")])
def test_a_worker_that_cannot_load_says_why_and_serves_nobody(
    kind: Kind, tmp_path: Path, factory: type, reason: str
) -> None:
    async def main() -> None:
        engine = toy_engine(kind, factory)
        await engine.start()
        while not engine.status(Role.EMBED).stage.endswith(f"the last start failed: {reason}"):
            await asyncio.sleep(0.005)
        on = Bench(engine, tmp_path)
        with pytest.raises(WorkerCold):
            await on.run(on.work("early"))
        await engine.stop()

    asyncio.run(main())


@on_engine()
async def test_a_stop_ends_all_calls(on: Bench) -> None:
    busy = await on.busy()
    waiting = await on.submit(on.work("waiting"))
    isolated = await on.submit(on.work("isolated"), isolate_failures=True)
    capacity = asyncio.ensure_future(
        on.engine.wait_for_capacity(Role.EMBED, [on.work("more")] * 16, tenant="tenant", timeout_s=600)
    )
    stopping = asyncio.ensure_future(on.engine.stop())
    with pytest.raises(WorkerCold):
        await waiting
    with pytest.raises(WorkerCold):  # nothing of it started, so there is no result to isolate
        await isolated
    await capacity
    with pytest.raises(WorkerCold):
        await on.run(on.work("late"))
    on.let_go("blocker")
    await stopping
    (outcome,) = await asyncio.gather(busy, return_exceptions=True)
    assert outcome == ["BLOCKER"] or isinstance(outcome, WorkerDied)
    assert on.started == ["blocker"]


@on_engine()
async def test_a_stop_counts_a_group_of_which_some_has_started_as_spent(on: Bench) -> None:
    tasks = [on.work("first", weight=90, held=True), *(on.work(f"rest-{n}", weight=10) for n in range(3))]
    call = await on.submit(*tasks)
    await on.has_started("first")
    stopping = asyncio.ensure_future(on.engine.stop())
    with pytest.raises(WorkerDied):
        await call
    on.let_go("first")
    await stopping
