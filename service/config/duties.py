"""The settings of several gateways on one ledger: the lease of the duties that one of them does for all."""

from __future__ import annotations

from pydantic import BaseModel, Field


class DutySettings(BaseModel):
    """The lease of sealing, of expiring holds, and of series, ranks and budget metrics."""

    duties_lease_s: float = Field(15.0, ge=1, le=600)
    idle_check_interval_s: float = Field(60.0, gt=0)
    epoch_store_interval_s: float = Field(60.0, gt=0)
