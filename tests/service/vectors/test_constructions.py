"""Large public matrices: computed once, outside the worker, the same as the worker's own."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from core.errors import CalculationTimeout, QueueFull
from core.mechanisms.vectors.codebook import codebook_codes
from core.mechanisms.vectors.projection import build_projection
from core.mechanisms.vectors.spec import vector_spec
from gpu_workers.engine.arrays import ArrayPool
from service.accounting.calculations import Calculations
from service.preparation import Preparation
from service.vectors.constructions import Constructions

LARGE = {"kind": "orthonormal", "dimension": 600, "output_dimension": 128}
SPEC = vector_spec(mechanism="privemb", dimension=600, epsilon=1, output_dimension=128)
CODEBOOK = vector_spec(mechanism="codebook", dimension=100, epsilon=1, projection="identity")


class Recorded:
    """Calculations that run in this thread when `go` is set. Keeps the names of what ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.go = asyncio.Event()
        self.error: Exception | None = None

    async def run(self, name: str, *arguments: Any, tenant: str) -> Any:
        self.ran.append(f"{name} {tenant}")
        await self.go.wait()
        if self.error is not None:
            raise self.error
        return {"build_projection": build_projection, "codebook_codes": codebook_codes}[name](*arguments)


def constructions(calculations: Any, *, bytes_max: int = 1 << 20, memory_bytes_max: int = 1 << 24) -> Constructions:
    arrays = ArrayPool(bytes_max=memory_bytes_max)
    return Constructions(calculations, Preparation(), arrays, bytes_max=bytes_max)


def test_requests_that_come_together_wait_for_one_construction() -> None:
    async def main() -> None:
        calculations = Recorded()
        built = constructions(calculations)
        both = [asyncio.ensure_future(built.matrices(SPEC, tenant="a")) for _ in range(2)]
        small = await built.matrices(vector_spec(mechanism="privemb", dimension=8, epsilon=1), tenant="a")
        assert small.projection is None
        calculations.go.set()
        first, second = await asyncio.gather(*both)
        assert first == second
        assert first.projection is not None
        assert (await built.matrices(SPEC, tenant="a")) == first
        assert calculations.ran == ["build_projection a"]
        await built.matrices(SPEC, tenant="b")
        assert calculations.ran == ["build_projection a", "build_projection b"], "each tenant has its own"

    asyncio.run(main())


def test_a_request_that_goes_away_leaves_the_construction_to_the_others() -> None:
    async def main() -> None:
        calculations = Recorded()
        built = constructions(calculations)
        first, second = [asyncio.ensure_future(built.matrices(SPEC, tenant="a")) for _ in range(2)]
        await asyncio.sleep(0)
        first.cancel()
        calculations.go.set()
        assert (await second).projection is not None
        assert len(calculations.ran) == 1

    asyncio.run(main())


def test_a_failure_is_not_kept() -> None:
    async def main() -> None:
        calculations = Recorded()
        calculations.go.set()
        calculations.error = CalculationTimeout()
        built = constructions(calculations)
        with pytest.raises(CalculationTimeout):
            await built.matrices(SPEC, tenant="a")
        calculations.error = None
        assert (await built.matrices(SPEC, tenant="a")).projection is not None

    asyncio.run(main())


def test_only_so_many_bytes_are_kept_and_their_memory_is_given_back() -> None:
    async def main() -> None:
        calculations = Recorded()
        calculations.go.set()
        size = 4 * 600 * 128
        built = constructions(calculations, bytes_max=2 * size, memory_bytes_max=2 * size)
        for tenant in ("a", "b", "c", "b", "a"):
            await built.matrices(SPEC, tenant=tenant)
        assert calculations.ran == [f"build_projection {tenant}" for tenant in "abca"]

        held = await constructions(calculations, memory_bytes_max=size).matrices(SPEC, tenant="a")
        assert held.projection is not None
        full = constructions(calculations, memory_bytes_max=size // 2)
        with pytest.raises(QueueFull):
            await full.matrices(SPEC, tenant="a")

    asyncio.run(main())


@pytest.fixture
def pool() -> Iterator[Calculations]:
    made = Calculations(workers=1, queue_max=4, timeout_s=120)
    yield made
    made.close()


def test_a_process_of_the_calculations_gives_what_the_worker_would_compute(pool: Calculations) -> None:
    async def main() -> None:
        built = constructions(pool)
        found = await built.projection(tenant="acme", **LARGE)
        own = build_projection("acme", *LARGE.values())
        assert found.matrix.tobytes() == own.matrix.tobytes()
        assert found.spectral_norm_bound == own.spectral_norm_bound
        codes = (await built.matrices(CODEBOOK, tenant="acme")).codebook
        assert codes is not None
        assert codes.read().tobytes() == codebook_codes(*reversed(codes.shape)).tobytes()

    asyncio.run(main())
