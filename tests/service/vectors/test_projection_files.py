"""Files of projections: loaded once, served without copies, and counted as memory until they were sent."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from exchange_kit import HANG_S, Exchange
from gateway_kit import Tenant
from inprocess_kit import Gateway
from safetensors.numpy import load

from core.mechanisms.vectors.vector_pack import VectorPack
from gpu_workers.packs import VECTOR_PACK
from service.http.exchange import PIECE_BYTES
from service.vectors import projections as module
from service.vectors.constructions import OWNER
from service.vectors.projections import Projections

PCA = "/models/projections/pca-384"
LARGE = {"kind": "gaussian", "dimension": 640, "output_dimension": 320}


def test_the_shipped_axes_are_loaded_once_for_everybody(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    loads = []

    def counted(path: Any) -> VectorPack:
        loads.append(path)
        return VectorPack.load(path)

    monkeypatch.setattr(module, "VectorPack", type("Counted", (), {"load": staticmethod(counted)}))
    service = gateway.service

    async def ask() -> list[bytes]:
        files = Projections(service.settings, service.projections._constructions)
        asked = [files.file(tenant=f"t{m}", kind="pca", dimension=384, output_dimension=m) for m in (1, 8, 64, 64)]
        return [b"".join(file.buffers) for file in await asyncio.gather(*asked)]

    contents = gateway.on_loop(ask())
    assert loads == [VECTOR_PACK]
    pack = VectorPack.load(VECTOR_PACK)
    for content, m in zip(contents, (1, 8, 64, 64), strict=True):
        assert np.array_equal(load(content)["projection"], pack.projection(m).matrix)


def test_an_unchanged_file_of_axes_is_not_sent_again(tenant: Tenant) -> None:
    first = tenant.http.get(f"{PCA}-8")
    etag = first.headers["etag"]
    again = tenant.http.get(f"{PCA}-8", headers={"If-None-Match": f'"other", {etag}'})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == etag
    other = tenant.http.get(f"{PCA}-9", headers={"If-None-Match": etag})
    assert (other.status_code, other.headers["etag"] != etag) == (200, True)
    own = tenant.http.get("/models/projections/gaussian-384-8")
    assert "etag" not in own.headers
    assert own.headers["cache-control"] == "no-store"


def test_requests_for_a_large_projection_share_its_memory(gateway: Gateway, tenant: Tenant) -> None:
    async def ask() -> None:
        first, second = [await gateway.service.projections.file(tenant=tenant.name, **LARGE) for _ in range(2)]
        assert np.shares_memory(np.frombuffer(first.buffers[1], "u1"), np.frombuffer(second.buffers[1], "u1"))

    gateway.on_loop(ask())


def test_memory_of_a_projection_counts_until_its_file_was_sent(gateway: Gateway, tenant: Tenant) -> None:
    constructions = gateway.service.projections._constructions
    shares = gateway.service.engine.arrays._shares

    async def ask() -> None:
        before = shares._used[OWNER]
        exchange = Exchange(gateway, tenant.key, "GET", "/models/projections/gaussian-640-320")
        exchange.reads = False
        await asyncio.wait_for(exchange.began.wait(), HANG_S)
        constructions._kept.make_space(constructions._kept._bytes_max)  # of others' projections
        assert shares._used[OWNER] >= 640 * 320 * 4
        exchange.read.set()
        content = await exchange.ended()
        assert max(len(message.get("body", b"")) for message in exchange.messages) <= PIECE_BYTES
        assert load(content)["projection"].shape == (320, 640)
        exchange.messages.clear()
        del exchange
        assert shares._used[OWNER] <= before

    gateway.on_loop(ask())
