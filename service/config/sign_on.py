"""The setting `SIGN_ON`: an identity provider (OpenID Connect) whose people may open the dashboard."""

from __future__ import annotations

import hashlib
from typing import Annotated
from urllib.parse import urlsplit

import orjson
from pydantic import Field, PrivateAttr, SecretStr, model_validator

from core.state.keystore import KeyRole
from service.config.upstreams import Strict, is_loopback, key_of

_Tenant = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")]


class Grant(Strict):
    """What people with a value of the claim may do: as a key of a tenant with these roles, or as the operator."""

    tenant: _Tenant | None = None
    roles: list[Annotated[KeyRole, Field(strict=False)]] = Field([KeyRole.READ])
    operator: bool = False

    @model_validator(mode="after")
    def _one_of_both(self) -> Grant:
        if (self.tenant is None) != self.operator:
            raise ValueError('a grant names a tenant, or has "operator": true')
        if self.tenant is not None and KeyRole.READ not in self.roles:
            raise ValueError("the dashboard needs the role `read`")
        return self


class SignOnSettings(Strict):
    """`issuer`: as the provider states it. `claim`: the member of the ID token whose values `grants` maps. The first
    grant whose value a person has applies."""

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
