"""The settings of several ledgers: the Redis of each ledger beside the main one."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import parse_qs, urlsplit

from pydantic import BaseModel, Field, SecretStr, field_validator, model_validator

LEDGER_NAME = r"^[a-z0-9][a-z0-9-]{0,31}$"
_Urls = dict[Annotated[str, Field(pattern=LEDGER_NAME)], SecretStr]


def checked_url(value: str, setting: str) -> str:
    """The URL of a Redis. Raises ValueError for one that cannot be used, without showing any of it."""
    try:
        address = urlsplit(value)
        readable = address.port is None or address.port > 0
    except ValueError:  # the error's message would contain a part of the password
        readable = False
    if not readable:
        raise ValueError(f"{setting} cannot be read; percent-encode /, #, ?, [ and ] in the password")
    if not address.scheme:
        raise ValueError(f"{setting} is redis://..., rediss://... or unix://...")
    if "@" in address.netloc and not (address.password or parse_qs(address.query).get("password")):
        raise ValueError(f"{setting} names a user and no password, or an empty one")
    return value


class LedgersSettings(BaseModel):
    """By default there is the main ledger alone, at REDIS_URL."""

    ledgers: _Urls = Field(default_factory=dict)
    ledgers_archive_redis_urls: _Urls = Field(default_factory=dict)

    @field_validator("ledgers", "ledgers_archive_redis_urls")
    @classmethod
    def _check_ledgers(cls, value: dict[str, SecretStr]) -> dict[str, SecretStr]:
        if "main" in value:
            raise ValueError("`main` is the ledger at REDIS_URL")
        for name, url in value.items():
            if not checked_url(url.get_secret_value(), name).startswith(("redis://", "rediss://", "unix://")):
                raise ValueError(f"{name} is redis://..., rediss://... or unix://...")
        return value

    @model_validator(mode="after")
    def _check_archive_urls(self) -> LedgersSettings:
        if not self.ledgers_archive_redis_urls.keys() <= self.ledgers.keys():
            raise ValueError("LEDGERS_ARCHIVE_REDIS_URLS names a ledger that LEDGERS lacks")
        return self
