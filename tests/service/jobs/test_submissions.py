"""Submissions of one job through two gateways, the second of which is slow. The processes of jobs are real."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import pytest
from gateway_kit import DEFAULTS, clean_environment
from redis_kit import running_server
from synthesis_kit import shop_request, shop_rows
from toys.toy_engine import ToyEngine

from service.app import create_app
from service.config.settings import Settings
from service.gateway import Gateway

LONG_S = 300.0
BODY = {**shop_request(), "rows": shop_rows(60)}
TENANT = {"name": "shop", "epsilon": 10.0, "delta": 1e-3}


@asynccontextmanager
async def gateway(folder: Path, name: str, redis_url: str) -> AsyncIterator[tuple[Gateway, httpx.AsyncClient]]:
    own = {"REDIS_URL": redis_url, "PRIVACY_GATEWAY_MASTER_KEY": "7" * 64}
    own["PRIVACY_GATEWAY_STORE_URL"] = f"file://{folder}/store"
    with mock.patch.dict(os.environ, clean_environment() | DEFAULTS | own, clear=True):
        started = Gateway(Settings(data_dir=folder / name), engine=ToyEngine())
    await started.start()
    try:
        transport = httpx.ASGITransport(create_app(started))
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway", timeout=LONG_S) as client:
            yield started, client
    finally:
        await started.stop()


async def post(client: httpx.AsyncClient, key: str) -> httpx.Response:
    headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": "one"}
    return await client.post("/jobs/synthesis", json=BODY, headers=headers)


async def job_of(client: httpx.AsyncClient, key: str, job_id: str) -> dict[str, Any]:
    return (await client.get(f"/jobs/{job_id}", headers={"Authorization": f"Bearer {key}"})).json()


@pytest.mark.parametrize("charged", [False, True])
@pytest.mark.usefixtures("processes")
def test_a_slow_submission_finds_the_job_that_a_repetition_has_made_elsewhere(tmp_path: Path, charged: bool) -> None:
    """The first request is on its way to the store while the client sends it again to another gateway."""

    async def scenario(redis_url: str) -> None:
        async with (
            gateway(tmp_path, "slow", redis_url) as (slow, first),
            gateway(tmp_path, "fast", redis_url) as (_, second),
        ):
            admin = {"Authorization": f"Bearer {(tmp_path / 'slow/admin.key').read_text().strip()}"}
            key = (await first.post("/admin/tenants", json=TENANT, headers=admin)).json()["key"]
            arrived, goes_on = asyncio.Event(), asyncio.Event()
            store_input = slow.jobs.working.store_input

            async def waiting(*which: str) -> Any:
                arrived.set()
                await goes_on.wait()
                return await store_input(*which)

            with mock.patch.object(slow.jobs.working, "store_input", waiting):
                slow_answer = asyncio.create_task(post(first, key))
                await arrived.wait()
                made = await post(second, key)
                assert made.status_code == 202, made.text
                job_id = made.json()["job_id"]
                while charged and not (await job_of(second, key, job_id))["spent"]["epsilon"]:
                    await asyncio.sleep(0.05)
                goes_on.set()
                found = await slow_answer
            assert (found.status_code, found.json().get("job_id")) == (202, job_id)
            assert (made.headers["idempotency-replayed"], found.headers["idempotency-replayed"]) == ("false", "true")
            async with asyncio.timeout(LONG_S):
                while (job := await job_of(first, key, job_id))["status"] in ("queued", "running"):
                    await asyncio.sleep(0.05)
            assert (job["status"], job["spent"]["epsilon"]) == ("succeeded", 1.0)
            budget = (await first.get("/budget/shop/record", headers={"Authorization": f"Bearer {key}"})).json()
            assert (budget["committed"]["epsilon"], budget["reserved"]["epsilon"]) == (1.0, 0.0)

    with running_server(tmp_path / "redis") as server:
        asyncio.run(scenario(server.url))
