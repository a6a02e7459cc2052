"""What the tests of fine-tuning share."""

from pathlib import Path

import pytest
from finetune_kit import StepsTaken


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the tiny checkpoints, of which each is made once."""
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture
def steps_taken(monkeypatch: pytest.MonkeyPatch) -> StepsTaken:
    return StepsTaken(monkeypatch)
