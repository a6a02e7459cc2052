"""The settings of the blob store: those of a gateway, and of whatever else reads its blobs."""

import os
import re
from collections.abc import Collection
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, PrivateAttr, SecretStr, field_validator, model_validator

from core.blobs.local import REMOTE_SCHEMES, open_store
from core.blobs.store import BlobStore, StoreOptions

MIB = 1024 * 1024
STORE = "store"  # the default folder of the blob store, in the data directory
STORE_TIMEOUT_S = 60.0  # of one request to the object store and of its retries: as long as REQUEST_TIMEOUT_S by default
STORE_RETRIES_MAX = 3  # of a request that met a server error or lost its connection; whoever waits retries an outage


_SECRET = re.compile("access_key|account_key|service_account|secret|token|password|sas")
# How the clouds give a process its identity: options of `obstore` by the variable that has them.
_CLOUD = {
    "s3": {
        f"AWS_{name.upper()}": name
        for name in (
            "region", "default_region", "access_key_id", "secret_access_key", "session_token", "role_arn",
            "role_session_name", "web_identity_token_file", "container_credentials_relative_uri",
            "container_credentials_full_uri", "container_authorization_token_file",
        )
    } | {"AWS_ENDPOINT_URL": "endpoint"},
    "gs": {
        f"GOOGLE_{name.upper()}": name for name in ("application_credentials", "service_account", "service_account_key")
    },
    "az": {
        f"AZURE_{name.upper()}": name
        for name in ("client_id", "tenant_id", "client_secret", "federated_token_file", "authority_host")
    } | {"AZURE_STORAGE_ACCOUNT_NAME": "account_name", "AZURE_STORAGE_ACCOUNT_KEY": "account_key"},
}  # fmt: skip


def is_credential(option: str) -> bool:
    """Whether an option of a store is a secret or a part of an identity."""
    return _SECRET.search(option) is not None


def check_store_url(value: str) -> str:
    """The address of a store. Raises ValueError without it."""
    address = urlsplit(value)
    whole = address.path.startswith("/") if address.scheme == "file" else bool(address.netloc)
    if address.scheme not in ("file", *REMOTE_SCHEMES) or not whole or "@" in address.netloc:
        raise ValueError(
            "the URL of a store is file:///folder, s3://bucket/prefix, gs://... or az://..., without credentials"
        )
    return value


def cloud_options(url: str, given: Collection[str]) -> dict[str, str]:
    """The options of a store that the environment of the cloud has, besides those `given`. None if a credential is
    given: half of one identity and half of another is none."""
    if any(map(is_credential, given)):
        return {}
    found = _CLOUD.get(urlsplit(url).scheme, {})
    return {option: os.environ[name] for name, option in found.items() if name in os.environ and option not in given}


class StorageSettings(BaseModel):
    """The blob store and the cache of its contents."""

    store_url: str = ""
    store_options: dict[str, SecretStr] = Field(default_factory=dict)
    store_plain_http: bool = False
    store_ca_file: Path | None = None
    store_cache_bytes_max: int = Field(4096 * MIB, ge=0)

    _cloud: dict[str, str] = PrivateAttr(default_factory=dict)

    @field_validator("store_url")
    @classmethod
    def _check_store_url(cls, value: str) -> str:
        return check_store_url(value) if value else value

    @model_validator(mode="after")
    def _read_cloud(self) -> "StorageSettings":
        self._cloud = cloud_options(self.store_url, self.store_options)
        return self


def opened_store(settings: StorageSettings, data_dir: Path) -> BlobStore:
    """The store of these settings, by default a folder of the data directory. Opens no connection.

    Raises ValueError for options that cannot be used, without showing them.
    """
    if not settings.store_url:
        return open_store(data_dir / STORE)
    options = StoreOptions(
        config=settings._cloud | {name: value.get_secret_value() for name, value in settings.store_options.items()},
        timeout_s=STORE_TIMEOUT_S,
        retries_max=STORE_RETRIES_MAX,
        plain_http=settings.store_plain_http,
        ca_file=settings.store_ca_file,
    )
    return open_store(settings.store_url, options)
