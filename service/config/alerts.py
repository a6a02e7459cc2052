"""The settings of alerts: their rules, deliveries and the mail server."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, Field, SecretStr, model_validator


class AlertSettings(BaseModel):
    """Rules of alerts, their deliveries, and the mail server."""

    alert_interval_s: float = Field(10.0, gt=0, le=3600)
    alert_rules_per_tenant_max: int = Field(32, ge=0, le=1000)
    alerts_kept_per_tenant_max: int = Field(1000, ge=1, le=100_000)
    alert_outbox_per_tenant_max: int = Field(1000, ge=1, le=100_000)
    alert_forecasts_max: int = Field(20, ge=1)
    alert_deliveries_max: int = Field(32, ge=1)
    alert_samples_per_minute: int = Field(10, ge=1)
    alert_attempts_max: int = Field(16, ge=1, le=1000)
    alert_retry_s: float = Field(30.0, gt=0)
    alert_retry_max_s: float = Field(3600.0, gt=0)
    alert_webhook_timeout_s: float = Field(10.0, gt=0)
    alert_webhook_private_addresses: bool = False
    alert_webhook_ca_file: Path | None = None
    alert_email_domains: tuple[str, ...] = ()
    alert_smtp_host: str = ""
    alert_smtp_port: int = Field(587, ge=1, le=65535)
    alert_smtp_security: Literal["starttls", "tls", "none"] = "starttls"
    alert_smtp_user: str = ""
    alert_smtp_password: SecretStr | None = None
    alert_smtp_from: str = ""
    alert_smtp_ca_file: Path | None = None
    alert_smtp_timeout_s: float = Field(20.0, gt=0)

    @model_validator(mode="after")
    def _check_mail(self) -> Self:
        if self.alert_smtp_host and "@" not in self.alert_smtp_from:
            raise ValueError("ALERT_SMTP_HOST needs a sender: ALERT_SMTP_FROM is an address")
        if self.alert_smtp_user and self.alert_smtp_security == "none":
            raise ValueError("ALERT_SMTP_USER would be sent unencrypted; set ALERT_SMTP_SECURITY to starttls or tls")
        return self
