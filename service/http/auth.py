"""Who calls: a tenant by its API key, or the operator by the admin key. The tenant comes from the key alone.

`identify` runs before a body is read (`service/http/body.py`); the dependencies `require_tenant` and `require_admin`
then only say which of the two a route serves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException

from core.credentials import same_credential
from core.ledger.names import SHARED_OWNER
from service import metrics
from service.house import House

# for the API page; the header itself is read by `identify`
_documented = HTTPBearer(auto_error=False, description="The tenant's API key, or the admin key for /admin.")


@dataclass(frozen=True)
class Caller:
    """An authenticated tenant."""

    tenant: str


@dataclass(frozen=True)
class Admin:
    """The operator."""


async def identify(request: Request) -> Caller | Admin:
    """Who presents the request's key; asked once a request.

    Raises:
        HTTPException: 401 for no key, an unknown or a revoked one; 429 beyond the tenant's rate.
        LedgerUnavailable: the key cannot be checked.
    """
    known: Caller | Admin | None = getattr(request.state, "identity", None)
    if known is None:
        with metrics.stage("authenticate"):
            known = await _look_up(request, request.app.state.house)
        if known is None:
            raise HTTPException(401, headers={"WWW-Authenticate": "Bearer"})
        request.state.identity = known
        request.state.headers = {}
        if isinstance(known, Caller):
            request.state.tenant = known.tenant
            request.state.headers = request.app.state.house.rate_limit.take(known.tenant)
    return known


async def _look_up(request: Request, here: House) -> Caller | Admin | None:
    scheme, _, presented = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not presented.strip():
        return None
    if same_credential(presented, here.admin_key):
        return Admin()
    tenant = await here.keys.authenticate(presented)
    return None if tenant is None else Caller(tenant.name)


async def require_tenant(request: Request, _: Annotated[object, Depends(_documented)]) -> Caller:
    """The tenant. Raises HTTPException 403 for the admin key, which releases nothing."""
    caller = await identify(request)
    if not isinstance(caller, Caller):
        raise HTTPException(403)
    return caller


async def require_admin(request: Request, _: Annotated[object, Depends(_documented)]) -> None:
    """Let only the admin key pass. Raises HTTPException 403 for a tenant's."""
    if not isinstance(await identify(request), Admin):
        raise HTTPException(403)


async def job_owner(request: Request, _: Annotated[object, Depends(_documented)]) -> str:
    """Whose jobs and domains a request is about: the tenant's, or with the admin key the shared ones."""
    caller = await identify(request)
    return caller.tenant if isinstance(caller, Caller) else SHARED_OWNER
