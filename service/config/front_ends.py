"""The setting of several gateways on one machine."""

from __future__ import annotations

from pydantic import BaseModel, Field


class FrontEndSettings(BaseModel):
    """How many gateways share a port and a data directory. With one, there is no supervisor."""

    processes: int = Field(1, ge=1, le=64)
