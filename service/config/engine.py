"""The settings of an engine whose workers are servers of their own, and of these servers."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, Field, SecretStr, field_validator, model_validator

TOKEN_CHARS_MIN = 16
ROLES = ("embed", "sanitize", "fill", "jobs")


class RemoteEngineSettings(BaseModel):
    """Where the workers are, and what gateways and workers share."""

    engine: Literal["local", "remote", "ray"] = "local"
    workers: tuple[str, ...] = ()
    workers_directory: str = ""
    workers_token: SecretStr | None = None
    workers_tls_ca: Path | None = None
    workers_tls_certificate: Path | None = None
    workers_tls_key: Path | None = None
    workers_plain: bool = False
    worker_slot_s: float = Field(5.0, gt=0, le=60)
    worker_drain_s: float = Field(120.0, gt=0)

    @field_validator("workers_token")
    @classmethod
    def _check_token(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and (
            len(value.get_secret_value()) < TOKEN_CHARS_MIN or not value.get_secret_value().isascii()
        ):
            raise ValueError(f"WORKERS_TOKEN has at least {TOKEN_CHARS_MIN} characters of ASCII")
        return value

    @field_validator("workers")
    @classmethod
    def _check_workers(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for worker in value:
            role, _, address = worker.partition("=")
            if role not in ROLES or ":" not in address:
                raise ValueError(f"WORKERS is a list of ROLE=ADDRESS; the roles are {', '.join(ROLES)}")
        return value

    @model_validator(mode="after")
    def _check_engine(self) -> Self:
        tls = (self.workers_tls_ca, self.workers_tls_certificate, self.workers_tls_key)
        if any(tls) and not all(tls):
            raise ValueError("WORKERS_TLS_CA, WORKERS_TLS_CERTIFICATE and WORKERS_TLS_KEY are set together")
        if self.engine == "local":
            return self
        if self.workers_token is None:
            raise ValueError("ENGINE needs WORKERS_TOKEN, which its workers have, too")
        if self.engine == "remote" and not {"embed", "sanitize"} <= {each.partition("=")[0] for each in self.workers}:
            example = '["embed=10.0.0.5:7001", "sanitize=10.0.0.5:7002"]'
            raise ValueError(f"ENGINE=remote needs WORKERS of the roles embed and sanitize, for example {example}")
        if self.engine == "ray" and not self.workers_directory:
            raise ValueError("ENGINE=ray needs WORKERS_DIRECTORY, for example http://10.0.0.5:8000")
        return self
