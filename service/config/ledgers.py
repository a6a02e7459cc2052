"""The settings of several ledgers: the Redis of each ledger beside the main one."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field, SecretStr, field_validator

LEDGER_NAME = r"^[a-z0-9][a-z0-9-]{0,31}$"
_Urls = dict[Annotated[str, Field(pattern=LEDGER_NAME)], SecretStr]


class LedgersSettings(BaseModel):
    """By default there is the main ledger alone, at REDIS_URL."""

    ledgers: _Urls = Field(default_factory=dict)
    ledgers_archive_redis_urls: _Urls = Field(default_factory=dict)

    @field_validator("ledgers", "ledgers_archive_redis_urls")
    @classmethod
    def _check_ledgers(cls, value: dict[str, SecretStr]) -> dict[str, SecretStr]:
        if "main" in value:
            raise ValueError("`main` is the ledger at REDIS_URL")
        for url in value.values():
            if not url.get_secret_value().startswith(("redis://", "rediss://", "unix://")):
                raise ValueError("a ledger is at redis://..., rediss://... or unix://...")
        return value
