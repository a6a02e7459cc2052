"""Small work runs in one thread, and what follows runs in as many as before."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from gpu_workers.models.few_threads import ROWS_MIN, threads_for


@pytest.fixture(autouse=True)
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("rows", "threads"), [(0, 1), (1, 1), (2 * ROWS_MIN - 1, 1), (2 * ROWS_MIN, 2), (3 * ROWS_MIN, 3), (10**6, 3)]
)
def test_each_thread_has_enough_rows(rows: int, threads: int) -> None:
    with threads_for(rows):
        assert torch.get_num_threads() == threads
    assert torch.get_num_threads() == 3


def test_a_failure_restores_the_threads() -> None:
    def fail() -> None:
        with threads_for(1):
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert torch.get_num_threads() == 3
