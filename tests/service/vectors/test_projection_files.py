"""Files of projections: loaded once, served without copies, and counted as memory until they were sent."""

from __future__ import annotations

import asyncio

from exchange_kit import HANG_S, Exchange
from gateway_kit import Tenant
from inprocess_kit import Gateway
from safetensors.numpy import load

from service.http.exchange import PIECE_BYTES
from service.vectors.constructions import OWNER

PCA = "/models/projections/pca-384"


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
