"""Addresses and credentials of object stores: of the gateway's own, and of those of bulk releases (BULK_STORES_FILE).

Guarantee: credentials are read once, when the settings are read, and are part of no `repr`, message or dump of a
setting. The processes of a gateway have none of them in their environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import Annotated
from urllib.parse import unquote, urlsplit

from pydantic import Field, PrivateAttr, model_validator

from core.blobs.local import REMOTE_SCHEMES
from core.blobs.store import StoreOptions
from gpu_workers.bulk.stores import StoreAccess
from service.config.providers import StrictSetting, Tenant

STORE_TIMEOUT_S = 60.0  # of one request to the object store and of its retries: as long as REQUEST_TIMEOUT_S by default
STORE_RETRIES_MAX = 3  # of a request that met a server error or lost its connection; whoever waits retries an outage
StoreName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")]

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
    if any(_SECRET.search(name) for name in given):
        return {}
    found = _CLOUD.get(urlsplit(url).scheme, {})
    return {option: os.environ[name] for name, option in found.items() if name in os.environ and option not in given}


def is_inside(url: str, other: str) -> bool:
    """Whether a store is another one, or below it."""

    def place(url: str) -> str:
        address = urlsplit(url)
        path = os.path.realpath(unquote(address.path)) if address.scheme == "file" else address.path
        return f"{address.scheme}://{address.netloc}/{path.strip('/')}".rstrip("/") + "/"

    return place(url).startswith(place(other))


class BulkStoreSettings(StrictSetting):
    """One member of `stores` in BULK_STORES_FILE.

    `options`: of `obstore`, without credentials. `options_env`: the variables that have the others.
    `read`, `write`: whether documents may be read from it, and results be written to it. `tenants`: those who may use
    it; None for all.
    """

    url: str
    options: dict[str, str] = Field(default_factory=dict)
    options_env: dict[str, str] = Field(default_factory=dict)
    plain_http: bool = False
    ca_file: str | None = Field(None, min_length=1)
    read: bool = False
    write: bool = False
    tenants: list[Tenant] | None = Field(None, min_length=1)

    _config: dict[str, str] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _check(self) -> BulkStoreSettings:
        check_store_url(self.url)
        if any(_SECRET.search(name) for name in self.options):
            raise ValueError("options has a credential: name the variable that has it in options_env")
        missing = [name for name in self.options_env.values() if not os.environ.get(name)]
        if missing:
            raise ValueError("options_env names a variable that is not set")
        if not (self.read or self.write):
            raise ValueError("read or write is true")
        if self.ca_file is not None and not Path(self.ca_file).is_file():
            raise ValueError("ca_file cannot be read")
        given = self.options | {option: os.environ[name] for option, name in self.options_env.items()}
        self._config = cloud_options(self.url, given) | given
        access = self.access("")
        if access.folder is not None and not access.folder.is_dir():
            raise ValueError("url names a folder that does not exist")
        try:
            access.open()
        except ValueError:
            raise ValueError("the options cannot be used for this url") from None
        return self

    def access(self, name: str) -> StoreAccess:
        """The store, for a job."""
        options = StoreOptions(
            config=self._config,
            timeout_s=STORE_TIMEOUT_S,
            retries_max=STORE_RETRIES_MAX,
            plain_http=self.plain_http,
            ca_file=None if self.ca_file is None else Path(self.ca_file),
        )
        return StoreAccess(name, self.url, options)


class BulkStoresFile(StrictSetting):
    stores: dict[StoreName, BulkStoreSettings] = Field(max_length=1000)
