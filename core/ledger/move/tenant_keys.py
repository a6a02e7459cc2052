"""The keys of a tenant that move with it: found, copied and compared, in batches of bounded size.

Everything under the tenant's hash tag moves, except the record and the journal, which are moved by steps of their own,
and what stays on its ledger: the API keys, which the main ledger has for all tenants, and the shares of limits of load,
which end by themselves. So a new kind of key cannot be forgotten.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgpack

from core.ledger import names
from core.ledger.client import LedgerClient
from core.ledger.move.sides import Arrival

_SCAN = 1000
_BATCH = 200
_BYTES = 1024 * 1024


def moves(name: str) -> bool:
    """Whether the key `{tenant}:name` is copied."""
    return name not in ("tenant", "journal", "api-keys") and not name.startswith("limit:")


def serves_only(name: str) -> bool:
    """Whether a tenant that has left needs the key no longer: it is no evidence of what was spent.

    The names of its files stay, too: a collection of orphans that read the former home would remove their blobs.
    """
    return moves(name) and name != "accounts" and not name.startswith(("account:", "files:"))


@dataclass(frozen=True)
class Copied:
    """How many keys were written, and the bytes of their values."""

    keys: int = 0
    size: int = 0


async def key_batches(
    client: LedgerClient, tenant: str, wanted: Callable[[str], bool] = moves
) -> AsyncIterator[list[str]]:
    """Yield the wanted keys of a tenant. SCAN may return a key twice."""
    tag = f"{{{names.check_tenant(tenant)}}}:"
    cursor, waiting = 0, list[str]()
    while True:
        found, keys = await client.call("SCAN", cursor, "MATCH", f"{tag}*", "COUNT", _SCAN)
        cursor = int(found)
        waiting += [key for raw in keys if wanted((key := raw.decode()).removeprefix(tag))]
        while len(waiting) >= _BATCH or (not cursor and waiting):
            yield waiting[:_BATCH]
            del waiting[:_BATCH]
        if not cursor:
            return


async def copy_keys(source: LedgerClient, tenant: str, arrival: Arrival) -> Copied:
    """Write every key of the tenant to the target, as it is on the source. The tenant must be frozen there."""
    total = Copied()
    async for batch in key_batches(source, tenant):
        left: Sequence[Any] = [[key, 0] for key in batch]
        while left:
            found, rows = await _read(source, tenant, left)
            left = found["left"] or ()
            await arrival.write(rows)
            total = Copied(total.keys, total.size + found["bytes"])
        total = Copied(total.keys + len(batch), total.size)
    return total


async def differing_keys(source: LedgerClient, target: LedgerClient, tenant: str) -> list[str]:
    """Return keys of the source whose value on the target is another one, at most those of one batch.

    A key that expires meanwhile is left out, and so is a result for reuse (`core.ledger.reuse`): a gateway may still
    store one on the source, and losing it costs nothing.
    """
    async for batch in key_batches(source, tenant):
        left: Sequence[Any] = [[key, 0] for key in batch]
        while left:
            found, raw = await _read(source, tenant, left)
            left = found["left"] or ()
            expected = _values(raw)
            other: dict[tuple[str, int], Any] = {}
            unread: Sequence[Any] = list(map(list, expected))
            while unread:
                also, raw = await _read(target, tenant, [[key, offset] for key, offset in unread])
                other |= _values(raw)
                unread = [one for one in also["left"] or () if tuple(one) in expected and tuple(one) not in other]
            suspects = [place for place, value in expected.items() if other.get(place) != value]
            if suspects:
                _, raw = await _read(source, tenant, [list(place) for place in suspects])
                still = _values(raw)  # without what has expired
                differ = [key for key, offset in suspects if (key, offset) in still]
                differ = [key for key in differ if not key.split("}:", 1)[1].startswith("reuse:")]
                if differ:
                    return differ
    return []


async def _read(client: LedgerClient, tenant: str, keys: Sequence[Any]) -> tuple[dict[str, Any], bytes]:
    args = {"keys": keys, "bytes_max": _BYTES, "moves": True}
    return await client.run("moved_keys", key=names.tenant_key(tenant), args=args)


def _values(raw: bytes) -> dict[tuple[str, int], Any]:
    """Return the values by key and offset, in a form that does not depend on the order in a hash or a set."""
    found = {}
    for key, kind, ttl, value, offset in msgpack.unpackb(raw, raw=True):
        if kind == b"hash":
            value = dict(zip(value[::2], value[1::2], strict=True))
        elif kind == b"set":
            value = set(value)
        found[key.decode(), offset] = kind, ttl >= 0, value
    return found
