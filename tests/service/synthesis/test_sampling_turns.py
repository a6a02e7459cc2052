"""Blocks of synthetic rows are drawn in turns of the jobs' owners, however many samples one of them asks for."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

from service.http.open_streams import OpenStream
from service.synthesis import endpoints
from service.turns import Turns


def test_an_owner_with_many_samples_does_not_hold_up_another(monkeypatch: Any) -> None:
    monkeypatch.setattr(endpoints, "_BLOCK_NUMBERS", 1)  # every row is a block
    drawn: list[str] = []
    started, go = threading.Event(), threading.Event()

    def table(owner: str) -> Any:
        def draw(_: int) -> bytes:
            drawn.append(owner)
            started.set()
            go.wait(60)
            return b"row"

        declared = SimpleNamespace(schema=SimpleNamespace(names=["one"]))
        return SimpleNamespace(head=lambda: b"", declared=declared, drawn=draw)

    async def main() -> None:
        turns = Turns(1)

        async def ask(owner: str) -> None:
            async for _ in endpoints._written(table(owner), 2, turns, owner, OpenStream()):
                pass

        many = [asyncio.create_task(ask("many")) for _ in range(5)]
        while not started.is_set():
            await asyncio.sleep(0.001)
        one = asyncio.create_task(ask("one"))
        await asyncio.sleep(0.01)
        go.set()
        await one
        assert drawn.count("many") < 5, "the blocks that the owner of many had asked for before"
        await asyncio.gather(*many)
        assert turns.unfinished == 0
        assert sorted(drawn) == ["many"] * 10 + ["one"] * 2

    asyncio.run(main())
