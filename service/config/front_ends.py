"""The setting of several front ends of one gateway on one machine."""

from __future__ import annotations

from pydantic import BaseModel, Field


class FrontEndSettings(BaseModel):
    """How many processes answer requests. With one, there is no supervisor."""

    processes: int = Field(1, ge=1, le=64)
