"""The recoder of sentences runs in one thread, however many there are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from core.mechanisms.sentences.recoder import Recoder


@pytest.fixture(autouse=True)
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_the_recoder_uses_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rounding must not depend on how many sentences a batch has, and the number of threads can."""
    linear, used = torch.nn.functional.linear, []

    def recorded(*arguments: torch.Tensor) -> torch.Tensor:
        used.append(torch.get_num_threads())
        return linear(*arguments)

    monkeypatch.setattr(torch.nn.functional, "linear", recorded)
    random = np.random.default_rng(0)
    layers = [(random.standard_normal((8, 8)).astype(np.float32), np.zeros(8, np.float32))] * 2
    recoder = Recoder(layers, torch.device("cpu"))
    for rows in (1, 500):
        recoder(torch.ones(rows, 8))
    assert set(used) == {1}
