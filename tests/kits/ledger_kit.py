"""What the ledger tests share: events, limits and a proxy that loses replies."""

import asyncio
import contextlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import pytest
from table_kit import texts

from core.accounting.events import ACCOUNT_ADJACENCY, Guarantee, PrivacyEvent, Unit
from core.amounts import NANO, cost_nano, limit_nano
from core.errors import BudgetExhausted
from core.ledger.records import Charge, Limit
from core.ledger.transitions import TenantCaps
from core.master_key import MasterKey
from core.redis.client import LedgerClient, connect

MASTER_KEY = MasterKey(bytes(range(32)))
# arguments of reserve.lua, for a test that runs the script itself
RAW_TERMS = {
    "subject_rows": "", "digest": "", "key": "", "route": "", "hold_ttl_ms": 1000, "tombstone_ttl_ms": 1000,
    **asdict(TenantCaps()),
}  # fmt: skip


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
        mechanism="test-mechanism", kind="exponential", unit=unit, adjacency=ACCOUNT_ADJACENCY[unit],
        guarantee=Guarantee.PURE_DP, epsilon_nano=cost_nano(epsilon), delta_femto=delta_femto,
    )  # fmt: skip
    return Charge(event, subject)


def claim(key: str = "key-1", body: bytes = b"{}", tenant: str = "acme"):
    return MASTER_KEY.claim(tenant=tenant, route="/v1/test", key=key, body=body)


def event(kind="pure", epsilon=1.0, *, unit=Unit.SENTENCE, delta_femto=0, noise=None, mechanism="test") -> PrivacyEvent:
    """A release of this kind."""
    return PrivacyEvent(
        mechanism=mechanism, kind=kind, unit=unit, adjacency=ACCOUNT_ADJACENCY[unit], guarantee=Guarantee.PURE_DP,
        epsilon_nano=round(epsilon * NANO), delta_femto=delta_femto, noise_multiplier=noise,
    )  # fmt: skip


def released(go, ledger, charges, *, how="commit", tenant="acme", **terms):
    """Reserve, and end the hold in this way. Returns the hold."""
    hold = go(ledger.reserve(tenant, charges, **terms))
    ended(go, ledger, hold, how, tenant)
    return hold


def ended(go, ledger, hold, how="commit", tenant="acme") -> None:
    """End the hold in this way."""
    go(getattr(ledger, how)(tenant, hold.release_id, **({} if how == "commit" else {"reason": "test"})))


def pages_of(go, read):
    """Every page of a list, where `read(cursor)` reads one. The first one has the cursor None."""
    pages = [go(read(None))]
    while pages[-1].next_cursor is not None:
        pages.append(go(read(pages[-1].next_cursor)))
    return pages


def journal_pages(go, ledger, tenant, account=None, **query):
    """The entries of each page of a view of the journal."""
    found = pages_of(go, lambda cursor: ledger.journal(tenant, account, cursor=cursor or 0, **query))
    return [page.entries for page in found]


@dataclass
class Clock:
    """A clock that a test sets."""

    now: float

    def __call__(self) -> float:
        return self.now


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

    async def request(self, data: bytes, client: asyncio.StreamWriter) -> bytes | None:
        """What the Redis gets in place of `data`; None ends the connection."""
        return data

    async def reply(self, data: bytes) -> bytes | None:
        """What the client gets in place of `data`; None ends the connection."""
        return data

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_unix_server(self._serve, path=str(self._socket))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._upstream.scheme == "unix":
            return await asyncio.open_unix_connection(self._upstream.path)
        return await asyncio.open_connection(self._upstream.hostname, self._upstream.port)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connected()
        up_reader, up_writer = await self._connect()

        async def requests() -> None:
            while (data := await reader.read(65536)) and (passed := await self.request(data, writer)) is not None:
                up_writer.write(passed)
            up_writer.close()

        async def replies() -> None:
            while (data := await up_reader.read(65536)) and (passed := await self.reply(data)) is not None:
                writer.write(passed)
            writer.close()

        with contextlib.suppress(ConnectionError):
            await asyncio.gather(requests(), replies())


LOST_REQUEST, LOST_REPLY, LATE = "lost request", "lost reply", "late"
# Redis answers so, and does nothing
ERRORS = texts("""
LOADING Redis is loading the dataset in memory || OOM command not allowed when used memory > 'maxmemory'.
READONLY You can't write against a read only replica. || NOREPLICAS Not enough good replicas to write.
BUSY Redis is busy running a script.
MISCONF Redis is configured to save RDB snapshots, but it is currently unable to persist on disk.
NOAUTH Authentication required. || NOPERM this user has no permissions to run the 'evalsha' command
UNKNOWN something that no version has said yet
""")


class Gate(Proxy):
    """Counts what passes, and holds the replies back while it is not `open`. `answered`: Redis has replied."""

    def __init__(self, upstream: str, socket: Path) -> None:
        super().__init__(upstream, socket)
        self.connections = 0
        self.requests = b""
        self.answered, self.open = asyncio.Event(), asyncio.Event()
        self.open.set()

    def connected(self) -> None:
        self.connections += 1

    async def request(self, data: bytes, client: asyncio.StreamWriter) -> bytes:
        self.requests += data
        return data

    async def reply(self, data: bytes) -> bytes:
        self.answered.set()
        await self.open.wait()
        return data


class FaultyRedis(Proxy):
    """A Redis whose next scripts meet the faults in `plan`, one each. Later scripts run.

    A connection ends before Redis has the script (LOST_REQUEST), or before the client has the reply (LOST_REPLY). If a
    script is LATE, it reaches Redis by `deliver`, after the connection has ended. An error replaces the script.
    """

    def __init__(self, upstream: str, socket: Path) -> None:
        super().__init__(upstream, socket)
        self.client = LedgerClient(connect(url=self.url))
        self.plan: list[str] = []
        self.only = b""  # a part of the scripts that meet faults
        self.met = 0
        self._late: list[bytes] = []
        self._drops_reply = False

    async def request(self, data: bytes, client: asyncio.StreamWriter) -> bytes | None:
        if not self.plan or self._drops_reply or b"\r\nEVAL" not in data or self.only not in data:
            return data
        fault = self.plan.pop(0)
        if fault == LOST_REPLY:
            self._drops_reply = True
            return data
        self.met += 1
        if fault in ERRORS:
            client.write(f"-{fault}\r\n".encode())
            return b""
        if fault == LATE:
            self._late.append(data)
        return None

    async def reply(self, data: bytes) -> bytes | None:
        if not self._drops_reply or data.startswith(b"-NOSCRIPT"):
            return data
        self._drops_reply = False
        self.met += 1
        return None

    async def deliver(self) -> None:
        """Send what is late to the Redis, and wait for the answers."""
        for data in self._late:
            reader, writer = await self._connect()
            if self._upstream.username:
                writer.write(f"AUTH {self._upstream.username} {self._upstream.password}\r\n".encode())
                await reader.read(65536)
            writer.write(data)
            await reader.read(65536)
            writer.close()
        self._late.clear()
