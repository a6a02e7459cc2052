"""Addresses and credentials of object stores: of the gateway's own, and of those of bulk releases (BULK_STORES_FILE).

Guarantee: credentials are read once, when the settings are read, and are part of no `repr`, message or dump of a
setting. The processes of a gateway have none of them in their environment.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated
from urllib.parse import unquote, urlsplit

from pydantic import Field, PrivateAttr, model_validator

from core.blobs.options import STORE_RETRIES_MAX, STORE_TIMEOUT_S, check_store_url, cloud_options, is_credential
from core.blobs.store import StoreOptions
from gpu_workers.bulk.stores import StoreAccess
from service.config.providers import StrictSetting, Tenant

StoreName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")]


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
        if any(is_credential(name) for name in self.options):
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
