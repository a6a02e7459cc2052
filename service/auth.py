"""Who calls: a tenant by its API key, or the operator by the admin key. The tenant comes from the key alone."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.exceptions import HTTPException

from service import metrics
from service.house import House, house

_bearer = HTTPBearer(auto_error=False, description="The tenant's API key, or the admin key for /admin.")
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]

_CHALLENGE = {"WWW-Authenticate": "Bearer"}


@dataclass(frozen=True)
class Caller:
    """An authenticated tenant."""

    tenant: str


async def caller(request: Request, given: Credentials, here: Annotated[House, Depends(house)]) -> Caller:
    """The tenant of the presented key.

    Raises:
        HTTPException: 401 for no key, an unknown or a revoked one; 403 for the admin key, which releases nothing.
        LedgerUnavailable: the key cannot be checked.
    """
    if given is None:
        raise HTTPException(401, headers=_CHALLENGE)
    with metrics.stage("authenticate"):
        if _is_admin(given.credentials, here):
            raise HTTPException(403)
        tenant = await here.keys.authenticate(given.credentials)
    if tenant is None:
        raise HTTPException(401, headers=_CHALLENGE)
    request.state.tenant = tenant.name
    request.state.headers = here.rate_limit.take(tenant.name)
    return Caller(tenant=tenant.name)


async def admin(given: Credentials, here: Annotated[House, Depends(house)]) -> None:
    """Let only the admin key pass. Raises HTTPException 401 without a key, 403 for a tenant's."""
    if given is None:
        raise HTTPException(401, headers=_CHALLENGE)
    if not _is_admin(given.credentials, here):
        raise HTTPException(403 if await here.keys.authenticate(given.credentials) else 401, headers=_CHALLENGE)


def _is_admin(presented: str, here: House) -> bool:
    return hmac.compare_digest(presented.encode(), here.admin_key.encode())
