"""One rendering of the metrics serves all who wait for it, outside the event loop, and no value is old."""

from __future__ import annotations

import asyncio
import threading

import pytest
from prometheus_client import generate_latest

from service import metrics
from service.operation import scrape
from service.operation.scrape import Scrapes
from service.preparation import Preparation


def test_callers_together_get_one_text_and_later_ones_newer_values(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []

    def counted() -> bytes:
        threads.append(threading.current_thread().name)
        return generate_latest()

    monkeypatch.setattr(scrape, "generate_latest", counted)
    counter = metrics.PROBLEMS.labels("of-a-test")

    async def main() -> None:
        preparation = Preparation()
        scrapes = Scrapes(preparation)
        for value in range(3):
            counter.inc()
            texts = await asyncio.gather(*(scrapes.text() for _ in range(50)))
            assert f'gateway_problems_total{{code="of-a-test"}} {value + 1}.0'.encode() in texts[0]
            assert len(threads) == value + 1
        during = asyncio.create_task(scrapes.text())
        while len(threads) < 4:
            await asyncio.sleep(0.001)
        counter.inc()
        assert b'gateway_problems_total{code="of-a-test"} 4.0' in await scrapes.text()
        await during
        preparation.close()

    asyncio.run(main())
    assert not any("MainThread" in name for name in threads)


def test_a_rendering_that_fails_does_not_stop_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing() -> bytes:
        raise ValueError("broken")

    async def main() -> bytes:
        preparation = Preparation()
        scrapes = Scrapes(preparation)
        monkeypatch.setattr(scrape, "generate_latest", failing)
        with pytest.raises(ValueError, match="broken"):
            await scrapes.text()
        monkeypatch.setattr(scrape, "generate_latest", generate_latest)
        text = await scrapes.text()
        preparation.close()
        return text

    assert b"gateway_problems" in asyncio.run(main())
