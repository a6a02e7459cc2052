"""The settings of the archive of the journal: whether, when and how much is moved to the blob store."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field, SecretStr, field_validator

from service.config.redis_urls import checked_url

MIB = 1024 * 1024


class ArchiveSettings(BaseModel):
    """Off unless an operator turns it on: docs/operating/ledger.md says what to run beside it."""

    archive: Literal["on", "off"] = "off"
    archive_interval_s: float = Field(60.0, gt=0)
    archive_keep_entries: int = Field(20_000, ge=1)
    archive_after_s: float = Field(7 * 86400.0, gt=0)
    archive_object_entries: int = Field(10_000, ge=1, le=100_000)
    archive_keep_seals: int = Field(1000, ge=100)
    archive_cache_bytes_max: int = Field(32 * MIB, ge=0)
    archive_redis_url: SecretStr | None = None

    @field_validator("archive_redis_url")
    @classmethod
    def _check_archive_redis_url(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            checked_url(value.get_secret_value(), "ARCHIVE_REDIS_URL")
        return value
