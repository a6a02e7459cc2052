"""The body of a job is checked in the one thread of `Preparation`, in its tenant's turn, and stored in another."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from corpus_kit import job, rows
from inprocess_kit import Gateway

from service.domains.job_kind import DomainFields
from service.jobs import submit
from service.jobs.files import Incoming


@pytest.mark.usefixtures("processes")
def test_bodies_are_checked_one_at_a_time_outside_the_event_loop(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenants = [gateway.tenant() for _ in range(2)]
    parsing: list[str] = []
    writing: list[str] = []
    parse_json, write = submit.parse_json, Incoming.write

    def parsed(*arguments: Any) -> Any:
        parsing.append(threading.current_thread().name)
        return parse_json(*arguments)

    def written(self: Incoming, data: bytes) -> None:
        writing.append(threading.current_thread().name)
        write(self, data)

    monkeypatch.setattr(submit, "parse_json", parsed)
    monkeypatch.setattr(Incoming, "write", written)
    body = {"name": "law", "documents": rows(400)}
    with ThreadPoolExecutor(4) as clients:
        answers = list(clients.map(lambda number: tenants[number % 2].http.post("/jobs/domain", json=body), range(4)))
    assert [answer.status_code for answer in answers] == [202] * 4, answers[0].text
    assert len(parsing) == 4
    assert {name.partition("_")[0] for name in parsing} == {"preparation"}
    assert len(writing) == 4, "one write for all rows of a small body"
    assert not any(name.startswith(("preparation", "gateway")) for name in writing)
    for number, answer in enumerate(answers):
        tenant = tenants[number % 2]
        assert job(tenant.http, answer.json()["job_id"])["kind"] == "domain"
        tenant.http.post(f"/jobs/{answer.json()['job_id']}/cancel")


def test_rows_are_joined_to_parts_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submit, "_WRITE_BYTES", 10)
    lines = [b"abc\n"] * 7
    parts = list(submit._joined(lines))
    assert b"".join(parts) == b"".join(lines)
    assert [len(part) for part in parts] == [12, 12, 4]
    assert list(submit._joined([])) == []


def test_a_domain_jobs_fields_without_steps_are_those_of_the_versions_that_had_none() -> None:
    """They are part of what an idempotency key is compared with, and jobs of these versions are found again."""
    fields = {"name": "law", "source": "not stated", "licence": "not stated"}
    assert DomainFields(name="law").model_dump() == DomainFields(name="law", steps=600).model_dump() == fields
    assert DomainFields(name="law", steps=10).model_dump() == fields | {"steps": 10}
