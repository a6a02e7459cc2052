"""Small work runs in one thread, and what follows runs in as many as before."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from core.mechanisms.sentences.recoder import Recoder
from core.mechanisms.torch_threads import ROWS_MIN, threads_for


@pytest.fixture(autouse=True)
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("rows", "threads"), [(0, 1), (1, 1), (2 * ROWS_MIN - 1, 1), (2 * ROWS_MIN, 3), (10**6, 3)])
def test_few_rows_take_one_thread_and_more_take_all(rows: int, threads: int) -> None:
    with threads_for(rows):
        assert torch.get_num_threads() == threads
    assert torch.get_num_threads() == 3


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


def test_a_failure_restores_the_threads() -> None:
    def fail() -> None:
        with threads_for(1):
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert torch.get_num_threads() == 3
