"""The two ledgers of a move, and the steps that a script does on each of them.

Guarantee: a step changes something only for the run whose token is in the tenant's record on that ledger. A run that
was paused while another one took over changes nothing any more. Every step can be repeated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgpack

from core.errors import LedgerUnavailable, UnknownTenant
from core.ledger import names
from core.ledger.archive.reader import LedgerArchive
from core.ledger.client import LedgerClient
from core.ledger.hash_chain.chain import RawEntry, SealChain
from core.ledger.hash_chain.sealer import Sealer
from core.ledger.keys import MasterKey
from core.ledger.migration import SCHEMA
from core.ledger.pages import entry_number
from core.move_errors import MoveRefused

_STATE = ("mode", "seq", *names.MOVING_FIELDS)
# Fields of a tenant's record that belong to the ledger, or to the move, and not to the tenant.
_OWN_FIELDS = {b"closing", b"away", b"arriving", b"arrived", b"schema"}
_CLOCKS_MS_MAX = 5_000


class Homes(Protocol):
    """Which ledger each tenant lives on."""

    async def home(self, tenant: str) -> str:
        """Return the name of the tenant's ledger."""

    async def set_home(self, tenant: str, ledger: str) -> None:
        """Write it durably."""


@dataclass(frozen=True)
class LedgerSide:
    """One ledger of a move. `client` has the rights of the operator, and `sealer.check()` has succeeded.

    `archive` is needed if the ledger has archived entries.
    """

    name: str
    client: LedgerClient
    sealer: Sealer
    epoch_file: Path
    archive: LedgerArchive | None = None


@dataclass(frozen=True)
class TenantState:
    """What the tenant's record on one ledger says. `away` and `arriving` name the other ledger.

    `seq` is the number of the last entry.
    """

    exists: bool
    seq: int
    away: str | None
    arriving: str | None

    @property
    def is_active(self) -> bool:
        return self.exists and self.away is None and self.arriving is None


async def tenant_state(client: LedgerClient, tenant: str) -> TenantState:
    mode, seq, *moving = await client.call("HMGET", names.tenant_key(tenant), *_STATE)
    away, arriving = (None if field is None else field.decode().partition(":")[2] for field in moving)
    return TenantState(mode is not None, int(seq or 0), away, arriving)


async def check_ledgers(one: LedgerSide, other: LedgerSide, master_key: MasterKey) -> None:
    """Refuse ledgers between which no tenant can move. Raises MoveRefused, LedgerUnavailable."""
    clients = one.client, other.client
    ids = [await SealChain(client, master_key).ledger_id() for client in clients]
    if None in ids or ids[0] == ids[1] or one.name == other.name:
        raise MoveRefused("A move needs two ledgers that have been checked.")
    for client in clients:
        await SCHEMA.check(client.call)
    for key in (names.VERSION_KEY, names.KEY_CHECK_KEY):
        if await one.client.call("GET", key) != await other.client.call("GET", key):
            raise MoveRefused("The two ledgers do not have the same schema and master key.")
    if abs(await one.client.now_ms() - await other.client.now_ms()) > _CLOCKS_MS_MAX:
        raise MoveRefused("The clocks of the two Redis differ by more than five seconds.")


async def seal(side: LedgerSide) -> None:
    """Seal what was written, so that an older copy of this Redis is refused from now on."""
    await side.sealer.seal(always=True)
    await side.sealer.store_epoch()


async def record_fields(client: LedgerClient, tenant: str) -> dict[bytes, bytes]:
    """Return the fields of the record that move with the tenant."""
    found: Mapping[bytes, bytes] = await client.call("HGETALL", names.tenant_key(tenant))
    return {name: value for name, value in found.items() if name not in _OWN_FIELDS}


@dataclass(frozen=True)
class OpenWork:
    """What the tenant still has to end before it can leave. `seq` is the number of its last entry."""

    frozen: bool
    seq: int
    holds: int
    jobs: int


class Departure:
    """The steps on the ledger that the tenant leaves (depart.lua)."""

    def __init__(self, side: LedgerSide, tenant: str, *, token: str, target: str) -> None:
        self._client = side.client
        self._tenant = tenant
        self._args = {"token": token, "target": target, "moves": True}

    async def take(self) -> OpenWork:
        """From now on the tenant admits no new hold and no new job, and other runs of the move change nothing."""
        return await self._open_work("take", {"taken"})

    async def take_over(self) -> bool:
        """End the right of all other runs. Returns False, and changes nothing, if the tenant is not moving."""
        return bool((await self._run("take", only_moving=True))["outcome"] == "taken")

    async def check(self) -> OpenWork:
        """Raises MoveRefused if another run has taken over."""
        return await self._open_work("wait", {"taken"})

    async def freeze(self) -> OpenWork:
        """Freeze the tenant if it has no open hold and no unfinished job; see `frozen`."""
        return await self._open_work("freeze", {"frozen", "busy"})

    async def reopen(self) -> None:
        """Serve the tenant on this ledger again."""
        await self._run("reopen")

    async def clean(self, keys: Sequence[str]) -> None:
        await self._run("clean", keys=keys)

    async def _open_work(self, action: str, expected: set[str]) -> OpenWork:
        found = await self._run(action)
        if found["outcome"] not in expected:
            raise LedgerUnavailable("The ledger answered a step of the move in an unknown way.")
        return OpenWork(found["frozen"] or found["outcome"] == "frozen", found["seq"], found["holds"], found["jobs"])

    async def _run(self, action: str, **args: Any) -> dict[str, Any]:
        found, _ = await self._client.run(
            "depart", key=names.tenant_key(self._tenant), args={"action": action, **self._args, **args}
        )
        return _accepted(found)


@dataclass(frozen=True)
class Arrived:
    """What the target had at the beginning of a run: the last entry of its journal.

    `returns`: the tenant has left this ledger before, and its journal there is the beginning of the one that arrives.
    """

    last: int
    returns: bool


class Arrival:
    """The steps on the ledger that the tenant moves to (arrive.lua)."""

    def __init__(self, side: LedgerSide, tenant: str, *, token: str, source: str) -> None:
        self._client = side.client
        self._tenant = tenant
        self._args = {"token": token, "source": source, "moves": True}

    async def begin(self) -> Arrived:
        """Make this run the one that writes. Raises MoveRefused if the tenant is in use there."""
        found = await self._run("begin")
        return Arrived(found["last"], found["returns"])

    async def take_over(self) -> Arrived | None:
        """The same, if the tenant is arriving; else None."""
        found = await self._run("begin", only_moving=True)
        return None if found["outcome"] == "absent" else Arrived(found["last"], found["returns"])

    async def clear(self, keys: Sequence[str]) -> None:
        await self._run("clear", keys=keys)

    async def entries(self, batch: Sequence[RawEntry]) -> None:
        """Append entries as they are."""
        rows = [[entry_number(raw), [part for pair in raw[1].items() for part in pair]] for raw in batch]
        await self._run("entries", blob=msgpack.packb(rows, use_bin_type=False))

    async def check(self) -> None:
        """Raises MoveRefused if another run has taken over."""
        await self.entries(())

    async def write(self, rows: bytes) -> None:
        """Write what moved_keys.lua read."""
        await self._run("write", blob=rows)

    async def record(self, fields: Mapping[bytes, bytes]) -> None:
        flat = [part for pair in fields.items() for part in pair]
        await self._run("record", blob=msgpack.packb(flat, use_bin_type=False))

    async def activate(self) -> None:
        """Serve the tenant there. From now on it lives on that ledger alone."""
        await self._run("activate")

    async def withdraw(self) -> None:
        """End the arrival without activating the tenant."""
        await self._run("withdraw")

    async def _run(self, action: str, *, blob: bytes = b"", **args: Any) -> dict[str, Any]:
        found, _ = await self._client.run(
            "arrive", key=names.tenant_key(self._tenant), args={"action": action, **self._args, **args}, blob=blob
        )
        return _accepted(found)


_REFUSALS = {
    "lost": "Another run of the move has taken over.",
    "arriving": "The tenant is not complete on the ledger that it should leave. Finish or abort the earlier move.",
    "other-target": "The tenant is moving to another ledger, or has left for it. Finish or abort that move.",
    "other-source": "The tenant of this name on the target belongs to a move from another ledger.",
    "exists": "The target has a tenant of this name.",
}


def _accepted(found: dict[str, Any]) -> dict[str, Any]:
    if found["outcome"] == "unknown-tenant":
        raise UnknownTenant
    if found["outcome"] in _REFUSALS:
        raise MoveRefused(_REFUSALS[found["outcome"]])
    return found
