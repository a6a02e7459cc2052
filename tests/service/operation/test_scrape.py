"""One rendering of the metrics serves all who wait for it, and no value is old."""

import asyncio

import pytest
from prometheus_client import generate_latest

from service import metrics
from service.operation import health
from service.operation.health import Scrapes
from service.preparation import Preparation


def test_callers_get_the_values_of_their_moment_also_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing() -> bytes:
        raise ValueError("broken")

    counter = metrics.PROBLEMS.labels("of-a-test")

    async def main() -> None:
        preparation = Preparation()
        scrapes = Scrapes(preparation)
        for value in range(1, 4):
            counter.inc()
            texts = await asyncio.gather(*(scrapes.text() for _ in range(50)))
            assert all(f'gateway_problems_total{{code="of-a-test"}} {value}.0'.encode() in text for text in texts)
            monkeypatch.setattr(health, "generate_latest", failing)
            with pytest.raises(ValueError, match="broken"):
                await scrapes.text()
            monkeypatch.setattr(health, "generate_latest", generate_latest)
        during = asyncio.create_task(scrapes.text())
        await asyncio.sleep(0)
        counter.inc()
        assert b'gateway_problems_total{code="of-a-test"} 4.0' in await scrapes.text()
        await during
        preparation.close()

    asyncio.run(main())
