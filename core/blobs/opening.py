"""From the address of a blob store to the store. The library of object stores is imported only if one is named."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from core.blobs.local import LocalBlobs
from core.blobs.store import BlobStore, StoreOptions

REMOTE_SCHEMES = ("s3", "gs", "az")


def open_store(url: str | Path, options: StoreOptions | None = None) -> BlobStore:
    """The store at a folder or `file://`, `s3://bucket/prefix`, `gs://`, `az://`; `memory://` is of this object alone.

    Opens no connection. Raises ValueError, without the address, for one that cannot be used.
    """
    if isinstance(url, Path):
        return LocalBlobs(url)
    address = urlsplit(url)
    if address.scheme == "file" and not address.netloc and address.path:
        return LocalBlobs(Path(unquote(address.path)))
    if url == "memory://" or (address.scheme in REMOTE_SCHEMES and address.netloc):
        from core.blobs.remote import RemoteBlobs

        return RemoteBlobs.of_url(url, options or StoreOptions())
    raise ValueError("the address of a blob store is a folder, file:///..., s3://..., gs://... or az://...")
