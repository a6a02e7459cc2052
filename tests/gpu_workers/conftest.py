"""What several tests of the workers share."""

from collections.abc import Iterator

import pytest
import torch

from gpu_workers.domains import codes
from gpu_workers.handlers.embedder import Embedder
from gpu_workers.handlers.options import WorkerOptions
from gpu_workers.models.integer.compiled import keep_compiled

keep_compiled(None)  # before the kernels are imported, so that they are not compiled for each run


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trains the codes of a pack for a few steps, for a test that does not ask how good they are."""
    monkeypatch.setattr(codes, "STEPS_MIN", 4)
    monkeypatch.setattr(codes, "EPOCHS", 4)


@pytest.fixture(scope="session")
def embedder() -> Embedder:
    """The handler of the embed role with the shipped encoder and packs, which several files share."""
    made = Embedder(WorkerOptions())
    made.warm_up()
    return made


@pytest.fixture
def threads() -> Iterator[None]:
    """A test may set the number of torch's threads."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
