"""Uploads that stand still hold no memory and no place of another tenant."""

import asyncio
import gc
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import orjson
import pytest
from corpus_kit import rows
from exchange_kit import Exchange
from gateway_kit import DOCUMENT, Tenant
from inprocess_kit import Gateway, module_gateway
from safetensors.numpy import save

from service.jobs.attempt import JOBS_WAITING_MAX

VECTORS = {"Content-Type": "application/vnd.safetensors"}
LINES = {"Content-Type": "application/x-ndjson"}


class IdleUpload:
    """A request that sends its first bytes and then nothing, until it is `left`."""

    def __init__(
        self, gateway: Gateway, tenant: Tenant, path: str, headers: Mapping[str, str], first: bytes = b"x"
    ) -> None:
        self._gateway = gateway
        own = {"authorization": f"Bearer {tenant.key}"} | {name.lower(): value for name, value in headers.items()}

        async def begun() -> Exchange:
            """The gateway has the first bytes and waits for more, or has answered without them."""
            exchange = Exchange(gateway, "", "POST", path, instead=own)
            exchange.body.put_nowait(first)
            while not exchange.waits.is_set() and not exchange.task.done():
                await asyncio.sleep(0.001)
            return exchange

        self.exchange: Exchange = gateway.on_loop(begun())

    @property
    def status(self) -> int | None:
        return self.exchange.status if self.exchange.messages else None

    @property
    def code(self) -> str:
        return json.loads(b"".join(message.get("body", b"") for message in self.exchange.messages))["code"]

    def leave(self) -> None:
        async def left() -> None:
            self.exchange.leave()
            await self.exchange.ended()

        self._gateway.on_loop(left())


@contextmanager
def idle(
    gateway: Gateway, tenant: Tenant, path: str, headers: Mapping[str, str], *, count: int
) -> Iterator[list[IdleUpload]]:
    uploads = [IdleUpload(gateway, tenant, path, headers) for _ in range(count)]
    try:
        yield uploads
    finally:
        for upload in uploads:
            upload.leave()


def vector_file(count: int = 4) -> bytes:
    vectors = np.full((count, 16), 0.1, dtype=np.float32)
    return save({"vectors": vectors}, metadata={"request": orjson.dumps({"epsilon": 1.0, "dimension": 4}).decode()})


def test_an_announced_length_takes_no_memory_from_others(gateway: Gateway, tenant: Tenant) -> None:
    announced = VECTORS | {"Content-Length": str(gateway.settings.vectors_bytes_max)}
    with idle(gateway, gateway.tenant(), "/embed/vector/safetensors", announced, count=16) as uploads:
        assert [upload.status for upload in uploads] == [None] * 16
        answer = tenant.http.post("/embed/vector", json={"vectors": [[0.1] * 16], "epsilon": 1.0, "dimension": 4})
        file = tenant.http.post("/embed/vector/safetensors", content=vector_file(), headers=VECTORS)
    assert answer.status_code == 200, answer.text
    assert file.status_code == 200, file.text


@pytest.mark.usefixtures("processes")
def test_uploads_of_jobs_that_stand_still_leave_places_for_others(gateway: Gateway, tenant: Tenant) -> None:
    attacker = gateway.tenant()
    most = gateway.settings.jobs_per_tenant_max
    path = "/jobs/domain?name=held"
    with idle(gateway, attacker, path, LINES, count=JOBS_WAITING_MAX) as uploads:
        assert [upload.status for upload in uploads[:most]] == [None] * most
        assert {(upload.status, upload.code) for upload in uploads[most:]} == {(429, "job-quota")}
        created = tenant.http.post("/jobs/domain", json={"name": "law", "documents": rows(2)})
    assert created.status_code == 202, created.text
    tenant.http.post(f"/jobs/{created.json()['job_id']}/cancel")


@pytest.mark.usefixtures("processes")
def test_an_arriving_job_counts_beside_the_created_ones(gateway: Gateway, tenant: Tenant) -> None:
    most = gateway.settings.jobs_per_tenant_max
    with idle(gateway, tenant, "/jobs/domain?name=held", LINES, count=most - 1) as uploads:
        assert {upload.status for upload in uploads} == {None}
        first = tenant.http.post("/jobs/domain", json={"name": "law", "documents": rows(2)})
        with idle(gateway, tenant, "/jobs/domain?name=held", LINES, count=1) as more:
            beyond = [upload.status for upload in more]
    tenant.http.post(f"/jobs/{first.json()['job_id']}/cancel")
    assert first.status_code == 202
    assert beyond == [429]
    last = tenant.http.post("/jobs/domain", json={"name": "law", "documents": rows(2)})
    assert last.status_code == 202
    tenant.http.post(f"/jobs/{last.json()['job_id']}/cancel")


@pytest.mark.usefixtures("processes")
def test_an_upload_under_the_key_of_a_job_counts_too(gateway: Gateway, tenant: Tenant) -> None:
    headers = {"Idempotency-Key": "one"}
    created = tenant.http.post("/jobs/domain", json={"name": "law", "documents": rows(2)}, headers=headers)
    most = gateway.settings.jobs_per_tenant_max
    with idle(gateway, tenant, "/jobs/domain?name=law", LINES | headers, count=most + 1) as uploads:
        statuses = [upload.status for upload in uploads]
    tenant.http.post(f"/jobs/{created.json()['job_id']}/cancel")
    assert statuses == [None] * most + [429]


LITTLE = 20_000  # bytes of a tenant
narrow = module_gateway(
    VECTORS_MEMORY_BYTES_MAX=str(1 << 30),
    BODIES_MEMORY_BYTES_MAX=str(1 << 30),
    changes={"vectors_memory_tenant_share": LITTLE / (1 << 30), "bodies_memory_tenant_share": LITTLE / (1 << 30)},
)


impatient = module_gateway(changes={"service.http.middleware.BODY_IDLE_S": 0.2})


def test_a_tenant_has_a_share_of_the_memory_of_vectors(narrow: Gateway) -> None:
    tenant, other = narrow.tenant(), narrow.tenant()
    refused = tenant.http.post("/embed/vector/safetensors", content=vector_file(1000), headers=VECTORS)
    as_json = {"vectors": [[0.1] * 16] * 150, "epsilon": 1.0, "dimension": 16}
    refused_json = tenant.http.post("/embed/vector", json=as_json)
    for answer in (refused, refused_json):
        assert (answer.status_code, answer.json()["code"]) == (429, "tenant-limit")
        assert answer.json()["limit"] == "vectors_memory_per_tenant_bytes_max"
    assert tenant.committed("vector") == 0.0
    gc.collect()
    for caller in (tenant, other):
        assert caller.http.post("/embed/vector/safetensors", content=vector_file(), headers=VECTORS).status_code == 200


def test_a_tenant_has_a_share_of_the_memory_of_bodies(narrow: Gateway) -> None:
    tenant, other = narrow.tenant(), narrow.tenant()
    headers = {"Content-Type": "application/json"}
    held = [IdleUpload(narrow, tenant, "/embed/sentdp", headers, b"{" + b" " * 9000) for _ in range(2)]
    third = tenant.embed([{"text": DOCUMENT * 20}])
    of_other = other.embed([{"text": DOCUMENT * 20}])
    for upload in held:
        upload.leave()
    assert (third.status_code, third.json().get("limit")) == (429, "bodies_memory_per_tenant_bytes_max")
    assert of_other.status_code == 200
    assert tenant.embed([{"text": DOCUMENT * 20}]).status_code == 200


def test_lines_of_streams_are_part_of_a_tenants_memory(narrow: Gateway) -> None:
    tenant, other = narrow.tenant(), narrow.tenant()
    held = [IdleUpload(narrow, tenant, "/sanitize/batch", LINES, b'{"text": "' + b"x" * 9000) for _ in range(2)]
    content = b'{"text": "It rains."}\n' + orjson.dumps({"text": "Rain. " * 500})
    refused = tenant.http.post("/sanitize/batch", content=content, headers=LINES)
    of_other = other.http.post("/sanitize/batch", content=content, headers=LINES)
    for upload in held:
        upload.leave()
    ended = json.loads(refused.text.splitlines()[-1])["summary"]["problem"]
    assert (ended["code"], ended["limit"]) == ("tenant-limit", "bodies_memory_per_tenant_bytes_max")
    assert json.loads(of_other.text.splitlines()[-1])["summary"]["released"] == 2


def test_a_stream_that_is_larger_than_its_tenants_memory_waits_for_its_own_lines(narrow: Gateway) -> None:
    lines = [orjson.dumps({"text": "Rain. " * 500})] * 20 + [b" " * 3000] * 20
    answer = narrow.tenant().http.post("/sanitize/batch", content=b"\n".join(lines), headers=LINES)
    summary = json.loads(answer.text.splitlines()[-1])["summary"]
    assert (summary["released"], summary["complete"]) == (20, True)


def test_a_body_that_stops_gets_408_and_leaves_nothing(impatient: Gateway) -> None:
    tenant = impatient.tenant()
    for path, headers in (
        ("/embed/sentdp", {"Content-Type": "application/json"}),
        ("/embed/vector/safetensors", VECTORS),
        ("/jobs/domain?name=held", LINES),
        ("/jobs/domain", {"Content-Type": "application/json"}),
        ("/embed/sentdp", {"Content-Type": "application/json", "Content-Length": "100000000"}),
    ):
        upload = IdleUpload(impatient, tenant, path, headers)
        impatient.on_loop(upload.exchange.ended())
        assert (upload.status, upload.code) == (408, "request-timeout"), path
        assert not list(Path(impatient.data_dir / "jobs").glob(".incoming-*"))
