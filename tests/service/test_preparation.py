"""Large work runs in one thread, with turns for tenants, and small work at once."""

import asyncio
import threading

import pytest
from kept_kit import Request, assert_lets_go

from core.errors import InvalidInput
from service.preparation import IN_LOOP_SIZE_MAX, Preparation

LARGE = IN_LOOP_SIZE_MAX + 1


def test_tenants_take_turns_and_one_function_runs_at_a_time() -> None:
    order: list[str] = []
    first, running = threading.Event(), threading.Semaphore()

    def work(name: str) -> str:
        assert running.acquire(blocking=False)
        first.wait(60)
        order.append(name)
        running.release()
        return name

    async def main() -> None:
        preparation = Preparation()
        greedy = [asyncio.create_task(preparation.run("greedy", LARGE, work, f"greedy-{n}")) for n in range(20)]
        await asyncio.sleep(0)
        modest = asyncio.create_task(preparation.run("modest", LARGE, work, "modest"))
        await asyncio.sleep(0)
        first.set()
        assert await modest == "modest"
        await asyncio.gather(*greedy)
        assert order.index("modest") <= 2
        preparation.close()

    asyncio.run(main())


def test_work_whose_caller_leaves_while_it_waits_is_not_run() -> None:
    held, ran = threading.Event(), list[str]()

    async def main() -> None:
        preparation = Preparation()
        running = asyncio.create_task(preparation.run("a", LARGE, held.wait, 60))
        leaving = asyncio.create_task(preparation.run("a", LARGE, ran.append, "leaving"))
        leaving_at_work = running
        await asyncio.sleep(0)
        leaving.cancel()
        leaving_at_work.cancel()
        await asyncio.gather(leaving, running, return_exceptions=True)
        held.set()
        await preparation.run("a", LARGE, ran.append, "next")
        assert ran == ["next"]
        preparation.close()

    asyncio.run(main())


def test_a_refused_request_is_not_kept() -> None:
    def refuse(_: object) -> None:
        raise InvalidInput("Refused.")

    async def main() -> None:
        preparation = Preparation()
        for size in (1, LARGE):

            async def call(request: Request, size: int = size) -> None:
                await preparation.run("a", size, refuse, request)

            await assert_lets_go(call, InvalidInput)
        preparation.close()

    asyncio.run(main())


def test_a_place_is_free_again_after_a_thread_could_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        preparation = Preparation()
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", _no_thread_left)
            with pytest.raises(RuntimeError):
                await preparation.run("a", LARGE, len, "text")
        async with asyncio.timeout(60):
            assert await preparation.run("b", LARGE, len, "text") == 4
        preparation.close()

    asyncio.run(main())


def _no_thread_left(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")
