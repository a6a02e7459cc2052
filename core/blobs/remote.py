"""A blob store of an object store: S3 and compatible servers, Google Cloud Storage or Azure.

Guarantee: as `core.blobs.store` states, where the object store keeps its own: writes are durable when acknowledged, and
conditional writes (`If-None-Match: *`) are honoured. `check` finds a server that ignores the condition.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import obstore
from obstore import exceptions, store

from core.blobs.store import CHUNK_BYTES, WHOLE_BYTES_MAX, BlobStore, StoreOptions, check_key
from core.errors import BlobExists, BlobMissing, StoreUnavailable

_PARTS_AT_ONCE = 4
_LIST_BATCH = 1000
_DELETE_BATCH = 1000
_REASONS = {
    exceptions.PermissionDeniedError: "permission-denied",
    exceptions.UnauthenticatedError: "unauthenticated",
    exceptions.NotSupportedError: "not-supported",
}
_REFUSED = re.compile(r"status code: 40[13] ")  # a refused listing is an error of no kind of its own


def objects_of_url(url: str, options: StoreOptions) -> Any:
    """The `obstore` store of an address. Opens no connection.

    Raises ValueError, without the address, for an address or options that cannot be used.
    """
    client: dict[str, Any] = {
        "timeout": timedelta(seconds=options.timeout_s),
        "connect_timeout": timedelta(seconds=options.connect_timeout_s),
        "allow_http": options.plain_http,
    }
    if options.ca_file is not None:
        client["root_certificate"] = options.ca_file.read_bytes()
    retries = {
        "max_retries": options.retries_max,
        "retry_timeout": timedelta(seconds=options.timeout_s),
        "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=2), "base": 2},
    }
    try:
        return store.from_url(url, config=dict(options.config), client_options=client, retry_config=retries)  # type: ignore[call-overload]
    except (exceptions.BaseError, ValueError):
        raise ValueError("the address or the options of the blob store cannot be used") from None


class RemoteBlobs(BlobStore):
    """Blobs of an `obstore` store."""

    def __init__(self, objects: Any) -> None:
        self._objects = objects

    @classmethod
    def of_url(cls, url: str, options: StoreOptions) -> RemoteBlobs:
        """Raises ValueError as `objects_of_url`."""
        return cls(objects_of_url(url, options))

    async def put(self, key: str, data: bytes, *, create_only: bool = False) -> None:
        await self._put(check_key(key), data, create_only)

    async def put_file(self, key: str, path: Path, *, create_only: bool = False) -> None:
        if create_only and (await asyncio.to_thread(path.stat)).st_size > WHOLE_BYTES_MAX:
            raise ValueError("too many bytes for `create_only`")
        await self._put(check_key(key), path, create_only)

    async def _put(self, key: str, body: bytes | Path, create_only: bool) -> None:
        with failures():
            await obstore.put_async(
                self._objects,
                key,
                body,
                mode="create" if create_only else "overwrite",
                chunk_size=WHOLE_BYTES_MAX,
                max_concurrency=_PARTS_AT_ONCE,
            )

    async def get(self, key: str) -> bytes:
        return b"".join([chunk async for chunk in self.read(key)])

    async def read(self, key: str) -> AsyncIterator[bytes]:
        check_key(key)
        with failures():
            head = await obstore.head_async(self._objects, key)
        size = head["size"]
        for first in range(0, size, CHUNK_BYTES):  # a timeout limits one chunk, not the whole blob
            with failures():
                options: Any = {"range": (first, min(size, first + CHUNK_BYTES)), "if_match": head["e_tag"]}
                result = await obstore.get_async(self._objects, key, options=options)
                chunk = bytes(await result.bytes_async())
            yield chunk

    async def stored_at(self, key: str) -> float:
        check_key(key)
        with failures():
            return (await obstore.head_async(self._objects, key))["last_modified"].timestamp()

    async def list(self, prefix: str, *, after: str | None = None) -> AsyncIterator[tuple[str, int]]:
        if prefix:
            check_key(prefix)
        with failures():
            stream = obstore.list(self._objects, prefix or None, offset=after, chunk_size=_LIST_BATCH)
        batches = aiter(stream)
        while True:
            with failures():
                batch = await anext(batches, None)
            if batch is None:
                return
            for each in batch:
                yield each["path"], int(each["size"])

    async def delete(self, keys: Iterable[str]) -> None:
        named = [check_key(key) for key in keys]
        for first in range(0, len(named), _DELETE_BATCH):
            batch = named[first : first + _DELETE_BATCH]
            try:
                with failures():
                    await obstore.delete_async(self._objects, batch)
            except BlobMissing:  # some stores refuse a missing one, and may have left the others
                for key in batch:
                    try:
                        with failures():
                            await obstore.delete_async(self._objects, key)
                    except BlobMissing:
                        continue


@contextmanager
def failures() -> Iterator[None]:
    """Raises the errors of the interface for those of `obstore`, which contain addresses, keys and answers."""
    try:
        yield
    except FileNotFoundError:
        raise BlobMissing from None
    except exceptions.AlreadyExistsError:
        raise BlobExists from None
    except exceptions.PreconditionError:
        raise StoreUnavailable(reason="changed-meanwhile") from None
    except exceptions.BaseError as error:
        other = "permission-denied" if _REFUSED.search(str(error)) else "unreachable"
        raise StoreUnavailable(reason=_REASONS.get(type(error), other)) from None
    except (OSError, TimeoutError):
        raise StoreUnavailable(reason="unreachable") from None
