"""What the ledger tests share: events, limits and a proxy that loses replies."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import asdict
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import pytest

from core.accounting.events import ACCOUNT_ADJACENCY, Guarantee, PrivacyEvent, Unit
from core.amounts import NANO, cost_nano, limit_nano
from core.errors import BudgetExhausted
from core.ledger.keys import MasterKey
from core.ledger.ledger import TenantCaps
from core.ledger.records import Charge, Limit

MASTER_KEY = MasterKey(bytes(range(32)))
# arguments of reserve.lua, for a test that runs the script itself
RAW_TERMS = {
    "subject_rows": "",
    "digest": "",
    "key": "",
    "route": "",
    "hold_ttl_ms": 1000,
    "tombstone_ttl_ms": 1000,
    **asdict(TenantCaps()),
}


def limits(
    epsilon: float, delta_femto: int = 0, *, basic_delta_femto: int | None = None, **overrides: float
) -> dict[Unit, Limit]:
    """The same limit for every unit, save for `unit=epsilon`."""
    return {
        unit: Limit(limit_nano(overrides.get(unit.value, epsilon)), delta_femto, basic_delta_femto) for unit in Unit
    }


def charge(
    epsilon: float = 1, *, unit: Unit = Unit.SENTENCE, subject: str | None = None, delta_femto: int = 0
) -> Charge:
    event = PrivacyEvent(
        mechanism="test-mechanism",
        kind="exponential",
        unit=unit,
        adjacency=ACCOUNT_ADJACENCY[unit],
        guarantee=Guarantee.PURE_DP,
        epsilon_nano=cost_nano(epsilon),
        delta_femto=delta_femto,
    )
    return Charge(event, subject)


def claim(key: str = "key-1", body: bytes = b"{}", tenant: str = "acme"):
    return MASTER_KEY.claim(tenant=tenant, route="/v1/test", key=key, body=body)


def event(kind="pure", epsilon=1.0, *, unit=Unit.SENTENCE, delta_femto=0, noise=None, mechanism="test") -> PrivacyEvent:
    """A release of this kind."""
    return PrivacyEvent(
        mechanism=mechanism,
        kind=kind,
        unit=unit,
        adjacency=ACCOUNT_ADJACENCY[unit],
        guarantee=Guarantee.PURE_DP,
        epsilon_nano=round(epsilon * NANO),
        delta_femto=delta_femto,
        noise_multiplier=noise,
    )


def promised(go, ledger, account, what):
    """The ledger's answer how many more releases fit."""
    return go(ledger.headroom("acme", account, [[Charge(what)]]))[1][0]


def check_headroom(go, ledger, account, what, subject=None):
    """The first answer, after as many releases as it promised were admitted and the next was refused."""
    first = promised(go, ledger, account, what)
    left = first.headroom.binding.releases
    for times in (1, left // 2, left - 1 - left // 2):
        if min(times, left) > 0:
            go(ledger.reserve("acme", [Charge(what, subject, times=times)]))
    now = promised(go, ledger, account, what)
    assert now.headroom.binding.releases == 0
    with pytest.raises(BudgetExhausted):
        go(ledger.reserve("acme", [Charge(what, subject)]))
    return first


class Proxy:
    """A proxy in front of a Redis. `url` leads to the Redis at `upstream` through `socket`, as the same user."""

    def __init__(self, upstream: str, socket: Path) -> None:
        self._upstream = urlsplit(upstream)
        self._socket = socket
        user = f"{self._upstream.username}:{self._upstream.password}@" if self._upstream.username else ""
        self.url = f"unix://{user}{socket}"

    def connected(self) -> None:
        """A client has connected."""

    def request(self, data: bytes) -> None:
        """`data` goes to the Redis."""

    async def reply(self, data: bytes) -> bool:
        """Whether `data` may go to the client; else the connection ends."""
        return True

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_unix_server(self._serve, path=str(self._socket))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connected()
        if self._upstream.scheme == "unix":
            up_reader, up_writer = await asyncio.open_unix_connection(self._upstream.path)
        else:
            up_reader, up_writer = await asyncio.open_connection(self._upstream.hostname, self._upstream.port)

        async def requests() -> None:
            while data := await reader.read(65536):
                self.request(data)
                up_writer.write(data)
            up_writer.close()

        async def replies() -> None:
            while data := await up_reader.read(65536):
                if not await self.reply(data):
                    break
                writer.write(data)
            writer.close()

        with contextlib.suppress(ConnectionError):
            await asyncio.gather(requests(), replies())


class ReplyDropper(Proxy):
    """Can lose the reply of the next command after it was applied."""

    def __init__(self, upstream: str, socket: Path) -> None:
        super().__init__(upstream, socket)
        self.drops_left = 0
        self.dropped = 0

    async def reply(self, data: bytes) -> bool:
        if self.drops_left and not data.startswith(b"-NOSCRIPT"):
            self.drops_left -= 1
            self.dropped += 1
            return False
        return True
