"""Which tasks run apart after a worker has died. Workers that do die are in `test_costly_tasks.py`."""

import time
from types import SimpleNamespace
from typing import Any

import pytest
from engine_kit import Work

from gpu_workers.engine.pending import RETENTION_S, PendingTask, Quarantine
from gpu_workers.engine.protocol import Task


def sent(tenant: str, text: str) -> PendingTask:
    group: Any = SimpleNamespace(tenant=tenant)
    return PendingTask(Task(Work(text, ""), 1), group, 0.0, settle=lambda _: None, places=1)


def test_a_document_runs_apart_until_it_has_completed_and_a_tenant_after_its_second_death(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    quarantine = Quarantine()
    assert not quarantine.holds(sent("a", "deadly"))
    quarantine.suspect([sent("a", "deadly"), sent("b", "beside")])
    assert quarantine.holds(sent("c", "deadly")), "whoever sends it"
    assert quarantine.holds(sent("a", "another"))
    assert not quarantine.holds(sent("c", "another"))

    quarantine.completed(sent("b", "beside"))
    assert not quarantine.holds(sent("b", "another"))
    quarantine.completed(sent("a", "another"))
    assert not quarantine.holds(sent("a", "a third"))
    assert quarantine.holds(sent("a", "deadly"))

    quarantine.suspect([sent("a", "a third")])
    quarantine.completed(sent("a", "a third"))
    assert quarantine.holds(sent("a", "a fourth")), "a document that differs each time does not help"
    assert not quarantine.holds(sent("c", "a third"))
    later = time.monotonic() + RETENTION_S + 1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert not quarantine.holds(sent("a", "deadly"))
