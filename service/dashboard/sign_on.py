"""Signing in through an identity provider: the authorization code flow of OpenID Connect, with PKCE.

Guarantee: a session is opened only for an ID token that the provider has signed for this gateway, in answer to a
request that this browser has made within `REQUEST_S`. What the browser carries in between is encrypted. No token of the
provider is kept.

The libraries of the flow are imported when it is first used: most gateways have no provider.
"""

from __future__ import annotations

import base64
import json
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

from core.errors import SignOnFailed
from core.master_key import MasterKey, Purpose
from service.config.providers import Grant, SignOnSettings

if TYPE_CHECKING:
    from authlib.integrations.httpx_client import AsyncOAuth2Client
    from joserfc.jwk import KeySet

REQUEST_S = 600
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA")
_LEEWAY_S = 60
_TIMEOUT_S = 10.0
_KEYS_KEPT_S = 300.0


@dataclass(frozen=True)
class Person:
    """Who has signed in, and what the operator grants."""

    subject: str
    grant: Grant


class SignOn:
    """The gateway as a client of one provider. `clock`: seconds since 1970."""

    def __init__(
        self, settings: SignOnSettings, master_key: MasterKey, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._settings = settings
        self._master_key = master_key
        self._clock = clock
        self._metadata: dict[str, Any] | None = None
        self._keys: KeySet | None = None
        self._keys_until = 0.0

    @property
    def issuer(self) -> str:
        return self._settings.issuer

    async def begin(self, *, redirect_uri: str, view: str) -> tuple[str, str]:
        """The address of the provider to which a browser is sent, and what the browser carries meanwhile. `view`: what
        to show afterwards. Raises SignOnFailed."""
        carried = {
            "state": secrets.token_urlsafe(32),
            "nonce": secrets.token_urlsafe(32),
            "verifier": secrets.token_urlsafe(48),
            "view": view,
            "ends": int(self._clock()) + REQUEST_S,
        }
        metadata = await self._provider()
        async with self._client(redirect_uri) as client:
            address, _ = client.create_authorization_url(
                metadata["authorization_endpoint"],
                state=carried["state"],
                nonce=carried["nonce"],
                code_verifier=carried["verifier"],
            )
        sealed = self._master_key.wrap(Purpose.SIGN_ON, json.dumps(carried).encode(), bound_to="")
        return address, base64.urlsafe_b64encode(sealed).decode()

    async def finish(self, *, redirect_uri: str, carried: str, state: str, code: str) -> tuple[Person, str]:
        """The person of an answer of the provider, and the view to show. Raises SignOnFailed."""
        from authlib.common.errors import AuthlibBaseError
        from joserfc.errors import JoseError

        begun = self._opened(carried)
        if not secrets.compare_digest(begun["state"].encode(), state.encode()):
            raise SignOnFailed(reason="another-request")
        metadata = await self._provider()
        try:
            async with self._client(redirect_uri) as client:
                token = await client.fetch_token(
                    metadata["token_endpoint"],
                    code=code,
                    code_verifier=begun["verifier"],
                    grant_type="authorization_code",
                )
            claims = await self._claims(token["id_token"], begun["nonce"])
        except (AuthlibBaseError, JoseError, httpx.HTTPError, KeyError, TypeError, ValueError):
            raise SignOnFailed(reason="not-authentic") from None
        grant = self._grant(claims)
        if grant is None:
            raise SignOnFailed(reason="no-grant")
        return Person(claims["sub"], grant), begun["view"]

    def _client(self, redirect_uri: str) -> AsyncOAuth2Client:
        from authlib.integrations.httpx_client import AsyncOAuth2Client

        key = self._settings.key
        return AsyncOAuth2Client(
            client_id=self._settings.client_id,
            client_secret=None if key is None else key.get_secret_value(),
            token_endpoint_auth_method="none" if key is None else "client_secret_basic",
            scope=self._settings.scopes,
            redirect_uri=redirect_uri,
            code_challenge_method="S256",
            timeout=_TIMEOUT_S,
            trust_env=False,
        )

    def _opened(self, carried: str) -> dict[str, Any]:
        try:
            sealed = base64.urlsafe_b64decode(carried.encode("ascii"))
        except ValueError:  # also of characters that Base64 does not have
            sealed = b""
        plain = self._master_key.unwrap(Purpose.SIGN_ON, sealed, bound_to="")
        if plain is None:
            raise SignOnFailed(reason="another-request")
        found: dict[str, Any] = json.loads(plain)
        if found["ends"] <= self._clock():
            raise SignOnFailed(reason="too-late")
        return found

    async def _provider(self) -> dict[str, Any]:
        """What the provider says of itself. Raises SignOnFailed."""
        if self._metadata is None:
            found = await self._fetched(f"{self.issuer.rstrip('/')}/.well-known/openid-configuration")
            names = ("authorization_endpoint", "token_endpoint", "jwks_uri")
            if found.get("issuer") != self.issuer or not all(isinstance(found.get(name), str) for name in names):
                raise SignOnFailed(reason="provider")
            self._metadata = found
        return self._metadata

    async def _fetched(self, address: str) -> dict[str, Any]:
        try:
            async with httpx.AsyncClient(timeout=_TIMEOUT_S, trust_env=False) as client:
                answer = await client.get(address)
            found = answer.json() if answer.status_code == 200 else None
        except (httpx.HTTPError, ValueError):
            found = None
        if not isinstance(found, dict):
            raise SignOnFailed(reason="provider")
        return found

    async def _claims(self, id_token: str, nonce: str) -> Mapping[str, Any]:
        """The claims of an ID token. Raises JoseError or ValueError for one that is not for this request."""
        from joserfc import jwt
        from joserfc.errors import JoseError

        try:
            token = jwt.decode(id_token, await self._key_set(), algorithms=ALGORITHMS)
        except (JoseError, ValueError):  # the provider may have changed its keys
            token = jwt.decode(id_token, await self._key_set(again=True), algorithms=ALGORITHMS)
        jwt.JWTClaimsRegistry(
            now=lambda: int(self._clock()),
            leeway=_LEEWAY_S,
            iss={"essential": True, "value": self.issuer},
            aud={"essential": True, "value": self._settings.client_id},
            sub={"essential": True},
            exp={"essential": True},
            iat={"essential": True},
            nonce={"essential": True, "value": nonce},
        ).validate(token.claims)
        if token.claims.get("azp", self._settings.client_id) != self._settings.client_id:
            raise ValueError("for another client")
        if not isinstance(token.claims["sub"], str):
            raise ValueError("no subject")
        return token.claims

    async def _key_set(self, *, again: bool = False) -> KeySet:
        from joserfc.jwk import KeySet

        if self._keys is None or again or self._clock() >= self._keys_until:
            metadata = await self._provider()
            self._keys = KeySet.import_key_set(await self._fetched(metadata["jwks_uri"]))  # type: ignore[arg-type]
            self._keys_until = self._clock() + _KEYS_KEPT_S
        return self._keys

    def _grant(self, claims: Mapping[str, Any]) -> Grant | None:
        found = claims.get(self._settings.claim)
        values = found if isinstance(found, list) else [found]
        held = {value for value in values if isinstance(value, str)}
        return next((grant for value, grant in self._settings.grants.items() if value in held), None)
