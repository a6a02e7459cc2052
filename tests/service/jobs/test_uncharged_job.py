"""A process that reports what depends on noise before it has asked for its charge: nothing is released or charged."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from corpus_kit import until
from finetune_http_kit import NOTHING, RECORD, costs, transitions
from inprocess_kit import Gateway
from synthesis_kit import shop_request, shop_rows

from gpu_workers.jobs.protocol import JobProgress, Succeeded
from service.jobs import attempt


class _Hasty:
    """A process that sends one message at once."""

    def __init__(self, message: Any, on_message: Callable[[Any], None]) -> None:
        asyncio.get_running_loop().call_soon(on_message, message)

    def kill(self) -> None:
        """It has ended."""

    async def stop(self) -> None:
        """It has ended."""


@pytest.mark.parametrize("message", [Succeeded({"rows": 1}), JobProgress("training", 0.5, {"step": 1.0})])
def test_nothing_is_released_and_nothing_charged(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, message: Any
) -> None:
    monkeypatch.setattr(attempt, "start_job", lambda _, *, on_message, **__: _Hasty(message, on_message))
    tenant = gateway.tenant(record=RECORD)
    body = shop_request(method="marginals") | {"rows": shop_rows(100)}
    created = tenant.http.post("/jobs/synthesis", json=body, headers={"X-Purpose": "a table"})
    assert created.status_code == 202, created.text
    failed = until(tenant.http, created.json()["job_id"])
    assert (failed["status"], failed["problem"]["reason"]) == ("failed", "not-charged")
    assert failed.get("result") is failed.get("metrics") is None
    assert costs(failed) == costs(tenant.account("record"), "committed") == (NOTHING, NOTHING)
    assert transitions(tenant) == ["open", "reserve", "cancel"]
    entries = tenant.http.get(f"/budget/{tenant.name}/record/journal").json()["entries"]
    assert [entry["purpose"] for entry in entries] == [None, "a table", "a table"]
    assert not tenant.http.get(f"/jobs/{failed['job_id']}/artifact").is_success
