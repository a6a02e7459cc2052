"""The choice among products withstands other work on the machine while they are measured."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from gpu_workers.models.integer import products


def test_other_work_at_the_start_does_not_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fast way is slow for some calls in a row, as it is where another process has the processor."""
    now = 0.0
    calls = 0

    def slowed(
        name: str, way: Callable[[torch.Tensor], products.Product]
    ) -> Callable[[torch.Tensor], products.Product]:
        def make(weight: torch.Tensor) -> products.Product:
            product = way(weight)

            def run(rows: torch.Tensor) -> torch.Tensor:
                nonlocal now, calls
                calls += name == "integers"
                now += 4.0 if name == "floats" else 10.0 if calls <= 8 else 1.0
                return product(rows)

            return run

        return make

    ways = {"integers": products.plainly, "floats": products.by_floats}
    monkeypatch.setattr(products, "WAYS", {name: slowed(name, way) for name, way in ways.items()})
    monkeypatch.setattr(products.time, "perf_counter", lambda: now)
    seconds = products.exact_ways.__wrapped__()
    assert seconds == {"integers": 1.0, "floats": 4.0}
