"""The gateway is killed at every step of a release: what left was committed, and its key tells what became of it."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gateway_kit
import httpx
import pytest
from gateway_kit import DOCUMENT, LEAN, Gateway, Tenant, cpu_ticks
from hold_kit import until_at_work
from ledger_audit_kit import AuditReport, audit

from core.ledger.client import LedgerClient, connect
from core.ledger.embedded import socket_path
from core.ledger.keys import MasterKey
from core.ledger.ledger import Ledger

pytestmark = pytest.mark.slow("crash")

KITS = Path(gateway_kit.__file__).parent
ONE = [{"text": DOCUMENT}]
SLOW = [{"text": DOCUMENT * 8}] * 60  # longer than the 0.3 s after which `during-run` kills
QUEUE = 64
WORKER = "gpu_workers.engine.local.worker embed"
TOO_MANY = [{"text": "One."}] * (QUEUE + 1)
HOUR_MS = 3600 * 1000


def body_of(documents: list[dict[str, Any]]) -> bytes:
    return json.dumps({"documents": documents, "epsilon": 1.0}).encode()


@dataclass
class Crashing:
    """A gateway that can be made to exit at a step, and what it had sent until then."""

    gateway: Gateway
    crash_at: Path

    def dies(self, step: str, tenant: Tenant, documents: list[dict[str, Any]]) -> bytes:
        """Every byte that reached the client of this request before the gateway died at `step`."""
        body = body_of(documents)
        head = (
            f"POST /embed/sentdp HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {tenant.key}\r\n"
            f"Idempotency-Key: crash\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        worker = self.gateway.pid_of(WORKER)
        before = cpu_ticks(worker)
        self.crash_at.write_text(step)
        received = b""
        with socket.create_connection(("127.0.0.1", self.gateway.port), timeout=300) as connection:
            connection.sendall(head.encode() + body)
            if step.endswith("-expire"):
                until_at_work(worker, before)
                self.gateway.kill(WORKER)  # so the hold is spent without an output
            try:
                while data := connection.recv(65536):
                    received += data
            except ConnectionResetError:
                pass
        assert self.gateway.process.wait(300) < 0, "it was killed"
        self.crash_at.unlink()
        self.gateway.start()
        return received

    def audit(self, *, later_ms: int = 0) -> tuple[int, AuditReport]:
        """Spend what is overdue `later_ms` from now, then audit; over a connection of one's own."""

        async def scenario() -> tuple[int, AuditReport]:
            client = LedgerClient(connect(socket_path=socket_path(self.gateway.data_dir)))
            key = MasterKey.load_or_create(self.gateway.data_dir)
            ledger = Ledger(client, key, clock=lambda: int(time.time() * 1000) + later_ms)
            expired = await ledger.expire_overdue()
            report = await audit(ledger)
            await client.close()
            return expired, report

        return asyncio.run(scenario())


@pytest.fixture(scope="module")
def crashing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crashing]:
    folder = tmp_path_factory.mktemp("crashing")
    crash_at = folder / "crash-at"
    gateway = Gateway(
        folder / "data",
        LEAN
        | {
            "CRASH_AT": str(crash_at),
            "PRIVACY_GATEWAY_QUEUE_TASKS_MAX": str(QUEUE),
            "PRIVACY_GATEWAY_QUEUE_TENANT_SHARE": "1",
        },
        command=(sys.executable, str(KITS / "crashing_gateway.py")),
    )
    yield Crashing(gateway, crash_at)
    gateway.stop()


def amounts(tenant: Tenant) -> tuple[float, float]:
    account = tenant.account()
    return account["committed"]["epsilon"], account["reserved"]["epsilon"]


def ask_again(tenant: Tenant, documents: list[dict[str, Any]]) -> httpx.Response:
    headers = {"Idempotency-Key": "crash", "Content-Type": "application/json"}
    return tenant.http.post("/embed/sentdp", content=body_of(documents), headers=headers)


def test_before_the_hold_nothing_has_happened(crashing: Crashing) -> None:
    tenant = crashing.gateway.tenant()
    assert crashing.dies("before-reserve", tenant, ONE) == b""
    assert amounts(tenant) == (0.0, 0.0)
    assert ask_again(tenant, ONE).status_code == 200
    assert amounts(tenant) == (1.0, 0.0)
    assert crashing.audit()[1].ok


@pytest.mark.parametrize(
    ("step", "documents"),
    [
        ("after-reserve", ONE),
        ("during-run", SLOW),
        ("before-commit", ONE),
        ("before-cancel", TOO_MANY),
        ("before-expire", SLOW),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_under_a_hold_nothing_left_and_the_hold_is_spent_at_its_deadline(
    crashing: Crashing, step: str, documents: list[dict[str, Any]]
) -> None:
    tenant = crashing.gateway.tenant()
    assert crashing.dies(step, tenant, documents) == b""
    cost = float(len(documents))
    assert amounts(tenant) == (0.0, cost)
    assert ask_again(tenant, documents).status_code == 409
    expired, report = crashing.audit(later_ms=HOUR_MS)
    assert (expired, report.ok) == (1, True)
    assert ask_again(tenant, documents).status_code == 410
    assert amounts(tenant) == (cost, 0.0)


@pytest.mark.parametrize("step", ["after-commit", "after-send"])
def test_after_the_commit_its_key_brings_the_answer(crashing: Crashing, step: str) -> None:
    tenant = crashing.gateway.tenant()
    received = crashing.dies(step, tenant, ONE)
    assert amounts(tenant) == (1.0, 0.0)
    answers = [ask_again(tenant, ONE) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].headers["idempotency-replayed"] == "true"
    assert answers[0].content == answers[1].content
    if step == "after-send":
        assert received.endswith(b"\r\n\r\n" + answers[0].content)
    else:
        assert received == b""
    assert amounts(tenant) == (1.0, 0.0)
    expired, report = crashing.audit(later_ms=HOUR_MS)
    assert (expired, report.ok) == (0, True)


def test_after_a_refund_the_key_is_free(crashing: Crashing) -> None:
    tenant = crashing.gateway.tenant()
    assert crashing.dies("after-cancel", tenant, TOO_MANY) == b""
    assert amounts(tenant) == (0.0, 0.0)
    refused = ask_again(tenant, TOO_MANY)
    assert (refused.status_code, refused.json()["code"]) == (503, "queue-full")
    assert amounts(tenant) == (0.0, 0.0)
    assert crashing.audit()[1].ok


def test_after_a_loss_the_key_cannot_be_used(crashing: Crashing) -> None:
    tenant = crashing.gateway.tenant()
    assert crashing.dies("after-expire", tenant, SLOW) == b""
    assert amounts(tenant) == (float(len(SLOW)), 0.0)
    assert ask_again(tenant, SLOW).status_code == 410
    assert crashing.audit()[1].ok
