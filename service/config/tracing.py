"""The settings of traces: where spans are sent, which, and how many."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, SecretStr, field_validator


class TracingSettings(BaseModel):
    """Export of spans to a collector of OpenTelemetry. Without `traces_endpoint` nothing is recorded."""

    traces_endpoint: str = ""
    traces_headers: dict[str, SecretStr] = Field(default_factory=dict)
    traces_ca_file: Path | None = None
    traces_service_name: str = Field("privacy-gateway", min_length=1, max_length=255)
    traces_sample_ratio: float = Field(1.0, ge=0, le=1)
    traces_tenants: bool = False
    traces_accept_incoming: bool = False
    traces_send_to_upstreams: bool = False

    @field_validator("traces_endpoint")
    @classmethod
    def _check_traces_endpoint(cls, value: str) -> str:
        if not value:
            return value
        try:
            address = urlsplit(value)
            readable = address.scheme in ("http", "https") and bool(address.hostname) and "@" not in address.netloc
        except ValueError:  # the error's message would contain the value
            readable = False
        if not readable:
            raise ValueError("TRACES_ENDPOINT is http://HOST:PORT/PATH or https://..., without credentials")
        return value
