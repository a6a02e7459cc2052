"""`/admin` and `/metrics` on a port of their own."""

from pathlib import Path

import httpx
from gateway_kit import free_port
from inprocess_kit import opened_gateway

from service.app import create_admin_app


def test_each_application_has_routes_of_its_own(tmp_path: Path) -> None:
    paths = ("/metrics", "/livez", "/admin/tenants", "/budget")
    with opened_gateway(tmp_path, ADMIN_PORT=str(free_port())) as gateway:

        async def answers() -> list[int]:
            transport = httpx.ASGITransport(create_admin_app(gateway.service))
            async with httpx.AsyncClient(transport=transport, base_url="http://admin") as admin:
                return [(await admin.get(path)).status_code for path in paths]

        assert gateway.on_loop(answers()) == [200, 200, 401, 404]
        assert [gateway.anyone.get(path).status_code for path in paths] == [404, 200, 404, 401]
