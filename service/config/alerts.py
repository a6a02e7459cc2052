"""The settings of alerts."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, Field


class AlertSettings(BaseModel):
    """Rules of alerts, and where their webhooks may go."""

    alert_interval_s: float = Field(10.0, gt=0, le=3600)
    alert_rules_per_tenant_max: int = Field(32, ge=0, le=1000)
    alert_webhook_private_addresses: bool = False
    alert_webhook_ca_file: Path | None = None
