"""The settings of the archive of the journal: whether it is copied, how often, and what stays in Redis."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field, SecretStr, field_validator

from service.config.redis_urls import checked_url


class ArchiveSettings(BaseModel):
    """Off unless an operator turns it on: docs/operating/ledger.md says what to run beside it."""

    archive: Literal["on", "off"] = "off"
    archive_interval_s: float = Field(60.0, gt=0)
    archive_keep_entries: int = Field(200_000, ge=1)
    archive_redis_url: SecretStr | None = None

    @field_validator("archive_redis_url")
    @classmethod
    def _check_archive_redis_url(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            checked_url(value.get_secret_value(), "ARCHIVE_REDIS_URL")
        return value
