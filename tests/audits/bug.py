"""What a planted bug is, and how it is tried: its detector must pass without it and fail with it."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from audits.kit import Found


@dataclass(frozen=True)
class Detector:
    """Looks at the mechanism as it runs now. `flags` returns what is wrong, or None."""

    name: str
    flags: Callable[[], str | None]


@dataclass(frozen=True)
class Bug:
    """`step`: the step of the proof in the mechanism's docstring that the bug breaks. `plant` patches the code."""

    name: str
    mechanism: str
    step: str
    plant: Callable[[pytest.MonkeyPatch], None]
    detector: Detector


def tried(bug: Bug) -> str | None:
    """What the bug's detector says with the bug planted; None if it survives."""
    with pytest.MonkeyPatch.context() as patch:
        bug.plant(patch)
        return bug.detector.flags()


def over_claim(name: str, run: Callable[[], Found]) -> Detector:
    """Flags a bound above its claim."""

    def flags() -> str | None:
        found = run()
        if found.bound <= found.claim:
            return None
        return f"audit: {found.bound:.2f} proved of a claim of {found.claim:.2f}, {found.runs:,} runs"

    return Detector(name, flags)


def check(name: str, holds: Callable[[], bool]) -> Detector:
    """Flags where `holds` does not."""
    return Detector(name, lambda: None if holds() else f"check: {name}")
