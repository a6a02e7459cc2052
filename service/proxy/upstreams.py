"""The operator's language models: which tenant may call which, under which name, with which key.

Guarantee: a tenant finds a model only if the operator lets the tenant use its upstream, and a model that a tenant may
not use is the same error as one that does not exist. Keys and the operator's headers are part of no `repr`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from core.errors import UnknownName
from service.config.providers import UpstreamKind, UpstreamSettings, is_loopback
from service.config.settings import Settings

ANTHROPIC_VERSION = "2023-06-01"  # sent where the client names none

_OTHER_KIND: Mapping[UpstreamKind, str] = {
    "openai": "This model is served in the format of OpenAI alone.",
    "anthropic": "This model is served in the format of Anthropic alone.",
}


@dataclass(frozen=True)
class Upstream:
    """One language model service.

    `own_headers`: the key and the operator's headers, names in lower case. They replace those of a client.
    `default_headers`: those that a client's replace.
    """

    name: str
    kind: UpstreamKind
    base_url: str
    host: str
    port: int
    private_addresses: bool
    connect_timeout_s: float
    read_timeout_s: float
    total_timeout_s: float
    ca_file: Path | None = None
    key: str | None = field(default=None, repr=False)
    own_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    default_headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def encrypted(self) -> bool:
        return self.base_url.startswith("https:")

    @property
    def loopback_addresses(self) -> bool:
        return self.private_addresses or is_loopback(self.host)


@dataclass(frozen=True)
class ServedModel:
    """`name`: for clients of the gateway. `upstream_model`: what the upstream calls it."""

    name: str
    upstream_model: str
    upstream: Upstream
    tenants: frozenset[str] | None

    def is_for(self, tenant: str) -> bool:
        return self.tenants is None or tenant in self.tenants


class Upstreams:
    """Every model that the operator serves from elsewhere."""

    def __init__(self, served: Iterator[ServedModel] | list[ServedModel]) -> None:
        """No tenant may have two models of one name; `Settings` checks that."""
        self._served = list(served)

    @property
    def all(self) -> list[Upstream]:
        """The upstreams, in the order of the setting."""
        return list({model.upstream.name: model.upstream for model in self._served}.values())

    def visible(self, tenant: str) -> list[ServedModel]:
        """The models that a tenant may call, in the order of the setting."""
        return [model for model in self._served if model.is_for(tenant)]

    def is_shared(self, upstream: Upstream) -> bool:
        """Whether several tenants may call the upstream, or another one with its address and key."""
        tenants: set[str] = set()
        for served in self._served:
            if (served.upstream.base_url, served.upstream.key) == (upstream.base_url, upstream.key):
                if served.tenants is None:
                    return True
                tenants |= served.tenants
        return len(tenants) > 1

    def find(self, model: str, tenant: str, kind: UpstreamKind) -> tuple[Upstream, str]:
        """The upstream that serves a model to a tenant, and the model's name there. Raises UnknownName."""
        for served in self.visible(tenant):
            if served.name == model:
                if served.upstream.kind != kind:
                    raise UnknownName(_OTHER_KIND[served.upstream.kind], code="unknown-model")
                return served.upstream, served.upstream_model
        raise UnknownName(code="unknown-model")


def load_upstreams(settings: Settings) -> Upstreams:
    """The upstreams of the settings."""
    return Upstreams(
        ServedModel(
            name=model.name,
            upstream_model=model.upstream_model or model.name,
            upstream=upstream,
            tenants=None if given.tenants is None else frozenset(given.tenants),
        )
        for name, given in settings.upstreams.items()
        for upstream in (_upstream(name, given, settings),)
        for model in given.models
    )


def _upstream(name: str, given: UpstreamSettings, settings: Settings) -> Upstream:
    parts = urlsplit(given.base_url)
    key = given.key.get_secret_value() if given.key else None
    return Upstream(
        name=name,
        kind=given.kind,
        base_url=given.base_url.rstrip("/"),
        host=parts.hostname or "",
        port=parts.port or (443 if parts.scheme == "https" else 80),
        private_addresses=given.private_addresses,
        connect_timeout_s=given.connect_timeout_s or settings.upstream_connect_timeout_s,
        read_timeout_s=given.read_timeout_s or settings.upstream_read_timeout_s,
        total_timeout_s=given.total_timeout_s or settings.upstream_total_timeout_s,
        ca_file=Path(given.ca_file) if given.ca_file else None,
        key=key,
        own_headers=_key_header(given.kind, key) | {n: v.get_secret_value() for n, v in given.headers.items()},
        default_headers={"anthropic-version": ANTHROPIC_VERSION} if given.kind == "anthropic" else {},
    )


def _key_header(kind: UpstreamKind, key: str | None) -> dict[str, str]:
    if key is None:
        return {}
    return {"authorization": f"Bearer {key}"} if kind == "openai" else {"x-api-key": key}
