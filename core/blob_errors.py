"""The errors of the blob store, a part of the tree in `core.errors`.

BlobError
├── BlobExists          a blob of that key exists; the call changed nothing
├── BlobMissing         there is no blob of that key
├── BlobCorrupt         a blob's bytes are not those that were stored; they are never used
└── StoreUnavailable    the store cannot be reached, or refused the call; carries `reason`

No error carries a key, an address, a credential or an answer of the store.
"""

from __future__ import annotations

from core.errors import GatewayError


class BlobError(GatewayError):
    code = "blob-error"
    title = "The blob store failed."


class BlobExists(BlobError):
    code = "blob-exists"
    title = "The blob exists already."


class BlobMissing(BlobError):
    code = "blob-missing"
    title = "A file that the call needs is missing in the blob store; nothing was charged for it."


class BlobCorrupt(BlobError):
    code = "blob-corrupt"
    title = "A file in the blob store is not the one that was stored there; it was not used."


class StoreUnavailable(BlobError):
    code = "store-unavailable"
    title = "The blob store cannot be used."

    def __init__(self, *, reason: str = "unreachable") -> None:
        """`reason` is a fixed word, never a part of an answer."""
        super().__init__()
        self.reason = reason
