"""Authentication: a tenant by its API key, the operator by the admin key. The tenant comes from the key alone.

`identify` runs before a body is read (`service/http/body.py`). The dependencies `require_tenant`, `require_admin` and
`job_owner` then only state which identities a route serves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException

from core.credentials import same_credential
from core.ledger.keystore import KeyStore
from core.ledger.names import SHARED_OWNER
from service import metrics
from service.http.rate_limit import RateLimit

# For the API page only. `identify` reads the header itself.
_documented = HTTPBearer(auto_error=False, description="The tenant's API key, or the admin key for /admin.")


@dataclass(frozen=True)
class Caller:
    """An authenticated tenant, and the id of the key that it used."""

    tenant: str
    key_id: str


@dataclass(frozen=True)
class Admin:
    """The operator."""


class Authenticator:
    """Maps the `Authorization` header of a request to an identity."""

    def __init__(self, keys: KeyStore, admin_key: str, rate_limit: RateLimit) -> None:
        self._keys = keys
        self._admin_key = admin_key
        self._rate_limit = rate_limit

    async def identity(self, authorization: str) -> Caller | Admin | None:
        """The identity that the header's credential belongs to. Raises LedgerUnavailable."""
        scheme, _, presented = authorization.partition(" ")
        if scheme.lower() != "bearer" or not presented.strip():
            return None
        if same_credential(presented, self._admin_key):
            return Admin()
        key = await self._keys.authenticate(presented)
        return None if key is None else Caller(key.tenant, key.key_id)

    def admit(self, caller: Caller) -> dict[str, str]:
        """Count a request of `caller`; the headers of its rate limit. Raises HTTPException 429."""
        return self._rate_limit.take(caller.tenant)


async def identify(request: Request) -> Caller | Admin:
    """The identity of a request, looked up once.

    Raises:
        HTTPException: 401 without a key, for an unknown and for a revoked one; 429 beyond the tenant's rate.
        LedgerUnavailable: the key cannot be checked.
    """
    known: Caller | Admin | None = getattr(request.state, "identity", None)
    if known is not None:
        return known
    authenticator: Authenticator = request.app.state.authenticator
    with metrics.stage("authenticate"):
        identity = await authenticator.identity(request.headers.get("authorization", ""))
    if identity is None:
        raise HTTPException(401, headers={"WWW-Authenticate": "Bearer"})
    request.state.identity = identity
    request.state.headers = {}
    if isinstance(identity, Caller):
        request.state.tenant = identity.tenant
        request.state.headers = authenticator.admit(identity)
    return identity


async def require_tenant(request: Request, _: Annotated[object, Depends(_documented)]) -> Caller:
    """The calling tenant. Raises HTTPException 403 for the admin key, which releases nothing."""
    identity = await identify(request)
    if not isinstance(identity, Caller):
        raise HTTPException(403)
    return identity


async def require_admin(request: Request, _: Annotated[object, Depends(_documented)]) -> None:
    """Admit the admin key only. Raises HTTPException 403 for a tenant's key."""
    if not isinstance(await identify(request), Admin):
        raise HTTPException(403)


async def job_owner(request: Request, _: Annotated[object, Depends(_documented)]) -> str:
    """The owner of the jobs and domains of a request: the tenant, or with the admin key all tenants together."""
    identity = await identify(request)
    return identity.tenant if isinstance(identity, Caller) else SHARED_OWNER


CallerDep = Annotated[Caller, Depends(require_tenant)]
OwnerDep = Annotated[str, Depends(job_owner)]
