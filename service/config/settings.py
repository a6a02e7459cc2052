"""Every setting of the gateway, with its default. `docs/reference/settings.md` documents each one; a test checks that.

A setting is read from the command line, from the environment as `PRIVACY_GATEWAY_<NAME>`, or from the configuration
file as `<name>`: the first that has it decides. A name that is no setting is an error, wherever it stands. Limits are
enforced before work starts.

What no operator would change is a constant. One that a single module uses stands there. One that several capabilities
share is a class variable of the group that it belongs to, with the reason for its value.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import parse_qs, urlsplit

import orjson
from pydantic import (
    BaseModel,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticKnownError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from core import credentials
from core.blobs.options import MIB, StorageSettings
from core.master_key import MasterKey
from core.state.sessions import LIFETIME_S_MAX
from gpu_workers.engine.task_queue import QueueLimits
from gpu_workers.finetune.spec import BUNDLED
from gpu_workers.models.sources import (
    AUTO_PRECISION,
    FLOATING,
    INFILL_BUNDLED,
    INFILL_OFF,
    INFILL_SMOLLM2,
    INT8,
    TAGGER_BUNDLED,
    TAGGER_OFF,
    Endpoint,
    is_url,
    smollm2_file,
)
from gpu_workers.remote.wire import checked_address
from service.config.data_dir import checkpoint_folder, is_pinned
from service.config.providers import SignOnSettings, UpstreamSettings, check_no_overlap
from service.config.stores import (
    BulkStoreSettings,
    BulkStoresFile,
    is_inside,
)

PREFIX = "PRIVACY_GATEWAY_"
MODEL_NAME = r"^[a-z0-9][a-z0-9._-]{0,63}$"

# Variables of the client and of the examples for it, which may be set beside a gateway.
OTHER_VARIABLES = frozenset({"PRIVACY_GATEWAY_URL", "PRIVACY_GATEWAY_API_KEY", "PRIVACY_GATEWAY_KEY"})
# Names that other programs have given to a setting. The gateway's own variable is preferred.
KNOWN_ELSEWHERE = {"redis_url": "REDIS_URL", "trusted_proxies": "FORWARDED_ALLOW_IPS"}

# The lengths of lists that the models of JSON bodies take. The limits below are not larger.
DOCUMENTS_TAKEN = 4096
SENTENCES_TAKEN = 4096
TEXTS_TAKEN = 65_536
VECTORS_TAKEN = 131_072
DIMENSIONS_TAKEN = 8192
ROWS_TAKEN = 125_000  # of a job; JSON lines hold more
RECOGNISERS_TAKEN = 64
PATTERNS_TAKEN = 1024
TERMS_TAKEN = 500_000


def checked_url(value: str, setting: str) -> str:
    """The URL of a Redis. Raises ValueError for one that cannot be used, without showing any of it."""
    try:
        address = urlsplit(value)
        readable = address.port is None or address.port > 0
    except ValueError:  # the error's message would contain a part of the password
        readable = False
    if not readable or address.fragment or ("@" in address.path and address.scheme != "unix"):
        raise ValueError(f"{setting} cannot be read; percent-encode /, #, ?, [ and ] in the password")
    if address.scheme not in ("redis", "rediss", "unix"):
        raise ValueError(f"{setting} is redis://..., rediss://... or unix://...")
    if "@" in address.netloc and not _has_password(value):
        raise ValueError(f"{setting} names a user and no password, or an empty one")
    return value


def _has_password(url: str) -> bool:
    """Whether the URL of a Redis has a password. Raises ValueError for one that cannot be read."""
    address = urlsplit(url)
    return bool(address.password or parse_qs(address.query).get("password"))


_PROCESSORS = ("auto", "cpu")


def check_int8(encoder_path: Path | None, devices: Sequence[str]) -> None:
    """Raises ValueError if the encoder in 8-bit integers cannot run with these settings."""
    if encoder_path is not None:
        raise ValueError("ENCODER_PRECISION=int8 is for the bundled encoder: remove ENCODER_PATH")
    if any(device not in _PROCESSORS for device in devices):
        raise ValueError("ENCODER_PRECISION=int8 is for processors: DEVICES must be `auto` or `cpu`")


def check_devices(devices: Sequence[str]) -> None:
    """Raises ValueError for processors beside GPUs, which round differently. What `auto` is, the workers find out."""
    if len({device.partition(":")[0] for device in devices} - {"auto"}) > 1:
        raise ValueError("DEVICES must be of one kind, such as two GPUs: which worker embeds a text must not matter")


def precision_of_workers(precision: str, encoder_path: Path | None, devices: Sequence[str]) -> str:
    """All workers of a gateway compute vectors of one space: `auto` is `float` for all of them if one needs it, also if
    `auto` among other devices may be a GPU."""
    alike = len(set(devices)) == 1 and devices[0] in _PROCESSORS
    if precision == AUTO_PRECISION and (encoder_path or not alike):
        return FLOATING
    return precision


class BulkSettings(BaseModel):
    """The stores of bulk releases."""

    bulk_stores_file: Path | None = None

    _bulk_stores: dict[str, BulkStoreSettings] = PrivateAttr(default_factory=dict)


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

    alert_webhook_private_addresses: bool = False
    alert_webhook_ca_file: Path | None = None


class LocationSettings(BaseModel):
    """Addresses, folders, files and secrets."""

    config_file: Path | None = None
    data_dir: Path = Path(".data")
    host: str = "127.0.0.1"
    port: int = Field(8000, ge=0, le=65535)
    admin_port: int | None = Field(None, ge=0, le=65535)
    admin_host: str = "127.0.0.1"
    processes: int = Field(1, ge=1, le=64)
    trusted_proxies: str = "127.0.0.1"
    redis_url: str | None = None
    redis_server: Path | None = None
    redis_timeout_s: float = Field(5.0, gt=0)
    master_key: SecretStr | None = None
    admin_key: SecretStr | None = None
    admin_key_previous: SecretStr | None = None
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
    queue_tenant_share: float = Field(QueueLimits.tenant_share, gt=0, le=1)
    request_timeout_s: float = Field(60.0, gt=0)


class AccountingSettings(BaseModel):
    """Processes of accounting calculations."""

    accounting_workers: int = Field(2, ge=1)
    accounting_timeout_s: float = Field(30.0, gt=0)


class JobSettings(BaseModel):
    """Jobs and the limits of each kind."""

    jobs_running_max: int = Field(1, ge=1)
    jobs_per_tenant_max: int = Field(8, ge=1, le=1000)
    job_seconds_max: float = Field(86400.0, gt=0)
    job_memory_bytes_max: int = Field(8192 * MIB, ge=0)
    job_retention_s: float = Field(30 * 86400.0, ge=60)
    tenant_disk_bytes_max: int = Field(16 * 1024 * MIB, ge=1024)
    disk_free_bytes_min: int = Field(1024 * MIB, ge=0)
    job_threads: int = Field(0, ge=0)
    job_priority: Literal["idle", "low", "normal"] = "idle"
    finetune_models: dict[Annotated[str, Field(pattern=MODEL_NAME)], Path] = Field(default_factory=dict)

    # TENANT_DISK_BYTES_MAX bounds the space of these files; this bounds the pages that list them.
    domains_per_tenant_max: ClassVar[int] = 64
    infill_models_per_tenant_max: ClassVar[int] = 32
    classifiers_per_tenant_max: ClassVar[int] = 32
    batch_files_per_tenant_max: ClassVar[int] = 1000
    synthesis_rows_max: ClassVar[int] = 1_000_000  # the job holds its table in memory: JOB_MEMORY_BYTES_MAX
    finetune_rows_max: ClassVar[int] = 500_000  # private rows, up to which the precision of a step is tested


class RaySettings(BaseModel):
    """The Ray cluster that runs the jobs, with JOBS_ON=ray."""

    jobs_on: Literal["gateway", "ray"] = "gateway"
    ray_url: str = ""
    ray_token: SecretStr | None = None
    ray_gateway_url: str = ""
    ray_port: int | None = Field(None, ge=1, le=65535)
    ray_ca_file: Path | None = None
    ray_plain_http: bool = False


class RecogniserSettings(BaseModel):
    """Recognisers of tenants."""

    # TENANT_DISK_BYTES_MAX bounds their space.
    recognisers_per_tenant_max: ClassVar[int] = 64
    # As many as a worker keeps in memory.
    recognisers_per_request_max: ClassVar[int] = 16


class LedgerSettings(BaseModel):
    """Holds, stored answers, seals and series."""

    response_retention_s: float = Field(3600.0, ge=1)
    tombstone_retention_s: float = Field(30 * 86400.0, gt=0)
    uncharged_holds_per_hour_max: int = Field(10_000, ge=1, le=3_600_000)
    stored_bytes_per_tenant_max: int = Field(256 * MIB, ge=0)
    reuse_retention_s: float = Field(0.0, ge=0)
    reuse_results_max: int = Field(250_000, ge=1)
    seal_interval_s: float = Field(10.0, gt=0)
    epoch_file: Path | None = None

    # A hold outlives the work of its request: an outage of Redis and the settlement after it also fit into this time.
    hold_margin_s: ClassVar[float] = 240.0
    # Redis answers no other command while it writes a large answer: 25 MB took a second.
    response_stored_bytes_max: ClassVar[int] = 8 * MIB
    # The delta of the estimates that are shown for an account whose own delta is 0. It admits nothing.
    display_delta: ClassVar[float] = 1e-6


class RequestLimits(BaseModel):
    """Limits of one request and of pages."""

    body_bytes_max: int = Field(8 * MIB, ge=1024)
    vectors_memory_bytes_max: int = Field(2048 * MIB, ge=1024)
    bodies_memory_bytes_max: int = Field(1024 * MIB, ge=1024)
    requests_in_flight_per_tenant_max: int = Field(32, ge=1)
    epsilon_min: float = Field(0.001, gt=0)
    epsilon_max: float = Field(1000.0, gt=0, le=4_000_000)
    auth_failures_per_minute: int = Field(60, ge=0)
    rate_limit_per_minute: int = Field(0, ge=0)
    hsts_max_age_s: int = Field(0, ge=0)

    # Time and memory of parsing JSON grow with the number of values, so both are checked before it.
    json_depth_max: ClassVar[int] = 16
    json_values_max: ClassVar[int] = 1_000_000
    # BODY_BYTES_MAX bounds the size of a call, these bound the work on it. Larger corpora are sent as several calls, as
    # streams or as jobs.
    documents_max: ClassVar[int] = 256
    document_chars_max: ClassVar[int] = 1_000_000
    sentences_per_document_max: ClassVar[int] = 2048
    # As OpenAI's `/v1/embeddings`, whose limits frameworks fill: 2,048 inputs, and 300,000 tokens in all. So many
    # sentences take two cores about 20 seconds of REQUEST_TIMEOUT_S.
    embedded_texts_max: ClassVar[int] = 2048
    sentences_per_request_max: ClassVar[int] = 16_384
    vectors_max: ClassVar[int] = 100_000
    vectors_bytes_max: ClassVar[int] = 256 * MIB  # an eighth of VECTORS_MEMORY_BYTES_MAX, which its answer needs again
    vector_dimension_max: ClassVar[int] = 4096  # half of what the models of JSON bodies take
    # Places that a model fills one after another, about 10 milliseconds each: 20 seconds of REQUEST_TIMEOUT_S.
    fill_slots_max: ClassVar[int] = 2048
    # All finds of a call are in memory until its answer is written.
    places_per_request_max: ClassVar[int] = 300_000
    # A stream holds `stream_group_max` documents in work and 16 times as many lines in memory.
    stream_lines_max: ClassVar[int] = 1_000_000
    stream_line_bytes_max: ClassVar[int] = 8 * MIB  # as BODY_BYTES_MAX by default; a longer line is that line's problem
    stream_group_max: ClassVar[int] = 64
    stream_idle_s: ClassVar[float] = 60.0  # in which the client of a stream neither sends nor reads a line
    # A stream ends this time, and one second, after its key was revoked; each check reads the key.
    stream_key_check_s: ClassVar[float] = 2.0
    # One thread parses bodies above 64 KiB, so more of them at once are not faster.
    large_requests_per_tenant_max: ClassVar[int] = 4
    # Large projections and codebooks that are kept for later requests, as a part of VECTORS_MEMORY_BYTES_MAX.
    vector_matrices_bytes_max: ClassVar[int] = 256 * MIB
    # One script of Redis reads a page of accounts, and Redis answers nobody else meanwhile.
    budget_page_max: ClassVar[int] = 200
    series_points_max: ClassVar[int] = 1500  # two months of hours
    series_max: ClassVar[int] = 32
    # The canaries run once for the probes of one moment, and again for those of the next.
    ready_cache_s: ClassVar[float] = 5.0

    # What one tenant may use, so that the others always have the rest. A call needs memory for its vectors and for its
    # answer; the bodies of `large_requests_per_tenant_max` jobs fit into a quarter.
    vectors_memory_tenant_share: ClassVar[float] = 0.5
    bodies_memory_tenant_share: ClassVar[float] = 0.25

    @property
    def vectors_memory_per_tenant_bytes_max(self) -> int:
        return int(self.vectors_memory_bytes_max * self.vectors_memory_tenant_share)

    @property
    def bodies_memory_per_tenant_bytes_max(self) -> int:
        return int(self.bodies_memory_bytes_max * self.bodies_memory_tenant_share)


class UpstreamLimits(BaseModel):
    """Language models that the gateway calls, and the limits of a call."""

    upstreams: dict[Annotated[str, Field(pattern=MODEL_NAME)], UpstreamSettings] = Field(default_factory=dict)
    upstream_calls_max: int = Field(64, ge=1)
    restore_token_lifetime_s: int = Field(86_400, ge=1)
    guardrail_lifetime_s: int = Field(900, ge=0)
    vault_lifetime_s: int = Field(86_400, ge=1)
    vault_bytes_max: int = Field(64 * MIB, ge=1024)

    # What an upstream's own member does not say. A model that does not stream is silent until its answer is complete.
    upstream_connect_timeout_s: ClassVar[float] = 10.0
    upstream_read_timeout_s: ClassVar[float] = 300.0
    upstream_total_timeout_s: ClassVar[float] = 900.0
    upstream_answer_bytes_max: ClassVar[int] = 32 * MIB  # also after decompression
    upstream_stream_bytes_max: ClassVar[int] = 256 * MIB  # events repeat their frame for each token
    proxy_chars_max: ClassVar[int] = 1_000_000  # one worker masks a request at once, in 2 to 4 seconds for as many
    proxy_texts_max: ClassVar[int] = 4096
    # Where the finds in texts of conversations were, so that they are not read again; it holds no text.
    proxy_finds_bytes_max: ClassVar[int] = 32 * MIB
    vault_entries_max: ClassVar[int] = 10_000  # of a tenant, one for each answer; VAULT_BYTES_MAX bounds their size
    vault_entry_bytes_max: ClassVar[int] = 64 * 1024  # some 4,000 names; each turn costs a worker a millisecond a name


class DashboardSettings(BaseModel):
    """The pages for people, and their sessions."""

    dashboard_hosts: tuple[str, ...] = ("localhost", "127.0.0.1", "::1")
    dashboard_session_s: int = Field(8 * 3600, ge=60, le=LIFETIME_S_MAX)
    sign_on: SignOnSettings | None = None

    dashboard_sessions_max: ClassVar[int] = 100  # of one key or person; a further one ends the oldest


class ConnectionSettings(BaseModel):
    """Connections, each of which costs an open file and memory."""

    connections_max: int = Field(2048, ge=1)
    connections_per_address_max: int = Field(512, ge=1)


class SettingsRefused(ValueError):
    """The settings, or a file that they name, cannot be used. `problems`: a sentence for each."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def read_file(path: Path) -> dict[str, Any]:
    """What a configuration file says. Raises SettingsRefused, with the file and the line, and no part of it."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsRefused(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsRefused(f"{path}: a configuration file is UTF-8") from None
    except (ValueError, RecursionError) as error:  # also for a number of thousands of digits, and for deep nesting
        found = re.search(r"\(at [^()]*\)$", str(error))  # the rest of the message may quote the file
        raise SettingsRefused(f"{path}: no TOML {found.group() if found else ''}".rstrip()) from None


class _SettingsSource(PydanticBaseSettingsSource):
    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002
        """A source gives all of its values at once."""
        return None, field_name, False


class _KnownElsewhere(_SettingsSource):
    """Variables of other programs, such as REDIS_URL."""

    def __call__(self) -> dict[str, Any]:
        found = {name: os.environ[variable] for name, variable in KNOWN_ELSEWHERE.items() if variable in os.environ}
        return {name: value for name, value in found.items() if name not in self.current_state}


class _ConfigFile(_SettingsSource):
    """The file that CONFIG_FILE names. A setting from elsewhere replaces that of the file, also where it is a table."""

    def __call__(self) -> dict[str, Any]:
        path = self.current_state.get("config_file")
        if path is None:
            return {}
        path = Path(path)
        said = read_file(path)
        if "config_file" in said:
            raise SettingsRefused(f"{path} has config_file, which names this file and no further one")
        secret = [name for name, value in said.items() if _is_secret(name, value)]
        if secret and path.stat().st_mode & stat.S_IROTH:
            raise SettingsRefused(
                f"{path} has {', '.join(secret)}, and every user of this machine can read it: chmod 600"
            )
        return {name: value for name, value in said.items() if name not in self.current_state}


class _UnknownVariables(_SettingsSource):
    """Variables with the gateway's prefix that are no settings, by their whole names, which no setting has: they are
    refused as such. A variable that UPSTREAMS or SIGN_ON names as `key_env` may have the prefix."""

    def __call__(self) -> dict[str, Any]:
        known = {f"{PREFIX}{name}".upper() for name in self.settings_cls.model_fields} | OTHER_VARIABLES
        unknown = [name for name in os.environ if name.upper().startswith(PREFIX) and name.upper() not in known]
        if not unknown:
            return {}
        named = {name for setting in ("upstreams", "sign_on") for name in _keys_of(self.current_state.get(setting))}
        return dict.fromkeys(set(unknown) - named)


def _keys_of(value: Any) -> Iterator[str]:
    """Every `key_env` in a setting, in the form of the environment or of the file."""
    if isinstance(value, str):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            return
    if isinstance(value, dict):
        if isinstance(value.get("key_env"), str):
            yield value["key_env"]
        for member in value.values():
            if isinstance(member, dict):
                yield from _keys_of(member)


# Settings that hold keys or passwords, as `redis_url` and `upstreams` may, too. A file that has one is for the user of
# the gateway alone.
SECRET = frozenset(
    {
        "master_key", "admin_key", "admin_key_previous", "infill_api_key", "archive_redis_url", "store_options",
        "traces_headers", "ray_token",
    }
)  # fmt: skip


def _is_secret(name: str, value: Any) -> bool:
    """Whether a setting of the file holds a key or a password."""
    if name == "redis_url" and isinstance(value, str):
        try:
            return _has_password(value)
        except ValueError:
            return True
    if name == "upstreams" and isinstance(value, dict):
        return any(isinstance(member, dict) and bool(member.get("headers")) for member in value.values())
    return name in SECRET


# Settings that the environment has as JSON, and the configuration file as tables and arrays.
STRUCTURED = (
    "serves", "devices", "store_options", "finetune_models", "upstreams", "dashboard_hosts", "sign_on",
    "traces_headers",
)  # fmt: skip


class Settings(
    LocationSettings,
    StorageSettings,
    BulkSettings,
    EngineSettings,
    AccountingSettings,
    JobSettings,
    RaySettings,
    RecogniserSettings,
    LedgerSettings,
    RequestLimits,
    UpstreamLimits,
    DashboardSettings,
    AlertSettings,
    ArchiveSettings,
    TracingSettings,
    ConnectionSettings,
    BaseSettings,
):
    """Settings of one gateway process and its workers, grouped by area."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, extra="forbid", enable_decoding=False, hide_input_in_errors=True, allow_inf_nan=False
    )

    @field_validator("master_key", "admin_key", "admin_key_previous", "infill_api_key", "ray_token")
    @classmethod
    def _check_secret(cls, value: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        """Refuse an empty secret: a variable that is set to nothing is a mistake."""
        if value is None:
            return None
        if info.field_name == "master_key":
            MasterKey.from_hex(value.get_secret_value())
        check = credentials.admin_key if info.field_name in ("admin_key", "admin_key_previous") else credentials.token
        return SecretStr(check(value.get_secret_value()))

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The first source that has a setting decides. The last one finds variables that are no settings."""
        rest = (_KnownElsewhere, _ConfigFile, _UnknownVariables)
        return init_settings, env_settings, *(source(settings_cls) for source in rest)

    @field_validator("*", mode="before")
    @classmethod
    def _check_number(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse `true` for a number, which would be 1."""
        number = cls.model_fields[str(info.field_name)].annotation in (int, float, int | None)
        if number and isinstance(value, bool):
            raise PydanticKnownError("int_type")
        return value

    @field_validator(*STRUCTURED, mode="before")
    @classmethod
    def _read_json(cls, value: Any, info: ValidationInfo) -> Any:
        """Read a setting from the JSON of the environment. Raises ValueError without any part of it."""
        if not isinstance(value, str):
            return value
        if info.field_name == "sign_on" and not value.strip():
            return None
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError as error:
            raise ValueError(
                f"{str(info.field_name).upper()} is no JSON: line {error.lineno}, column {error.colno}"
            ) from None

    @field_validator("redis_url")
    @classmethod
    def _check_redis_url(cls, value: str | None) -> str | None:
        return None if value is None else checked_url(value, "REDIS_URL")

    @property
    def hold_ttl_s(self) -> float:
        """After this time a hold that is not settled is spent."""
        return self.request_timeout_s + self.hold_margin_s

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
        """Replace pinned names by the folders that they were downloaded to. Raises ValueError with a line for each
        problem of what settings say together."""
        problems = []
        for check in (
            self._resolve_checkpoints,
            self._check_models,
            lambda: check_devices(self.devices),
            lambda: check_int8(self.encoder_path, self.devices) if self.encoder_precision == INT8 else None,
            self._check_infill,
            lambda: check_no_overlap(self.upstreams),
            self._check_roles,
            self._check_retention,
            self._read_bulk_stores,
            self._check_ray,
        ):
            try:
                check()
            except ValueError as error:
                problems.append(str(error))
        if problems:
            raise ValueError("\n".join(problems))
        return self

    def _resolve_checkpoints(self) -> None:
        for field in ("encoder_path", "tagger", "infill"):
            name = str(getattr(self, field))
            if is_pinned(name):
                folder = self._fetched(name, field)
                setattr(self, field, folder if field == "encoder_path" else str(folder))
        for name, path in self.finetune_models.items():
            if is_pinned(str(path)):
                self.finetune_models[name] = self._fetched(str(path), "finetune_models")

    def _fetched(self, name: str, field: str) -> Path:
        folder = checkpoint_folder(self.data_dir, name)
        if not folder.is_dir():
            raise ValueError(f"{field.upper()} is not fetched: privacy-gateway model fetch {name}")
        return folder

    def _check_models(self) -> None:
        for path in self.finetune_models.values():
            if not is_pinned(str(path)) and not path.is_dir():
                raise ValueError("FINETUNE_MODELS maps names to folders that exist, or to ORG/NAME@COMMIT")
        if BUNDLED in self.finetune_models:
            raise ValueError("FINETUNE_MODELS: `bundled` is the gateway's own encoder")
        if (
            self.tagger not in (TAGGER_BUNDLED, TAGGER_OFF)
            and not is_pinned(self.tagger)
            and not Path(self.tagger).is_dir()
        ):
            raise ValueError("TAGGER is `bundled`, `off`, a folder that exists, or ORG/NAME@COMMIT")

    def _check_infill(self) -> None:
        if self.infill_source in (INFILL_BUNDLED, INFILL_OFF) or is_url(self.infill) or is_pinned(self.infill):
            return
        if self.infill == INFILL_SMOLLM2:
            smollm2_file()
        elif not Path(self.infill).is_dir():
            raise ValueError("INFILL is `bundled`, `smollm2`, `off`, a folder that exists, ORG/NAME@COMMIT, or a URL")

    def _check_roles(self) -> None:
        if "jobs" not in self.serves and self.redis_url is None:
            raise ValueError("SERVES without jobs needs REDIS_URL: another gateway of that Redis runs the jobs")

    def _check_ray(self) -> None:
        own = {name: getattr(self, name) for name in RaySettings.model_fields if name != "jobs_on"}
        if self.jobs_on == "gateway":
            if any(value != RaySettings.model_fields[name].default for name, value in own.items()):
                raise ValueError("the settings RAY_... need JOBS_ON=ray")
            return
        needed = ("ray_url", "ray_token", "ray_gateway_url", "ray_port", "store_url")
        missing = [name.upper() for name in needed if not getattr(self, name)]
        if missing:
            raise ValueError(f"JOBS_ON=ray needs {', '.join(missing)}")
        if self.processes > 1 or self.ray_port in (self.port, self.admin_port):
            raise ValueError("JOBS_ON=ray needs PROCESSES=1, and a RAY_PORT that no other server has")
        for name in ("ray_url", "ray_gateway_url"):
            checked_address(getattr(self, name), name.upper(), plain_http=self.ray_plain_http)

    def _check_retention(self) -> None:
        if self.tombstone_retention_s <= self.response_retention_s:
            raise ValueError("a tombstone must outlive the answer: TOMBSTONE_RETENTION_S above RESPONSE_RETENTION_S")

    @property
    def bulk_stores(self) -> Mapping[str, BulkStoreSettings]:
        """The stores of bulk releases, by name."""
        return self._bulk_stores

    def _read_bulk_stores(self) -> None:
        path = self.bulk_stores_file
        if path is None:
            return
        try:
            found = BulkStoresFile.model_validate(read_file(path)).stores
        except ValidationError as error:
            wrong = (f"{'.'.join(map(str, entry['loc']))}: {entry['msg']}" for entry in error.errors())
            raise ValueError(f"BULK_STORES_FILE {path}: {'; '.join(wrong)}") from None
        own = [self.data_dir.absolute().as_uri(), *filter(None, [self.store_url])]
        for name, store in found.items():
            if any(is_inside(store.url, each) or is_inside(each, store.url) for each in own):
                raise ValueError(f"BULK_STORES_FILE {path}: stores.{name} has files of the gateway itself")
        self._bulk_stores = found
