"""How tenants share an engine: turns, limits of each, and large tasks that run in pieces."""

import asyncio

import pytest
from engine_kit import Bench, Work, on_engine

from core.errors import (
    ClientGone,
    DeadlineBeforeStart,
    InvalidInput,
    QueueFull,
    Started,
    TenantLimitReached,
    WorkerDied,
)
from gpu_workers.engine.protocol import Role

# Turns


@on_engine(queue_tasks_max=512)
async def test_a_tenant_with_one_task_does_not_wait_for_those_of_another(on: Bench) -> None:
    """500 tasks are 50 batches. The one is in the next batch, or in the one after where the next has been handed on."""
    busy = await on.busy()
    many = await on.submit(*(on.work(f"many-{n}") for n in range(500)), tenant="greedy")
    one = await on.submit(on.work("one"), tenant="modest")
    on.let_go("blocker")
    await one
    assert any("one" in names for names in on.batches[:4])
    assert len(on.started) < 100
    await asyncio.gather(busy, many)


@on_engine(queue_tasks_max=64)
async def test_a_batch_of_several_tenants_holds_little_of_each(on: Bench) -> None:
    """A short task is done when its batch is done, so its batch is not filled up with the tasks of another."""
    busy = await on.busy()
    many = await on.submit(*(on.work(f"many-{n}", weight=10) for n in range(30)), tenant="greedy")
    one = await on.submit(on.work("one", weight=1), tenant="modest")
    on.let_go("blocker")
    await asyncio.gather(busy, many, one)
    (shared,) = (names for names in on.batches if "one" in names)
    assert len(shared) <= 2


# Limits of a tenant


@on_engine(queue_tasks_max=16, queue_tenant_share=0.5)
async def test_a_queue_with_as_much_of_one_tenant_as_possible_admits_another(on: Bench) -> None:
    busy = await on.busy()
    greedy = [await on.submit(on.work(f"greedy-{n}"), tenant="greedy") for n in range(20)]
    refused = [call for call in greedy if call.done()]
    assert len(refused) == 12
    for call in refused:
        with pytest.raises(TenantLimitReached) as error:
            call.result()
        assert error.value.limit == "queue_tenant_share"
    others = [await on.submit(on.work(f"other-{n}"), tenant=f"other-{n}") for n in range(8)]
    on.let_go("blocker")
    await asyncio.gather(busy, *others, *(call for call in greedy if call not in refused))


@on_engine(queue_tokens_max=2000, queue_tenant_share=0.5)
async def test_a_tenant_is_limited_in_work_as_well(on: Bench) -> None:
    busy = await on.busy()
    first = await on.submit(on.work("first", weight=900), tenant="greedy")  # alone it may have any weight
    with pytest.raises(TenantLimitReached):
        await on.run(on.work("second", weight=200), tenant="greedy")
    small = await on.submit(on.work("small", weight=50), tenant="greedy")
    other = await on.submit(on.work("other", weight=900), tenant="other")
    on.let_go("blocker")
    await asyncio.gather(busy, first, small, other)


@on_engine(queue_tokens_max=2000, queue_tenant_share=0.5, batch_tokens_max=100)
async def test_short_requests_are_admitted_while_others_hold_more_than_the_limit(on: Bench) -> None:
    busy = await on.busy()
    heavy = [await on.submit(on.work(f"heavy-{n}", weight=1500), tenant=f"greedy-{n}") for n in range(2)]
    short = [await on.submit(on.work(f"short-{n}", weight=40), tenant="other") for n in range(3)]
    on.let_go("blocker")
    await asyncio.gather(busy, *heavy, *short[:2])
    with pytest.raises(TenantLimitReached):
        await short[2]


@on_engine(queue_tasks_max=16, queue_tenant_share=0.5)
async def test_a_group_above_the_share_of_a_tenant_is_refused_at_once(on: Bench) -> None:
    with pytest.raises(TenantLimitReached):
        await on.run(*(on.work(f"work-{n}") for n in range(9)))
    with pytest.raises(TenantLimitReached):
        await on.engine.wait_for_capacity(Role.EMBED, [on.work("work")] * 9, tenant="tenant", timeout_s=3600)
    with pytest.raises(QueueFull):
        await on.engine.wait_for_capacity(Role.EMBED, [on.work("work")] * 17, tenant="tenant", timeout_s=3600)
    await on.engine.wait_for_capacity(Role.EMBED, [on.work("work")] * 8, tenant="tenant", timeout_s=0)


# Pieces


@on_engine()
async def test_a_large_task_runs_in_pieces_between_the_tasks_of_others(on: Bench) -> None:
    busy = await on.busy()
    large = on.divided("large", *(Work(f"large-{n}", str(on.folder)) for n in range(40)))
    call = await on.submit(large, on.work("after"), tenant="greedy")
    one = await on.submit(on.work("one", weight=1), tenant="modest")
    assert on.queued == 3, "the pieces of a task take no place of their own"
    on.let_go("blocker")
    await one
    assert len(on.started) < 30
    result, after = await call
    assert result == [*(f"LARGE-{n}" for n in range(40)), "LARGE-COMPLETED"]
    assert after == "AFTER"
    await busy


@on_engine()
async def test_pieces_that_leave_nothing_to_do_are_joined(on: Bench) -> None:
    large = on.divided("large", *(Work(f"large-{n}", str(on.folder)) for n in range(3)), completed=False)
    assert await on.run(large) == [["LARGE-0", "LARGE-1", "LARGE-2"]]
    assert on.started == ["large-0", "large-1", "large-2"]


@on_engine()
async def test_a_task_within_a_batch_is_not_divided(on: Bench) -> None:
    small = on.divided("small", Work("piece", str(on.folder)))
    assert await on.run(type(small)(small.payload, 100)) == ["SMALL"]


@on_engine()
async def test_a_piece_that_fails_fails_its_task_alone(on: Bench) -> None:
    pieces = [Work("first", str(on.folder)), Work("second", str(on.folder), fails="unfit")]
    pieces += [Work(f"rest-{n}", str(on.folder)) for n in range(60)]
    failed, other = await on.run(on.divided("large", *pieces), on.work("other"), isolate_failures=True)
    assert isinstance(failed, InvalidInput)
    assert other == "OTHER"
    assert "large-completed" not in on.started
    assert "rest-59" not in on.started, "further pieces are dropped"


@on_engine()
async def test_a_task_has_started_with_its_first_piece(on: Bench) -> None:
    """Before it, a deadline or a disconnect leads to a refund; after it, the deadline spends."""
    busy = await on.busy()
    with pytest.raises(DeadlineBeforeStart):
        await on.run(on.divided("late", Work("piece", str(on.folder))), timeout_s=0.05)
    gone = asyncio.Event()
    leaving = await on.submit(on.divided("leaving", Work("piece", str(on.folder))), client_disconnected=gone)
    gone.set()
    with pytest.raises(ClientGone):
        await leaving
    on.let_go("blocker")
    await busy
    pieces = [Work("held", str(on.folder), held=True), *(Work(f"rest-{n}", str(on.folder)) for n in range(60))]
    with pytest.raises(Started, match="too long"):
        await on.run_too_long(on.divided("large", *pieces))
    await on.has_started("held")
    assert on.queued == 0
    on.let_go("held")
    assert await on.run(on.work("next")) == ["NEXT"]
    assert "rest-59" not in on.started
    assert "large-completed" not in on.started


@on_engine()
async def test_the_death_of_a_worker_ends_the_task_of_its_pieces(on: Bench) -> None:
    pieces = [Work(f"piece-{n}", str(on.folder)) for n in range(60)]
    pieces[10] = Work("dying", str(on.folder), fails="death")
    with pytest.raises(WorkerDied):
        await on.run(on.divided("large", *pieces))
    assert await on.run(on.work("next"), tenant="other") == ["NEXT"]
    assert "piece-59" not in on.started
    assert "large-completed" not in on.started
