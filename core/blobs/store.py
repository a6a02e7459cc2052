"""The interface of blob stores: named byte sequences that every gateway finds.

Guarantee of every implementation: a blob is visible whole or not at all. When `put` returns, its bytes survive a crash
of the machine or of the store's server. With `create_only` exactly one of several writers of a key succeeds, and
nothing is replaced. Keys are listed in the order of their characters. No key may name a folder of another key: `a` and
`a/b` exclude each other.

A store gives no secrecy: callers encrypt what is private before they store it. It also does not detect changed bytes.

Every method raises StoreUnavailable if the store cannot be used, after the timeouts and retries of its options.
`put` and `put_file` raise StorageFull if a local disk is full.
"""

import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from core.errors import BlobExists, StoreUnavailable


@dataclass(frozen=True)
class StoreOptions:
    """Of an object store; a local folder needs none.

    config: options of `obstore` for this kind of store, such as `endpoint`, `region` and credentials. Those that are
    missing come from the environment of the cloud, such as AWS_ACCESS_KEY_ID or the role of the machine.
    timeout_s: of one request, and of all retries of one. plain_http: whether HTTP without TLS is allowed.
    """

    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = 60.0
    connect_timeout_s: float = 5.0
    retries_max: int = 3
    plain_http: bool = False
    ca_file: Path | None = None


KEY_CHARS_MAX = 512
# Of a file that is sent in one request. Larger ones are streamed in parts, and object stores create only whole ones.
WHOLE_BYTES_MAX = 8 * 1024 * 1024
CHUNK_BYTES = 4 * 1024 * 1024
PROBES = "probes"
_SEGMENT = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


def check_key(key: str) -> str:
    """The key. Raises ValueError unless it is segments of letters, digits, `.`, `_` and `-`, separated by `/`.

    No segment begins with a point, so that no key leaves a local folder or names a draft.
    """
    if len(key) > KEY_CHARS_MAX or not all(_SEGMENT.fullmatch(segment) for segment in key.split("/")):
        raise ValueError("not a key of a blob")
    return key


class BlobStore(ABC):
    """One store. Instances may be used by several tasks at once."""

    @abstractmethod
    async def put(self, key: str, data: bytes, *, create_only: bool = False) -> None:
        """Store the bytes, and replace what was there unless `create_only`. Raises BlobExists, StorageFull.

        With `create_only`, BlobExists may also mean that this call has stored the blob and that the store's answer was
        lost: compare the bytes where it matters.
        """

    @abstractmethod
    async def put_file(self, key: str, path: Path, *, create_only: bool = False) -> None:
        """As `put`, from a file. A local store may link the file: it must not be changed in place afterwards.

        Raises ValueError for more than WHOLE_BYTES_MAX with `create_only`.
        """

    @abstractmethod
    async def get(self, key: str) -> bytes:
        """The whole blob. Raises BlobMissing."""

    @abstractmethod
    def read(self, key: str) -> AsyncIterator[bytes]:
        """Yield the bytes in chunks of at most CHUNK_BYTES.

        The chunks are of one version of the blob, or the call fails: BlobMissing, StoreUnavailable.
        """

    @abstractmethod
    async def stored_at(self, key: str) -> float:
        """When the blob was stored, in seconds on the store's own clock. Compare it with that of another blob alone.

        Raises BlobMissing.
        """

    async def now(self) -> float:
        """The time on the clock of `stored_at`. Stores a probe and deletes it."""
        key = f"{PROBES}/{secrets.token_hex(16)}"
        await self.put(key, b"now")
        try:
            return await self.stored_at(key)
        finally:
            await self.delete([key])

    @abstractmethod
    def list(self, prefix: str, *, after: str | None = None) -> AsyncIterator[tuple[str, int]]:
        """Yield key and size of every blob in the folder `prefix` (whole segments) and below it, in order of the keys.

        `after`: only keys that come after this one.
        """

    @abstractmethod
    async def delete(self, keys: Iterable[str]) -> None:
        """Delete blobs; those that do not exist are no error."""

    async def check(self) -> None:
        """Write, create, read and delete a probe. Raises StoreUnavailable if the store does not keep its guarantees."""
        key, data = f"{PROBES}/{secrets.token_hex(16)}", secrets.token_bytes(32)
        await self.put(key, data, create_only=True)
        try:
            with suppress(BlobExists):
                await self.put(key, b"replaced", create_only=True)
            if await self.get(key) != data:
                raise StoreUnavailable(reason="not-create-only")
        finally:
            await self.delete([key])
