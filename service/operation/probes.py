"""Probes: public inputs whose results can be checked, one for each role."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from core.errors import WorkerCold
from core.text.policy import MaskPolicy, SanitizeTask
from gpu_workers.engine.protocol import Role
from gpu_workers.handlers.tasks import EmbedTask

_PLANTED = "canary@example.com"
_EPSILON_NANO = 10**9


def task(role: Role, tagger_types: Sequence[str]) -> Any:
    """A public task of that role; the tagger reads its text as well."""
    if role is Role.EMBED:
        return EmbedTask(("This sentence is public.",), None, "sentence_codes", "general", _EPSILON_NANO)
    policy = MaskPolicy().completed(tagger_types)
    return SanitizeTask(text=f"Write to {_PLANTED} now.", policy=policy, fill="class_marker")


def check(role: Role, result: Any) -> None:
    """Raises WorkerCold when the worker's answer is wrong: such a worker must not serve."""
    if role is Role.EMBED:
        right = bool(np.isfinite(result.vector).all())
    else:
        right = _PLANTED not in result.text and bool(result.spans)
    if not right:
        raise WorkerCold
