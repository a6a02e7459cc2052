"""Which blob store belongs to a ledger.

Names of packs, models, artifacts and files of jobs are in the ledger, and their bytes in the blob store. Guarantee: a
gateway serves only with the store whose random id is in the ledger, so a name never refers to a blob that only another
gateway has. The first gateway of a ledger decides, or the operator by `accept`.
"""

from __future__ import annotations

import re
import secrets
from contextlib import suppress

from core.blob_errors import BlobExists, BlobMissing, StoreUnavailable
from core.blobs.store import BlobStore
from core.errors import LedgerUnavailable
from core.ledger import names
from core.ledger.client import LedgerClient

ID_KEY = "identity/store"
_ID = re.compile(rb"[0-9a-f]{32}")


async def check_store(client: LedgerClient, store: BlobStore, *, alone: bool) -> None:
    """Refuse a store that is not the ledger's. A new ledger takes it.

    `alone`: no other gateway can use the ledger, so another store was chosen on purpose, and is accepted. Raises
    LedgerUnavailable, StoreUnavailable.
    """
    # The ledger is read first: an id is in a store before it is in a ledger.
    known: bytes | None = await client.call("GET", names.STORE_ID_KEY)
    if alone:
        if known is None or await _id(store) != known:
            await accept_store(client, store)
        return
    found = await _id(store)
    if known is None:
        own = found or await _new_id(store)
        await client.call("SET", names.STORE_ID_KEY, own, "NX")
        found, known = own, await client.call("GET", names.STORE_ID_KEY)
    if found != known:
        raise LedgerUnavailable(
            "This gateway has another blob store than the ledger. Set PRIVACY_GATEWAY_STORE_URL to one store for all "
            "gateways on this Redis; see docs/operating/blob-store.md."
        )


async def accept_store(client: LedgerClient, store: BlobStore) -> None:
    """Make this store that of the ledger. Raises LedgerUnavailable, StoreUnavailable."""
    await client.call("SET", names.STORE_ID_KEY, await _id(store) or await _new_id(store))


async def _id(store: BlobStore) -> bytes | None:
    """Raises StoreUnavailable also for an id that cannot be read."""
    try:
        found = await store.get(ID_KEY)
    except BlobMissing:
        return None
    if not _ID.fullmatch(found):
        raise StoreUnavailable(reason="identity")
    return found


async def _new_id(store: BlobStore) -> bytes:
    """The id of a store that had none. Of several gateways that give it one, one succeeds."""
    with suppress(BlobExists):
        await store.put(ID_KEY, secrets.token_hex(16).encode(), create_only=True)
    return await _id(store) or b""
