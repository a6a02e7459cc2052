"""Messages between the gateway and a process that it has started, of every size that takes another way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from engine_kit import find_kits

from gpu_workers.child_process import ChildProcess

SIZES = (1, 4_000, 60_000, 70_000, 250_000, 300_000, 5_000_000)


class Echo:
    """The process, what it has sent, and whether it has ended."""

    def __init__(self) -> None:
        self.received: asyncio.Queue[Any] = asyncio.Queue()
        self.ended = asyncio.Event()
        self.process = ChildProcess(
            "echoing_process", first=b"first", on_message=self.received.put_nowait, on_death=self.ended.set
        )

    async def next(self) -> Any:
        return await asyncio.wait_for(self.received.get(), 120)


@pytest.fixture(autouse=True)
def kits(monkeypatch: pytest.MonkeyPatch) -> None:
    find_kits(monkeypatch)


def test_messages_of_every_size_arrive_whole_and_in_order() -> None:
    async def main() -> None:
        echo = Echo()
        messages = [bytes([number % 251]) * size for number, size in enumerate(SIZES * 3 + SIZES[:3] * 50)]
        for message in messages:  # more than the socket takes, and the first before the process has started
            echo.process.send(message)
        assert await echo.next() == b"first"
        assert [await echo.next() for _ in messages] == messages
        for message in messages:  # one by one, when nothing else is on its way
            echo.process.send(message)
            assert await echo.next() == message
        await echo.process.stop()
        await asyncio.wait_for(echo.ended.wait(), 120)
        assert echo.process.read_to_end

    asyncio.run(main())


def test_a_message_that_its_death_cuts_off_is_no_message() -> None:
    async def main() -> None:
        echo = Echo()
        assert await echo.next() == b"first"
        echo.process.send(b"end within a message")
        await asyncio.wait_for(echo.ended.wait(), 120)
        assert echo.received.empty()
        assert not echo.process.read_to_end
        echo.process.send(b"nobody gets this")  # no error: the death was reported

    asyncio.run(main())
