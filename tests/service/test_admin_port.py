"""`/admin` and `/metrics` on a port of their own."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from gateway_kit import LEAN, Gateway, free_port
from inprocess_kit import Gateway as InProcessGateway

from service.app import create_admin_app


def test_each_application_has_routes_of_its_own(tmp_path: Path) -> None:
    gateway = InProcessGateway(tmp_path / "data", LEAN | {"PRIVACY_GATEWAY_ADMIN_PORT": str(free_port())})

    async def answers() -> list[int]:
        transport = httpx.ASGITransport(create_admin_app(gateway.service))
        async with httpx.AsyncClient(transport=transport, base_url="http://admin") as admin:
            return [(await admin.get(path)).status_code for path in ("/metrics", "/livez", "/admin/tenants", "/budget")]

    try:
        assert gateway.on_loop(answers()) == [200, 200, 401, 404]
        paths = ("/metrics", "/livez", "/admin/tenants", "/budget")
        assert [gateway.anyone.get(path).status_code for path in paths] == [404, 200, 404, 401]
    finally:
        gateway.stop()


@pytest.mark.slow("process")
def test_the_admin_port_serves_administration_and_the_other_port_does_not(tmp_path: Path) -> None:
    port = free_port()
    gateway = Gateway(tmp_path / "data", LEAN | {"PRIVACY_GATEWAY_ADMIN_PORT": str(port)})
    try:
        key = (gateway.data_dir / "admin.key").read_text().strip()
        with httpx.Client(
            base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {key}"}, timeout=60
        ) as admin:
            tenant = admin.post("/admin/tenants", json={"name": "acme", "epsilon": 5})
            assert tenant.status_code == 201
            assert "gateway_requests_total" in admin.get("/metrics").text
            assert admin.get("/livez").status_code == 200
            caller = gateway.client(tenant.json()["key"])
            for path in ("/budget", "/keys", "/jobs"):
                assert admin.get(path).status_code == 404, "the admin port serves no tenant"
            assert caller.get("/budget").status_code == 200
        for path in ("/metrics", "/admin/tenants", "/admin/tenants/acme/keys"):
            assert gateway.admin.get(path).status_code == 404
        assert f":{port}" in gateway.log_path.read_text()
    finally:
        gateway.stop()
    assert gateway.process.returncode == 0
