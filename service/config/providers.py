"""Servers that the gateway uses for its tenants, and the keys with which it calls them.

`UPSTREAMS` names language models of the operator's choice, `SIGN_ON` an identity provider (OpenID Connect) whose people
may open the dashboard.

Guarantee: a key is read once, when the settings are read, and is part of no `repr`, message or dump of a setting.
"""

from __future__ import annotations

import hashlib
import ipaddress
import itertools
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import orjson
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, SecretStr, field_validator, model_validator

from core import credentials
from core.state.keystore import KeyRole


def key_of(*, env: str | None, file: str | None) -> SecretStr | None:
    """The secret, read once; None if neither is named. Raises ValueError for both, and for one that cannot be read."""
    if env is not None and file is not None:
        raise ValueError("either key_env or key_file")
    if env is not None:
        if env not in os.environ:
            raise ValueError("key_env names a variable that is not set")
        return SecretStr(credentials.token(os.environ[env]))
    if file is None:
        return None
    try:
        text = Path(file).read_text(encoding="ascii")
    except (OSError, ValueError):
        raise ValueError("key_file cannot be read") from None
    return SecretStr(credentials.token(text))


UpstreamKind = Literal["openai", "anthropic"]

# Where an answer repeats the key, `[key]` takes its place. A shorter key may stand in an answer by chance, as a word of
# it or in its JSON, and the answer would be damaged. The keys of OpenAI and Anthropic have more than 40 characters.
UPSTREAM_KEY_CHARS_MIN = 16

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9.])?")
_HEADER_NAME = re.compile(r"[A-Za-z0-9-]{1,64}")
_HEADER_VALUE = re.compile(r"[!-~]([ -~]{0,4094}[!-~])?")
# Members of the connection and of the message, which the client sets itself.
_HEADERS_KEPT = frozenset(
    {
        "host", "connection", "content-length", "content-encoding", "content-type", "transfer-encoding", "te",
        "trailer", "upgrade", "expect", "accept", "accept-encoding", "cookie", "proxy-authorization", "keep-alive",
    }
)  # fmt: skip

ModelName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}$")]
Tenant = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")]
_Seconds = Annotated[float, Field(gt=0, le=86_400)]


class StrictSetting(BaseModel):
    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        allow_inf_nan=False,
        frozen=True,
        hide_input_in_errors=True,
        protected_namespaces=(),
    )


class UpstreamModel(StrictSetting):
    """A model: its name for the gateway's clients, and its name at the upstream (by default the same)."""

    name: ModelName
    upstream_model: str | None = Field(None, pattern=r"^[!-~]{1,256}$")


class UpstreamSettings(StrictSetting):
    """One member of the setting `UPSTREAMS`.

    `base_url`: as the SDK of this kind takes it (`https://api.openai.com/v1`, `https://api.anthropic.com`).
    `tenants`: those who may use it; None for all.
    `private_addresses`: whether its name may resolve to private and loopback addresses, and `http://` be used there.
    """

    base_url: str
    kind: UpstreamKind
    models: list[UpstreamModel] = Field(min_length=1, max_length=1000)
    key_env: str | None = Field(None, min_length=1)
    key_file: str | None = Field(None, min_length=1)
    tenants: list[Tenant] | None = Field(None, min_length=1)
    connect_timeout_s: _Seconds | None = None
    read_timeout_s: _Seconds | None = None
    total_timeout_s: _Seconds | None = None
    private_addresses: bool = False
    ca_file: str | None = Field(None, min_length=1)
    headers: dict[str, SecretStr] = Field(default_factory=dict)

    _key: SecretStr | None = PrivateAttr(None)

    @property
    def key(self) -> SecretStr | None:
        return self._key

    @field_validator("models", mode="before")
    @classmethod
    def _plain_names(cls, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        return [{"name": entry} if isinstance(entry, str) else entry for entry in value]

    @field_validator("models")
    @classmethod
    def _distinct(cls, value: list[UpstreamModel]) -> list[UpstreamModel]:
        if len({model.name for model in value}) < len(value):
            raise ValueError("a model is listed twice")
        return value

    @field_validator("headers")
    @classmethod
    def _check_headers(cls, value: dict[str, SecretStr]) -> dict[str, SecretStr]:
        if not all(_HEADER_NAME.fullmatch(name) and name.lower() not in _HEADERS_KEPT for name in value):
            raise ValueError("a header's name has letters, digits and -, and is none of those that the gateway sets")
        if not all(_HEADER_VALUE.fullmatch(header.get_secret_value()) for header in value.values()):
            raise ValueError("a header's value has visible ASCII characters and blanks between them")
        return {name.lower(): header for name, header in value.items()}

    @model_validator(mode="after")
    def _check_url(self) -> UpstreamSettings:
        parts = urlsplit(self.base_url)
        try:
            port = parts.port
        except ValueError:
            port = 0
        if parts.scheme not in ("https", "http") or not parts.hostname or port == 0:
            raise ValueError("base_url is https://HOST[:PORT]/PATH, or http://")
        if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
            raise ValueError("base_url has no user, query or fragment; the key has key_env or key_file")
        if not re.fullmatch(r"[A-Za-z0-9._~/-]*", parts.path) or ".." in parts.path:
            raise ValueError("the path of base_url has letters, digits and - . _ ~ / alone")
        if not is_host(parts.hostname):
            raise ValueError("the host of base_url is an ASCII name or an address")
        if parts.scheme == "http" and not self.private_addresses and not is_loopback(parts.hostname):
            raise ValueError("http:// is for this machine, or with private_addresses; use https://")
        return self

    @model_validator(mode="after")
    def _read_files(self) -> UpstreamSettings:
        self._key = key_of(env=self.key_env, file=self.key_file)
        if self._key is not None and len(self._key.get_secret_value()) < UPSTREAM_KEY_CHARS_MIN:
            raise ValueError(
                f"the key of an upstream has at least {UPSTREAM_KEY_CHARS_MIN} characters; an upstream that needs no "
                "key has neither key_env nor key_file"
            )
        if self.ca_file is not None and not Path(self.ca_file).is_file():
            raise ValueError("ca_file is no file")
        return self


def check_no_overlap(upstreams: Mapping[str, UpstreamSettings]) -> None:
    """Raise ValueError if a tenant would get one model from two upstreams."""
    for (first, one), (second, other) in itertools.combinations(upstreams.items(), 2):
        if one.tenants is not None and other.tenants is not None and not set(one.tenants) & set(other.tenants):
            continue
        if {model.name for model in one.models} & {model.name for model in other.models}:
            raise ValueError(f"UPSTREAMS: {first} and {second} serve the same model to the same tenant")


def is_loopback(host: str) -> bool:
    """Whether the host of a URL is this machine by its form alone."""
    if host.lower().rstrip(".") == "localhost":
        return True
    return is_address(host) and ipaddress.ip_address(host).is_loopback


def is_host(name: str) -> bool:
    """Whether this is an ASCII name or an address, by its form alone."""
    return _HOST.fullmatch(name) is not None or is_address(name)


def is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return "%" not in host


class Grant(StrictSetting):
    """What people with a value of the claim may do: as a key of a tenant with these roles, or as the operator."""

    tenant: Tenant | None = None
    roles: list[Annotated[KeyRole, Field(strict=False)]] = Field([KeyRole.READ])
    operator: bool = False

    @model_validator(mode="after")
    def _one_of_both(self) -> Grant:
        if (self.tenant is None) != self.operator:
            raise ValueError('a grant names a tenant, or has "operator": true')
        if self.tenant is not None and KeyRole.READ not in self.roles:
            raise ValueError("the dashboard needs the role `read`")
        return self


class SignOnSettings(StrictSetting):
    """The setting `SIGN_ON`.

    `issuer`: as the provider states it. `claim`: the member of the ID token whose values `grants` maps. The first
    grant whose value a person has applies.
    """

    issuer: str
    client_id: str = Field(min_length=1, max_length=256)
    key_env: str | None = Field(None, min_length=1)
    key_file: str | None = Field(None, min_length=1)
    scopes: str = Field("openid", pattern=r"^openid( [!-~]+)*$")
    claim: str = Field("groups", min_length=1, max_length=256)
    grants: dict[str, Grant] = Field(min_length=1, max_length=1000)

    _key: SecretStr | None = PrivateAttr(None)

    @property
    def key(self) -> SecretStr | None:
        """The client's secret; None for a public client."""
        return self._key

    @property
    def grants_digest(self) -> str:
        """What tells two mappings of people to grants apart: the provider, the claim, and the grants in their order."""
        grants = [(value, grant.model_dump(mode="json")) for value, grant in self.grants.items()]
        return hashlib.sha256(orjson.dumps([self.issuer, self.client_id, self.claim, grants])).hexdigest()

    @model_validator(mode="after")
    def _check(self) -> SignOnSettings:
        parts = urlsplit(self.issuer)
        if not parts.hostname or parts.query or parts.fragment or parts.username is not None:
            raise ValueError("issuer is https://HOST[:PORT][/PATH]")
        if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname)):
            raise ValueError("issuer has https://, or is on this machine")
        self._key = key_of(env=self.key_env, file=self.key_file)
        return self
