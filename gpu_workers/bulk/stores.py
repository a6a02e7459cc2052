"""The stores of bulk releases: the operator's, which hold the documents of a job and receive its results.

Guarantee: an object is read in one version. A later read that finds another version of it raises JobFailed. In a local
folder, no link leads outside the folder. Errors have a fixed reason, and contain no address, no key and no credential.

Every function raises JobFailed with one of these reasons: `source-missing`, `source-changed`, `store-refused`,
`store-unavailable`, `store-full`, `store-not-create-only`, `outside-the-store`.
"""

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from core.blobs.local import open_store
from core.blobs.store import BlobStore, StoreOptions
from core.errors import BlobMissing, JobFailed, StorageFull, StoreUnavailable

OBJECTS_MAX = 10_000  # of one source: the plan of a job names each of them
_FIRST_BYTES, _CHUNK_BYTES = 64 * 1024, 8 * 1024 * 1024  # of one request, whose timeout limits it
_REASONS = {
    "permission-denied": "store-refused",
    "unauthenticated": "store-refused",
    "changed-meanwhile": "source-changed",
    "not-create-only": "store-not-create-only",
}
_SAID = {
    "source-missing": "The store has no object of this name. Check the keys or the prefix of the source.",
    "source-changed": "An object of the source has changed since the job began. Keep the source as it is while a job "
    "reads it, and start the job again.",
    "store-refused": "The store refuses the gateway's credentials. Ask the operator to permit reading the source and "
    "writing the target.",
    "store-unavailable": "The store does not answer. Start the job again later.",
    "store-full": "The disk of the store is full.",
    "store-not-create-only": "The store replaces objects that a writer asked to create. It cannot hold results.",
    "outside-the-store": "A link leads outside the folder of the store.",
}


def store_failed(reason: str) -> JobFailed:
    """The error of a store with a fixed reason."""
    return JobFailed(_SAID[reason], reason=reason)


@contextmanager
def job_failures() -> Iterator[None]:
    """Raises JobFailed for the errors of `core.blobs`."""
    try:
        yield
    except BlobMissing:
        raise store_failed("source-missing") from None
    except StorageFull:
        raise store_failed("store-full") from None
    except StoreUnavailable as error:
        raise store_failed(_REASONS.get(error.reason, "store-unavailable")) from None


@dataclass(frozen=True)
class StoreAccess:
    """How a job reaches a store. `name`: the operator's. `url`: `file:///folder`, `s3://bucket/prefix`, `gs://` or
    `az://`; keys are below its prefix."""

    name: str
    url: str = field(repr=False)
    options: StoreOptions = field(default_factory=StoreOptions)

    @property
    def folder(self) -> Path | None:
        """The folder of a local store, else None."""
        address = urlsplit(self.url)
        return Path(unquote(address.path)) if address.scheme == "file" else None

    def blobs(self) -> BlobStore:
        """The store for writing. Raises ValueError for options that cannot be used."""
        return open_store(self.url, self.options)

    def open(self) -> Any:
        """The store of `obstore` for reading. Raises ValueError for options that cannot be used."""
        from obstore.store import LocalStore

        from core.blobs.remote import failures, objects_of_url

        if self.folder is None:
            return objects_of_url(self.url, self.options)
        with job_failures(), failures():
            return LocalStore(self.folder)

    def check_inside(self, key: str) -> None:
        """Raises JobFailed if links lead from a key of a local store to a path outside its folder."""
        if self.folder is not None:
            inside = Path(os.path.realpath(self.folder / key))
            if not inside.is_relative_to(os.path.realpath(self.folder)):
                raise store_failed("outside-the-store")


@dataclass(frozen=True)
class StoredObject:
    """One version of an object: `e_tag`, or if the store gives none, the time `modified` in ISO format."""

    key: str = field(repr=False)
    size: int
    e_tag: str | None
    modified: str


def find_objects(access: StoreAccess, *, keys: Sequence[str] | None = None, prefix: str = "") -> list[StoredObject]:
    """The objects of `keys` in their order, or those in the folder `prefix` in the order of their keys.

    A folder is listed without empty objects and without names that begin with `_` or `.`, which mark the end of a
    writing or hold what is not data. Raises JobFailed if there is no object, or more than OBJECTS_MAX.
    """
    import obstore

    from core.blobs.remote import failures

    store = access.open()
    found: list[Any] = []
    with job_failures(), failures():
        if keys is None and access.folder is not None:
            keys = _local_keys(access.folder, prefix)
        if keys is not None:
            for key in keys:
                access.check_inside(key)
                found.append(obstore.head(store, key))
        else:
            for batch in obstore.list(store, prefix or None):
                found += (each for each in batch if each["size"] and not _is_hidden(each["path"], prefix))
                _check_count(found)
            found.sort(key=lambda each: each["path"])
    _check_count(found)
    if not found:
        raise store_failed("source-missing")
    return [
        StoredObject(each["path"], each["size"], _quoted(each["e_tag"]), each["last_modified"].isoformat())
        for each in found
    ]


def _local_keys(folder: Path, prefix: str) -> list[str]:
    """Keys of the files below a folder, without links to folders, in their order. Empty and hidden files are left out.

    `obstore` would follow a link out of the folder and list everything there.
    """
    keys: list[str] = []
    for path, _, names in os.walk(folder / prefix):
        for file in (Path(path) / name for name in names):
            key = str(file.relative_to(folder))
            if not _is_hidden(key, prefix) and file.is_file() and file.stat().st_size:
                keys.append(key)
        _check_count(keys)
    return sorted(keys)


def _quoted(e_tag: str | None) -> str | None:
    """Azure lists them without quotes, and a condition has them with quotes."""
    return e_tag if e_tag is None or e_tag.startswith("W/") else f'"{e_tag.strip(chr(34))}"'


def _check_count(found: Sequence[Any]) -> None:
    if len(found) > OBJECTS_MAX:
        said = f"A source has at most {OBJECTS_MAX} objects. Name fewer, or join them."
        raise JobFailed(said, reason="too-many-objects", count=OBJECTS_MAX)


def _is_hidden(key: str, prefix: str) -> bool:
    return any(segment.startswith(("_", ".")) for segment in key.removeprefix(prefix).split("/"))


class StoredBytes:
    """The bytes of one version of an object."""

    def __init__(self, access: StoreAccess, store: Any, stored: StoredObject) -> None:
        """`store`: of `access.open()`, whose connections its objects share."""
        self._access = access
        self._store = store
        self._stored = stored
        self.size = stored.size

    def read(self, first: int, end: int) -> bytes:
        """The bytes from `first` to before `end`. Raises JobFailed, also for another version of the object."""
        import obstore

        from core.blobs.remote import failures

        end = min(end, self.size)
        if first >= end:
            return b""
        options: dict[str, Any] = {"range": (first, end)}
        if self._stored.e_tag is not None:
            options["if_match"] = self._stored.e_tag
        else:
            options["if_unmodified_since"] = datetime.fromisoformat(self._stored.modified)
        self._access.check_inside(self._stored.key)
        with job_failures(), failures():
            result = obstore.get(self._store, self._stored.key, options=options)  # type: ignore[arg-type]
            if (_quoted(result.meta["e_tag"]), result.meta["size"]) != (self._stored.e_tag, self.size):
                raise store_failed("source-changed")
            return bytes(result.bytes())

    def chunks(self, first: int = 0) -> Iterator[bytes]:
        """The bytes from `first` on. Raises JobFailed as `read`."""
        step = _FIRST_BYTES
        while first < self.size:
            yield self.read(first, first + step)
            first += step
            step = min(2 * step, _CHUNK_BYTES)

    def file(self) -> io.RawIOBase:
        return _StoredFile(self)


class _StoredFile(io.RawIOBase):
    """A file of which each read is one request."""

    def __init__(self, stored: StoredBytes) -> None:
        self._stored = stored
        self._place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._stored.size}[whence]
        self._place = start + offset
        return self._place

    def readinto(self, buffer: Any) -> int:
        data = self._stored.read(self._place, self._place + len(buffer))
        buffer[: len(data)] = data
        self._place += len(data)
        return len(data)
