"""Work of tenants runs in processes apart, whose time and memory have limits."""

import asyncio
import os
import re
from collections.abc import Coroutine
from typing import Any

import pytest
from kept_kit import Request, assert_lets_go

from core.errors import InvalidInput, NotStarted
from core.text.formats.builder import parse
from gpu_workers import fork_server
from service.isolation import Isolation, WorkLimits

LARGE = 1 << 20
LIMITS = WorkLimits(cpu_s=0.5, memory_bytes=64 << 20)


ENDLESS = "while True: pass"


def with_isolation(work: Any, **options: Any) -> None:
    async def main() -> None:
        isolation = Isolation(limits=LIMITS, **options)
        try:
            await work(isolation)
        finally:
            await isolation.close()

    asyncio.run(main())


async def refusal(call: Coroutine[Any, Any, Any]) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        await call
    return caught.value


def test_small_work_runs_at_once_and_large_work_in_a_process_that_is_kept() -> None:
    async def work(isolation: Isolation) -> None:
        assert await isolation.run("a", 1, os.getpid, field="text") == os.getpid()
        first = await isolation.run("a", LARGE, os.getpid, field="text")
        assert first != os.getpid()
        assert await isolation.run("b", LARGE, os.getpid, field="text") == first

    with_isolation(work)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (exec, (ENDLESS,)),
        (re.match, (r"(a*)*b", "a" * 64)),  # in C code that nothing interrupts
        (exec, ("[bytes(1 << 20) for _ in range(1024)]",)),
        (bytes, (40 << 20,)),  # an answer that is as large again when it is written
    ],
)
def test_work_beyond_a_limit_is_an_error_of_its_caller_alone(function: Any, arguments: Any) -> None:
    async def work(isolation: Isolation) -> None:
        beside = asyncio.create_task(isolation.run("b", LARGE, os.getpid, field="text"))
        error = await refusal(isolation.run("a", LARGE, function, *arguments, field="text"))
        assert error.field == "text"
        assert await beside != os.getpid()
        assert await isolation.run("a", LARGE, os.getpid, field="text") != os.getpid()

    with_isolation(work)


def test_a_process_that_cannot_be_started_is_no_fault_of_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*_: Any, **__: Any) -> None:
        raise OSError

    async def work(isolation: Isolation) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(fork_server, "start_process", no_memory)
            with pytest.raises(NotStarted):
                await isolation.run("a", LARGE, os.getpid, field="text")
        assert await isolation.run("a", LARGE, os.getpid, field="text") != os.getpid()

    with_isolation(work)


def test_a_tenant_leaves_a_process_to_the_others() -> None:
    async def work(isolation: Isolation) -> None:
        greedy = [
            asyncio.create_task(refusal(isolation.run("a", LARGE, exec, ENDLESS, field="text"))) for _ in range(4)
        ]
        await asyncio.sleep(0)
        await isolation.run("b", LARGE, os.getpid, field="text")
        assert not any(each.done() for each in greedy[1:])
        await asyncio.gather(*greedy)

    with_isolation(work)


def test_errors_keep_their_fields_and_no_text() -> None:
    async def work(isolation: Isolation) -> None:
        assert (await refusal(isolation.run("a", LARGE, parse, "none", "", None, None, field="text"))).field == "format"
        with pytest.raises(RuntimeError) as caught:
            await isolation.run("a", LARGE, int, "secret", field="text")
        assert "secret" not in str(caught.value)

    with_isolation(work)


def test_a_refused_request_is_not_kept() -> None:
    async def work(isolation: Isolation) -> None:
        async def call(request: Request) -> None:
            kept_by_the_frame = request
            await isolation.run("a", LARGE, parse, "none", "", None, None, field="text")
            del kept_by_the_frame

        await assert_lets_go(call, InvalidInput)

    with_isolation(work)


def test_a_caller_that_leaves_does_not_free_the_process_early() -> None:
    async def work(isolation: Isolation) -> None:
        leaving = asyncio.create_task(isolation.run("a", LARGE, exec, ENDLESS, field="text"))
        await asyncio.sleep(0.1)
        leaving.cancel()
        assert await isolation.run("b", LARGE, os.getpid, field="text") != os.getpid()

    with_isolation(work, processes=1)


def test_a_gateway_that_stops_refuses_what_waits() -> None:
    async def work(isolation: Isolation) -> None:
        running = asyncio.create_task(isolation.run("a", LARGE, exec, ENDLESS, field="text"))
        await asyncio.sleep(0.1)
        await isolation.close()
        with pytest.raises(NotStarted):
            await running
        with pytest.raises(NotStarted):
            await isolation.run("a", LARGE, os.getpid, field="text")

    with_isolation(work)
