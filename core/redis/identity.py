"""What makes a Redis the store of one ledger: its schema, and the blob store that belongs to it.

Guarantee: a gateway or a command uses only a ledger of its own schema, which is the form of its keys and records. The
first check of an empty ledger writes the number, and every check and new connection compares it.

Names of packs, models, artifacts and files of jobs are in the ledger, and their bytes in the blob store. Guarantee: a
gateway serves only with the store whose random id is in the ledger, so a name never refers to a blob that only another
gateway has. The first gateway of a ledger decides, or the operator by `accept_store`. A gateway also serves only with a
store that has the id of its ledger, or none yet, so no ledger removes as orphans what another one has stored. Nothing
replaces that id. A ledger that was copied, or restored from its archive, has the id that it had.
"""

import re
import secrets
from contextlib import suppress

from core.blobs.store import BlobStore
from core.errors import BlobExists, BlobMissing, LedgerUnavailable, StoreUnavailable
from core.redis import names
from core.redis.client import Call, LedgerClient

SCHEMA = b"1"
ID_KEY = "identity/store"
OWNER_KEY = "identity/ledger"
_ID = re.compile(rb"[0-9a-f]{32}")


async def check_schema(call: Call) -> None:
    """Refuse a ledger of another schema. One without a number is new. Raises LedgerUnavailable."""
    found = await call("GET", names.VERSION_KEY)
    if found not in (None, SCHEMA):
        raise LedgerUnavailable(
            f"The ledger has the schema {found.decode('ascii', 'replace')[:20]}, and this version of the gateway needs "
            f"{SCHEMA.decode()}; see docs/operating/upgrades.md."
        )


async def check_store(client: LedgerClient, store: BlobStore, *, alone: bool) -> None:
    """Refuse a store that is not the ledger's, or that belongs to another ledger. A new ledger takes a new store.

    Call it on a ledger whose seals were checked, which has an id since then. `alone`: no other gateway can use the
    ledger, so another store was chosen on purpose, and is accepted unless another ledger owns it. Raises
    LedgerUnavailable, StoreUnavailable.
    """
    # The ledger is read first: an id is in a store before it is in a ledger.
    known: bytes | None = await client.call("GET", names.STORE_ID_KEY)
    ledger = await _ledger_id(client)
    await _check_owner(store, ledger)
    if alone:
        if known is None or await _id(store, ID_KEY) != known:
            await accept_store(client, store)
        else:
            await _own(store, ledger)
        return
    found = await _id(store, ID_KEY)
    if known is None:
        await _own(store, ledger)
        own = found or await _new_id(store)
        await client.call("SET", names.STORE_ID_KEY, own, "NX")
        found, known = own, await client.call("GET", names.STORE_ID_KEY)
    if found != known:
        raise LedgerUnavailable(
            "This gateway has another blob store than the ledger. Set PRIVACY_GATEWAY_STORE_URL to one store for all "
            "gateways on this Redis; see docs/operating/blob-store.md."
        )
    await _own(store, ledger)


async def accept_store(client: LedgerClient, store: BlobStore) -> None:
    """Make this store that of the ledger. Raises StoreUnavailable, and LedgerUnavailable if another ledger owns it."""
    await _own(store, await _ledger_id(client))
    await client.call("SET", names.STORE_ID_KEY, await _id(store, ID_KEY) or await _new_id(store))


async def refuse_store_of_another_ledger(client: LedgerClient, store: BlobStore) -> None:
    """As `check_store`, of the id of the ledger alone. Writes nothing."""
    await _check_owner(store, await _ledger_id(client))


async def _ledger_id(client: LedgerClient) -> bytes:
    found: bytes | None = await client.call("GET", names.LEDGER_ID_KEY)
    if found is None:
        raise LedgerUnavailable("The ledger has no id. It gets one when a gateway or a command checks its seals.")
    return found


async def _check_owner(store: BlobStore, ledger: bytes) -> bool:
    """Return whether the store has the ledger's id. Raises LedgerUnavailable if it has that of another one."""
    owner = await _id(store, OWNER_KEY)
    if owner not in (None, ledger):
        raise LedgerUnavailable(
            "The blob store of this gateway belongs to another ledger. Set PRIVACY_GATEWAY_STORE_URL to a prefix that "
            "no other ledger uses: each would remove the files of the other. See docs/operating/blob-store.md."
        )
    return owner is not None


async def _own(store: BlobStore, ledger: bytes) -> None:
    """Write the ledger's id to a store that has none. Of several ledgers one succeeds. Raises LedgerUnavailable."""
    if not await _check_owner(store, ledger):
        with suppress(BlobExists):
            await store.put(OWNER_KEY, ledger, create_only=True)
        await _check_owner(store, ledger)


async def _id(store: BlobStore, key: str) -> bytes | None:
    """Raises StoreUnavailable also for an id that cannot be read."""
    try:
        found = await store.get(key)
    except BlobMissing:
        return None
    if not _ID.fullmatch(found):
        raise StoreUnavailable(reason="identity")
    return found


async def _new_id(store: BlobStore) -> bytes:
    """The id of a store that had none. Of several gateways that give it one, one succeeds."""
    with suppress(BlobExists):
        await store.put(ID_KEY, secrets.token_hex(16).encode(), create_only=True)
    return await _id(store, ID_KEY) or b""
