"""Every setting of the gateway, with its default. `docs/reference/settings.md` documents each one; a test checks that.

Settings are read from the environment as `PRIVACY_GATEWAY_<NAME>`. Limits are enforced before work starts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
from pydantic import AliasChoices, BaseModel, Field, SecretStr, ValidationInfo, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from core import credentials
from core.state.sessions import LIFETIME_S_MAX
from gpu_workers.engine.task_queue import QueueLimits
from gpu_workers.finetune.spec import BUNDLED
from gpu_workers.models.sources import INFILL_BUNDLED, INFILL_OFF, INT8, TAGGER_BUNDLED, TAGGER_OFF, Endpoint, is_url
from service.config.checkpoints import checkpoint_folder, is_pinned
from service.config.precision import check_devices, check_int8
from service.config.recognisers import RecogniserSettings
from service.config.redis_urls import checked_url
from service.config.sign_on import SignOnSettings
from service.config.storage import StorageSettings
from service.config.tracing import TracingSettings
from service.config.upstreams import UpstreamSettings, check_no_overlap

MIB = 1024 * 1024
MODEL_NAME = r"^[a-z0-9][a-z0-9._-]{0,63}$"

# The lengths of lists that the models of JSON bodies take. The settings below may only be smaller.
DOCUMENTS_TAKEN = 4096
SENTENCES_TAKEN = 4096
TEXTS_TAKEN = 65_536
VECTORS_TAKEN = 131_072
DIMENSIONS_TAKEN = 8192
ROWS_TAKEN = 125_000  # of a job; JSON lines hold more


class DutySettings(BaseModel):
    """The lease of sealing, of expiring holds, and of series, ranks and budget metrics."""

    duties_lease_s: float = Field(15.0, ge=1, le=600)
    idle_check_interval_s: float = Field(60.0, gt=0)
    epoch_store_interval_s: float = Field(60.0, gt=0)


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


class AlertSettings(BaseModel):
    """Rules of alerts, and where their webhooks may go."""

    alert_interval_s: float = Field(10.0, gt=0, le=3600)
    alert_rules_per_tenant_max: int = Field(32, ge=0, le=1000)
    alert_webhook_private_addresses: bool = False
    alert_webhook_ca_file: Path | None = None


class LocationSettings(BaseModel):
    """Addresses, folders, files and secrets."""

    data_dir: Path = Path(".data")
    host: str = "127.0.0.1"
    port: int = Field(8000, ge=0, le=65535)
    admin_port: int | None = Field(None, ge=0, le=65535)
    admin_host: str = "127.0.0.1"
    processes: int = Field(1, ge=1, le=64)
    trusted_proxies: str = Field(
        "127.0.0.1",
        validation_alias=AliasChoices("PRIVACY_GATEWAY_TRUSTED_PROXIES", "FORWARDED_ALLOW_IPS", "trusted_proxies"),
    )
    redis_url: str | None = Field(
        None, validation_alias=AliasChoices("PRIVACY_GATEWAY_REDIS_URL", "REDIS_URL", "redis_url")
    )
    redis_server: Path | None = None
    redis_timeout_s: float = Field(5.0, gt=0)
    master_key: SecretStr | None = None
    admin_key: SecretStr | None = None
    admin_key_previous: SecretStr | None = None
    keys_per_tenant_max: int = Field(256, ge=1)
    presets_file: Path | None = None
    policies_file: Path | None = None


class EngineSettings(BaseModel):
    """Workers, models and batches."""

    serves: tuple[Literal["embed", "sanitize", "fill", "jobs"], ...] = Field(
        ("embed", "sanitize", "fill", "jobs"), min_length=1
    )
    devices: tuple[str, ...] = ("auto",)
    encoder_threads: int = Field(0, ge=0)
    encoder_path: Path | None = None
    encoder_precision: Literal["auto", "float", "int8"] = "auto"
    domain_packs_dir: Path | None = None
    allow_lists_dir: Path | None = None
    tagger: str = TAGGER_BUNDLED
    infill: str = INFILL_BUNDLED
    infill_model: str = ""
    infill_api_key: SecretStr | None = None
    infill_timeout_s: float = Field(10.0, gt=0)
    infill_plain_http: bool = False
    queue_tasks_max: int = Field(QueueLimits.tasks_max, ge=1)
    queue_tokens_max: int = Field(QueueLimits.tokens_max, ge=1)
    queue_tenant_share: float = Field(QueueLimits.tenant_share, gt=0, le=1)
    batch_tokens_max: int = Field(QueueLimits.batch_tokens_max, ge=1)
    batch_linger_ms: float = Field(2.0, ge=0)
    request_timeout_s: float = Field(60.0, gt=0)


class AccountingSettings(BaseModel):
    """Processes of accounting calculations."""

    accounting_workers: int = Field(2, ge=1)
    accounting_timeout_s: float = Field(30.0, gt=0)


class JobSettings(BaseModel):
    """Jobs and the limits of each kind."""

    jobs_running_max: int = Field(1, ge=1)
    jobs_waiting_max: int = Field(32, ge=1)
    jobs_per_tenant_max: int = Field(8, ge=1, le=1000)
    job_records_per_tenant_max: int = Field(20_000, ge=1)
    job_attempts_max: int = Field(3, ge=1)
    job_seconds_max: float = Field(86400.0, gt=0)
    job_turn_s: float = Field(600.0, gt=0)
    job_memory_bytes_max: int = Field(8192 * MIB, ge=0)
    job_retention_s: float = Field(30 * 86400.0, ge=60)
    job_json_bytes_max: int = Field(64 * MIB, ge=1024)
    job_stream_bytes_max: int = Field(2048 * MIB, ge=1024)
    tenant_disk_bytes_max: int = Field(16 * 1024 * MIB, ge=1024)
    disk_free_bytes_min: int = Field(1024 * MIB, ge=0)
    job_threads: int = Field(0, ge=0)
    job_priority: Literal["idle", "low", "normal"] = "idle"
    domain_documents_max: int = Field(10_000, ge=100, le=100_000)
    domains_per_tenant_max: int = Field(64, ge=1)
    domain_packs_loaded_max: int = Field(8, ge=1)
    infill_documents_max: int = Field(5_000, ge=20, le=100_000)
    infill_models_per_tenant_max: int = Field(32, ge=1)
    infill_models_loaded_max: int = Field(4, ge=1)
    synthesis_rows_max: int = Field(1_000_000, ge=2, le=1 << 24)
    finetune_models: dict[Annotated[str, Field(pattern=MODEL_NAME)], Path] = Field(default_factory=dict)
    finetune_rows_max: int = Field(500_000, ge=20)


class LedgerSettings(BaseModel):
    """Holds, stored answers, seals and series."""

    hold_ttl_s: float = Field(300.0, gt=0)
    expire_interval_s: float = Field(5.0, gt=0)
    response_retention_s: float = Field(3600.0, ge=1)
    response_stored_bytes_max: int = Field(8 * MIB, ge=0, le=256 * MIB)
    tombstone_retention_s: float = Field(30 * 86400.0, gt=0)
    generated_key_retention_s: float = Field(86400.0, gt=0)
    holds_per_tenant_max: int = Field(4096, ge=1)
    uncharged_holds_per_hour_max: int = Field(10_000, ge=1, le=3_600_000)
    stored_bytes_per_tenant_max: int = Field(256 * MIB, ge=0)
    reuse_retention_s: float = Field(0.0, ge=0)
    reuse_results_max: int = Field(250_000, ge=1)
    display_delta: float = Field(1e-6, ge=1e-12, lt=1)
    series_interval_s: float = Field(5.0, gt=0)
    budget_metrics_interval_s: float = Field(60.0, gt=0)
    budget_metrics_max: int = Field(50, ge=0, le=10_000)
    seal_interval_s: float = Field(10.0, gt=0)
    durability_interval_s: float = Field(2.0, gt=0)
    epoch_file: Path | None = None


class RequestLimits(BaseModel):
    """Limits of one request and of pages."""

    body_bytes_max: int = Field(8 * MIB, ge=1024)
    json_depth_max: int = Field(16, ge=4, le=1000)
    json_values_max: int = Field(1_000_000, ge=1000)
    documents_max: int = Field(256, ge=1, le=DOCUMENTS_TAKEN)
    document_chars_max: int = Field(1_000_000, ge=1)
    stream_lines_max: int = Field(1_000_000, ge=1)
    stream_line_bytes_max: int = Field(8 * MIB, ge=1024)
    stream_group_max: int = Field(64, ge=1)
    stream_idle_s: float = Field(60.0, gt=0)
    sentences_per_document_max: int = Field(2048, ge=1, le=SENTENCES_TAKEN)  # the mechanisms take no more
    sentences_per_request_max: int = Field(8192, ge=1)
    vectors_bytes_max: int = Field(256 * MIB, ge=1024)
    vectors_max: int = Field(100_000, ge=1)
    vector_texts_max: int = Field(2048, ge=1, le=TEXTS_TAKEN)
    vector_dimension_max: int = Field(4096, ge=1, le=DIMENSIONS_TAKEN)
    vectors_memory_bytes_max: int = Field(2048 * MIB, ge=1024)
    vectors_memory_per_tenant_bytes_max: int = Field(1024 * MIB, ge=1024)
    vector_matrices_bytes_max: int = Field(256 * MIB, ge=0)
    bodies_memory_bytes_max: int = Field(1024 * MIB, ge=1024)
    requests_in_flight_per_tenant_max: int = Field(32, ge=1)
    large_requests_per_tenant_max: int = Field(4, ge=1)
    bodies_memory_per_tenant_bytes_max: int = Field(256 * MIB, ge=1024)
    fill_slots_max: int = Field(2048, ge=1)
    places_per_document_max: int = Field(100_000, ge=1)
    places_per_request_max: int = Field(300_000, ge=1)
    epsilon_min: float = Field(0.001, gt=0)
    epsilon_max: float = Field(1000.0, gt=0, le=4_000_000)
    budget_page_max: int = Field(200, ge=1, le=200)
    series_points_max: int = Field(1500, ge=1, le=10_000)
    series_max: int = Field(32, ge=1, le=1000)
    stream_key_check_s: float = Field(2.0, gt=0, le=4)
    auth_failures_per_minute: int = Field(60, ge=0)
    rate_limit_per_minute: int = Field(0, ge=0)
    hsts_max_age_s: int = Field(0, ge=0)
    ready_cache_s: float = Field(5.0, ge=0)


class UpstreamLimits(BaseModel):
    """Language models that the gateway calls, and the limits of a call."""

    upstreams: Annotated[dict[Annotated[str, Field(pattern=MODEL_NAME)], UpstreamSettings], NoDecode] = Field(
        default_factory=dict
    )
    upstream_connect_timeout_s: float = Field(10.0, gt=0)
    upstream_read_timeout_s: float = Field(300.0, gt=0)
    upstream_total_timeout_s: float = Field(900.0, gt=0)
    upstream_answer_bytes_max: int = Field(32 * MIB, ge=1024)
    upstream_stream_bytes_max: int = Field(256 * MIB, ge=1024)
    upstream_calls_max: int = Field(64, ge=1)
    proxy_chars_max: int = Field(1_000_000, ge=1)
    proxy_texts_max: int = Field(4096, ge=1)
    proxy_finds_bytes_max: int = Field(32 * MIB, ge=0)
    restore_token_lifetime_s: int = Field(86_400, ge=1)
    guardrail_lifetime_s: int = Field(900, ge=0)
    vault_lifetime_s: int = Field(86_400, ge=1)
    vault_entries_max: int = Field(10_000, ge=1)
    vault_bytes_max: int = Field(64 * MIB, ge=1024)
    vault_entry_bytes_max: int = Field(64 * 1024, ge=1024)


class DashboardSettings(BaseModel):
    """The pages for people, and their sessions."""

    dashboard_hosts: tuple[str, ...] = ("localhost", "127.0.0.1", "::1")
    dashboard_session_s: int = Field(8 * 3600, ge=60, le=LIFETIME_S_MAX)
    dashboard_sessions_max: int = Field(100, ge=1)
    sign_on: Annotated[SignOnSettings | None, NoDecode] = None


class ConnectionSettings(BaseModel):
    """Connections, and the time that slow clients get."""

    connections_max: int = Field(2048, ge=1)
    connections_per_address_max: int = Field(512, ge=1)
    request_head_s: float = Field(20.0, gt=0)
    request_head_bytes_max: int = Field(64 * 1024, ge=1024)
    body_idle_s: float = Field(30.0, gt=0)
    answer_idle_s: float = Field(60.0, gt=0)
    transfer_bytes_per_s_min: int = Field(1024, ge=1)


class Settings(
    LocationSettings,
    StorageSettings,
    EngineSettings,
    AccountingSettings,
    JobSettings,
    RecogniserSettings,
    LedgerSettings,
    RequestLimits,
    UpstreamLimits,
    DashboardSettings,
    AlertSettings,
    ArchiveSettings,
    DutySettings,
    TracingSettings,
    ConnectionSettings,
    BaseSettings,
):
    """Settings of one gateway process and its workers, grouped by area."""

    model_config = SettingsConfigDict(
        env_prefix="PRIVACY_GATEWAY_", extra="ignore", populate_by_name=True, hide_input_in_errors=True
    )

    @field_validator("master_key", "admin_key", "admin_key_previous", "infill_api_key")
    @classmethod
    def _check_secret(cls, value: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        """Refuse an empty secret: a variable that is set to nothing is a mistake."""
        if value is None:
            return None
        check = credentials.admin_key if info.field_name in ("admin_key", "admin_key_previous") else credentials.token
        return SecretStr(check(value.get_secret_value()))

    @field_validator("upstreams", "sign_on", mode="before")
    @classmethod
    def _read_json(cls, value: Any, info: ValidationInfo) -> Any:
        """Read a setting from its JSON. Raises ValueError without any part of it."""
        if not isinstance(value, str):
            return value
        if info.field_name == "sign_on" and not value.strip():
            return None
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError as error:
            name = str(info.field_name).upper()
            raise ValueError(f"{name} is no JSON: line {error.lineno}, column {error.colno}") from None

    @field_validator("redis_url")
    @classmethod
    def _check_redis_url(cls, value: str | None) -> str | None:
        return None if value is None else checked_url(value, "REDIS_URL")

    @model_validator(mode="after")
    def _resolve_checkpoints(self) -> Settings:
        """Replace a pinned name by the folder that it was downloaded to."""
        for field in ("encoder_path", "tagger", "infill"):
            name = str(getattr(self, field))
            if is_pinned(name):
                folder = self._fetched(name, field)
                setattr(self, field, folder if field == "encoder_path" else str(folder))
        for name, path in self.finetune_models.items():
            if is_pinned(str(path)):
                self.finetune_models[name] = self._fetched(str(path), "finetune_models")
            elif not path.is_dir():
                raise ValueError("FINETUNE_MODELS maps names to folders that exist, or to ORG/NAME@COMMIT")
        if BUNDLED in self.finetune_models:
            raise ValueError("FINETUNE_MODELS: `bundled` is the gateway's own encoder")
        if self.tagger not in (TAGGER_BUNDLED, TAGGER_OFF) and not Path(self.tagger).is_dir():
            raise ValueError("TAGGER is `bundled`, `off`, a folder that exists, or ORG/NAME@COMMIT")
        return self

    def _fetched(self, name: str, field: str) -> Path:
        folder = checkpoint_folder(self.data_dir, name)
        if not folder.is_dir():
            raise ValueError(f"{field.upper()} is not fetched: privacy-gateway model fetch {name}")
        return folder

    @property
    def infill_source(self) -> str | Endpoint:
        """The language model that fill workers load. Raises ValueError for an endpoint that cannot be used."""
        if not is_url(self.infill):
            return self.infill
        key = self.infill_api_key
        return Endpoint(
            self.infill,
            self.infill_model,
            key.get_secret_value() if key else None,
            self.infill_timeout_s,
            self.infill_plain_http,
        )

    @model_validator(mode="after")
    def _check(self) -> Settings:
        check_devices(self.devices)
        if self.encoder_precision == INT8:
            check_int8(self.encoder_path, self.devices)
        if self.infill_source not in (INFILL_BUNDLED, INFILL_OFF) and not (
            is_url(self.infill) or Path(self.infill).is_dir()
        ):
            raise ValueError("INFILL is `bundled`, `off`, a folder that exists, ORG/NAME@COMMIT, or a URL")
        check_no_overlap(self.upstreams)
        if "jobs" not in self.serves and self.redis_url is None:
            raise ValueError("SERVES without jobs needs REDIS_URL: another gateway of that Redis runs the jobs")
        if self.hold_ttl_s <= self.request_timeout_s:
            raise ValueError("a hold must outlive the work: HOLD_TTL_S above REQUEST_TIMEOUT_S")
        if self.tombstone_retention_s <= self.response_retention_s:
            raise ValueError("a tombstone must outlive the answer: TOMBSTONE_RETENTION_S above RESPONSE_RETENTION_S")
        return self
