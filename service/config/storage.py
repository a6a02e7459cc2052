"""The settings of the blob store: where it is, how it is reached, and the local copies of what it holds."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, SecretStr, field_validator

from core.blobs.local import REMOTE_SCHEMES, open_store
from core.blobs.store import BlobStore, StoreOptions

MIB = 1024 * 1024
STORE = "store"  # the default folder, in the data directory


class StorageSettings(BaseModel):
    """The blob store and the cache of its contents."""

    store_url: str = ""
    store_options: dict[str, SecretStr] = Field(default_factory=dict)
    store_plain_http: bool = False
    store_ca_file: Path | None = None
    store_timeout_s: float = Field(60.0, gt=0, le=3600)
    store_retries_max: int = Field(3, ge=0, le=100)
    store_cache_bytes_max: int = Field(4096 * MIB, ge=0)

    @field_validator("store_url")
    @classmethod
    def _check_store_url(cls, value: str) -> str:
        if not value:
            return value
        address = urlsplit(value)
        whole = address.path.startswith("/") if address.scheme == "file" else bool(address.netloc)
        if address.scheme not in ("file", *REMOTE_SCHEMES) or not whole or "@" in address.netloc:
            raise ValueError(
                "STORE_URL is file:///folder, s3://bucket/prefix, gs://... or az://..., without credentials"
            )
        return value


def opened_store(settings: StorageSettings, data_dir: Path) -> BlobStore:
    """The store of these settings, by default a folder of the data directory. Opens no connection.

    Raises ValueError for options that cannot be used, without showing them.
    """
    if not settings.store_url:
        return open_store(data_dir / STORE)
    options = StoreOptions(
        config={name: value.get_secret_value() for name, value in settings.store_options.items()},
        timeout_s=settings.store_timeout_s,
        retries_max=settings.store_retries_max,
        plain_http=settings.store_plain_http,
        ca_file=settings.store_ca_file,
    )
    return open_store(settings.store_url, options)
