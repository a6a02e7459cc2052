"""Batches that a worker server refused: nothing of them was run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from gpu_workers.engine.pending import PendingTask
from gpu_workers.engine.remote.frames import LOST, MISSING, STALE
from gpu_workers.engine.remote.object_sender import Objects

LACKED_MAX = 3  # a server may evict what it was brought before the batch arrives


class Refused(Exception):
    """Nothing of the batch was run. `lacking`: the places of the tasks whose files the worker does not have.
    `unsendable`: of those that cannot be sent to it, or that it cannot read. `lost`: the worker's handler died
    before it had begun with the batch."""

    def __init__(self, *, lacking: Collection[int] = (), unsendable: Collection[int] = (), lost: bool = False) -> None:
        super().__init__()
        self.lacking = lacking
        self.unsendable = unsendable
        self.lost = lost


def refusal(answer: Any, tasks: int) -> Refused:
    """Why nothing of a batch was run. If no task is named, none of them is sent again: they would be without an end."""
    reason = answer[1]
    if reason in (STALE, LOST):
        return Refused(lost=reason == LOST)
    places = frozenset(answer[2] if len(answer) > 2 else ()) & frozenset(range(tasks))
    return Refused(lacking=places) if reason == MISSING and places else Refused(unsendable=places or range(tasks))


def lacked_too_often(batch: Sequence[PendingTask], lacking: Collection[int], objects: Objects) -> list[int]:
    """Of the tasks whose files a server lacked although it was known to have them: those that are not tried again."""
    for place in lacking:
        objects.forget(batch[place].needs or ())
        batch[place].lacked += 1
    return [place for place in lacking if batch[place].lacked >= LACKED_MAX]
