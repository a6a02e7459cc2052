"""What one tenant's costly task takes from the others, with real worker processes: time, and lost batches."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from costly_kit import Costly, CostlyHandler, PatientHandler
from engine_kit import Bench, on_bench, toy_engine

from core.errors import TooCostly, WorkerDied
from gpu_workers.engine.protocol import Task

pytestmark = pytest.mark.usefixtures("processes")
LONG = 1_000  # tokens, of a task that is suspended for others


def on_worker(handler: Any = CostlyHandler) -> Any:
    return on_bench(lambda: toy_engine("local", handler))


async def begun(folder: Path, *texts: str) -> None:
    while not all((folder / f"{text}.begun").exists() for text in texts):
        await asyncio.sleep(0.005)


async def together(on: Bench, *payloads: Costly) -> list[Any]:
    """The results of tasks of a tenant each, which wait at the same time. The tenant is the first word of a text."""
    blocker = Costly("blocker", str(on.folder), works="drawn")
    calls = [await on.submit(Task(blocker, 200), tenant="blocker")]
    await begun(on.folder, "blocker")
    for payload in payloads:
        calls.append(await on.submit(Task(payload, 2), tenant=payload.text.split()[0]))
    on.let_go("blocker")
    results = await asyncio.gather(*calls, return_exceptions=True)
    for name in ("blocker.go", "blocker.begun"):
        (on.folder / name).unlink()
    return [result if isinstance(result, BaseException) else result[0] for result in results[1:]]


@pytest.mark.parametrize("works", ["prepared", "drawn"])
@on_worker(PatientHandler)
async def test_a_worker_runs_tasks_of_others_in_the_middle_of_a_long_one(on: Bench, works: Any, tmp_path: Path) -> None:
    long = await on.submit(Task(Costly("long", str(tmp_path), works, interruptible=True), LONG), tenant="a")
    await begun(tmp_path, "long")
    for number in range(5):
        assert await on.run(Task(Costly(f"short {number}", str(tmp_path)), 10), tenant="b") == [f"SHORT {number}"]
    second = Task(Costly("second", str(tmp_path), works, interruptible=True), LONG)
    waits = await on.submit(second, tenant="c")
    assert await on.run(Task(Costly("short", str(tmp_path)), 10), tenant="b") == ["SHORT"]
    assert not (tmp_path / "second.begun").exists(), "nobody could interrupt it in the middle of the first"
    on.let_go("long", "second")
    assert await asyncio.gather(long, waits) == [["LONG"], ["SECOND"]]


@on_worker(PatientHandler)
async def test_on_a_slow_device_a_task_that_pauses_lets_others_run_between_its_steps(on: Bench, tmp_path: Path) -> None:
    slow = await on.submit(Task(Costly("slow", str(tmp_path), "drawn"), 200), tenant="b")
    await begun(tmp_path, "slow")
    await asyncio.sleep(0.5)  # the pace of the device
    on.let_go("slow")
    await slow
    long = await on.submit(Task(Costly("long", str(tmp_path), "prepared", pauses=True), LONG), tenant="a")
    await begun(tmp_path, "long")
    for number in range(3):
        assert await on.run(Task(Costly(f"short {number}", str(tmp_path)), 10), tenant="b") == [f"SHORT {number}"]
    on.let_go("long")
    assert await long == ["LONG"]


@on_worker(PatientHandler)
async def test_a_task_that_is_suspended_is_finished_when_the_engine_stops(on: Bench, tmp_path: Path) -> None:
    long = await on.submit(Task(Costly("long", str(tmp_path), "prepared", interruptible=True), LONG))
    await begun(tmp_path, "long")
    stopping = asyncio.ensure_future(on.engine.stop())
    await asyncio.sleep(0.2)  # the worker sees that nothing more comes
    on.let_go("long")
    await stopping
    assert await long == ["LONG"]


@pytest.mark.parametrize("interruptible", [True, False])
@on_worker()
async def test_a_task_that_is_prepared_for_too_long_fails_alone(on: Bench, interruptible: bool, tmp_path: Path) -> None:
    endless = Costly("a endless", str(tmp_path), "prepared", interruptible=interruptible)
    first, failed, last = await together(on, Costly("b", str(tmp_path)), endless, Costly("c", str(tmp_path)))
    assert (first, last) == ("B", "C")
    assert isinstance(failed, TooCostly)
    assert "smaller parts" in failed.title


@on_worker()
async def test_a_tenant_whose_task_took_long_waits_longer(on: Bench, tmp_path: Path) -> None:
    async def run(text: str, weight: int) -> None:
        await on.run(Task(Costly(text, str(tmp_path)), weight), tenant=text.split()[0])
        done.append(text)

    with pytest.raises(TooCostly):
        await on.run(Task(Costly("a", str(tmp_path), "prepared"), 1), tenant="a")
    done: list[str] = []
    blocker = await on.submit(Task(Costly("blocker", str(tmp_path), works="drawn"), 200), tenant="blocker")
    await begun(tmp_path, "blocker")
    calls = [asyncio.ensure_future(run(text, 90)) for text in ("a later", "b 1", "b 2", "b 3", "b 4")]
    await asyncio.sleep(0)
    on.let_go("blocker")
    await asyncio.gather(blocker, *calls)
    assert done == ["b 1", "b 2", "b 3", "b 4", "a later"]


@on_worker()
async def test_only_a_draw_that_is_part_of_no_guarantee_is_cut(on: Bench, tmp_path: Path) -> None:
    with pytest.raises(TooCostly):
        await on.run(Task(Costly("free", str(tmp_path), "drawn", interruptible=True), LONG))
    priced = await on.submit(Task(Costly("priced", str(tmp_path), "drawn"), LONG))
    await begun(tmp_path, "priced")
    await asyncio.sleep(1.0)  # it draws for longer than a task is prepared
    on.let_go("priced")
    assert await priced == ["PRICED"]


@on_worker()
async def test_a_document_that_ends_workers_takes_nothing_from_others_after_the_first_time(
    on: Bench, tmp_path: Path
) -> None:
    deadly = Costly("a deadly", str(tmp_path), deadly=True)
    for attempt in range(4):
        others = [Costly(f"{name} {attempt}", str(tmp_path)) for name in "bcd"]
        first, ended, *rest = await together(on, others[0], deadly, *others[1:])
        assert isinstance(ended, WorkerDied)
        if attempt:
            assert [first, *rest] == [f"{name} {attempt}" for name in "BCD"]
        # the tenant is no longer suspected, but the document is
        assert await on.run(Task(Costly("a harmless", str(tmp_path)), 2), tenant="a") == ["A HARMLESS"]


@on_worker()
async def test_a_tenant_whose_documents_differ_each_time_ends_two_batches_of_others_at_most(
    on: Bench, tmp_path: Path
) -> None:
    lost = 0
    for attempt in range(5):
        others = [Costly(f"{name} {attempt}", str(tmp_path)) for name in "bcd"]
        deadly = Costly(f"a {attempt}", str(tmp_path), deadly=True)
        first, ended, *rest = await together(on, others[0], deadly, *others[1:])
        assert isinstance(ended, WorkerDied)
        lost += any(isinstance(result, WorkerDied) for result in (first, *rest))
        assert await on.run(Task(Costly("a harmless", str(tmp_path)), 2), tenant="a") == ["A HARMLESS"]
    assert lost <= 2
