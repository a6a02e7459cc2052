"""What several tests of the workers share."""

from __future__ import annotations

import pytest

from gpu_workers.domains import codes


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trains the codes of a pack for a few steps, for a test that does not ask how good they are."""
    monkeypatch.setattr(codes, "STEPS_MIN", 4)
    monkeypatch.setattr(codes, "EPOCHS", 4)
