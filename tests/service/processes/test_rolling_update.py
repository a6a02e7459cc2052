"""Two gateways of one ledger are replaced one after the other, while clients go on."""

import itertools
import os
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import corpus_kit
import httpx
import pytest
from gateway_kit import LEAN, Gateway, Tenant
from redis_kit import EmbeddedServer
from wait_kit import until

TESTS = Path(__file__).parents[2]
EPSILON = 0.5
SETTINGS = LEAN | {
    "PYTHONPATH": os.pathsep.join(map(str, (TESTS.parent, TESTS, TESTS / "kits"))),
    "PRIVACY_GATEWAY_MASTER_KEY": "5a" * 32,
}


@pytest.fixture
def gateways(processes: None, tmp_path: Path) -> Iterator[list[Gateway]]:
    (tmp_path / "redis").mkdir()
    server = EmbeddedServer(tmp_path / "redis")
    server.start()
    environment = SETTINGS | {"REDIS_URL": server.url, "PRIVACY_GATEWAY_STORE_URL": f"file://{tmp_path}/store"}
    command = (sys.executable, str(TESTS / "soak/serve.py"))
    started = [Gateway(tmp_path / f"gateway-{number}", environment, command=command) for number in range(2)]
    yield started
    for gateway in started:
        gateway.stop()
    server.stop()


class Client(threading.Thread):
    """Sends one request after the other through both gateways, as a balancer would: to the other one with the same
    idempotency key, if a connection fails."""

    def __init__(self, gateways: list[Gateway], tenant: Tenant, stop: threading.Event) -> None:
        super().__init__()
        self.statuses: list[int] = []
        self._tenant, self._stop_sending = tenant, stop
        clients = [httpx.Client(base_url=one.url, headers=tenant.http.headers, timeout=60) for one in gateways]
        self._next = itertools.cycle(clients)

    def run(self) -> None:
        while not self._stop_sending.is_set():
            body = {"documents": [{"text": "One. Two."}], "epsilon": EPSILON}
            self.statuses.append(self._answered(body, {"Idempotency-Key": uuid.uuid4().hex}))

    def _answered(self, body: dict[str, object], headers: dict[str, str]) -> int:
        for _ in range(20):
            try:
                return next(self._next).post("/embed/sentdp", json=body, headers=headers).status_code
            except httpx.TransportError:
                self._stop_sending.wait(0.05)
        return 0


@pytest.mark.slow("process")
def test_clients_and_jobs_notice_nothing_of_a_rolling_update(gateways: list[Gateway]) -> None:
    tenant = gateways[0].tenant(epsilon=1e6)
    fields = {"name": "long", "question": "", "epsilon": 1.0, "steps": 60, "ends": "well", "answers": [True] * 9}
    job = tenant.http.post("/jobs/soak", json=fields).json()["job_id"]
    corpus_kit.until(tenant.http, job, "running")
    stop = threading.Event()
    clients = [Client(gateways, tenant, stop) for _ in range(8)]
    for client in clients:
        client.start()

    for gateway in gateways:
        counts = [len(client.statuses) for client in clients]
        until(lambda counts=counts: all(len(c.statuses) > n + 5 for c, n in zip(clients, counts, strict=True)))
        gateway.process.terminate()
        assert gateway.process.wait(120) == 0
        gateway.start()
    stop.set()
    for client in clients:
        client.join()

    statuses = [status for client in clients for status in client.statuses]
    assert set(statuses) == {200}
    tenant = gateways[0].reconnected(tenant)
    assert tenant.account()["reserved"]["epsilon"] == 0.0
    assert tenant.committed() == len(statuses) * EPSILON
    ended = corpus_kit.until(tenant.http, job)
    assert ended["status"] == "succeeded"
    assert tenant.committed("record") == 1.0
