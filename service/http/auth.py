"""Authentication: a tenant by its API key, the operator by the admin key. The tenant comes from the key alone.

A browser may send a session in place of a key (`service/http/browser_sessions.py`).

`identify` runs before a body is read (`service/http/body.py`). Every route that is not public declares in one `Needs`
which role of a key it needs, or that it serves the operator. `Needs` is the only place that enforces roles.

`log_if_shared` writes what the operator does with the admin key outside of `/admin` to the log of administrative
actions.
"""

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

from fastapi import Depends, Request
from fastapi.dependencies.models import Dependant
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException

from core.credentials import same_credential
from core.errors import LedgerUnavailable, RoleMissing, TenantInactive
from core.ledger.hash_chain.admin_log import AdminLog
from core.ledger.records import TenantState
from core.redis.names import RELEASE_WORDS, SHARED_OWNER, check_words
from core.state.keystore import KeyRole, KeyStore
from core.state.sessions import Session
from service import metrics
from service.admission import LoadLimits, is_large
from service.http.browser_sessions import SAFE_METHODS, BrowserSessions
from service.http.problems import is_for_anthropic
from service.parts import parts_of

GUARDRAIL_PATH = "/beta/litellm_basic_guardrail_api"
# clients of Presidio know no key, and may send one as the password of an address
_BASIC_PATHS = frozenset(
    f"/{name}"
    for name in (
        "analyze",
        "anonymize",
        "anonymizers",
        "deanonymize",
        "deanonymizers",
        "recognizers",
        "supportedentities",
    )
)

# For the API page only. `identify` reads the header itself.
_documented = HTTPBearer(auto_error=False, description="The tenant's API key, or the admin key for /admin.")


@dataclass(frozen=True)
class Caller:
    """An authenticated tenant, the id of the key that it used, and the roles of that key. `session`: that of its
    browser, if it has sent one in place of the key. `releases`: whether its route does more than read. `words`: what
    the request says of its release (`Ledger.reserve`)."""

    tenant: str
    key_id: str
    roles: frozenset[KeyRole] = frozenset()
    session: Session | None = field(default=None, compare=False)
    tenant_state: TenantState = TenantState.ACTIVE
    releases: bool = field(default=False, compare=False)
    words: Mapping[str, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Operator:
    """The operator."""


class Authenticator:
    """Maps the `Authorization` header of a request to an identity. Each of `admin_keys` identifies the operator."""

    def __init__(
        self, keys: KeyStore, admin_keys: Sequence[str], limits: LoadLimits, sessions: BrowserSessions
    ) -> None:
        self.sessions = sessions
        self._keys = keys
        self._admin_keys = admin_keys
        self._limits = limits

    async def identity(self, authorization: str) -> Caller | Operator | None:
        """The identity that the header's credential belongs to. Raises LedgerUnavailable."""
        scheme, _, presented = authorization.partition(" ")
        if scheme.lower() != "bearer" or not presented.strip():
            return None
        if any(same_credential(presented, key) for key in self._admin_keys):
            return Operator()
        key = await self._keys.authenticate(presented)
        return None if key is None else Caller(key.tenant, key.key_id, key.roles, tenant_state=key.tenant_state)

    async def of_session(self, request: Request) -> Caller | Operator | None:
        """The identity that a browser's session stands for. Raises LedgerUnavailable, BrowserRefused."""
        session = await self.sessions.of(request)
        if session is None:
            return None
        self.sessions.check_origin(request, session)
        request.state.session = session
        if session.tenant is None:
            return Operator()
        state = await self._keys.tenant_state(session.tenant)
        return None if state.ended else Caller(session.tenant, session.credential, session.roles, session, state)

    async def rejected(self, authorization: str, address: str) -> HTTPException:
        """Count a failed authentication; the answer to it: 401, or 429 for too many from this address."""
        wait_s = await self._limits.failures.failed(address) if authorization else None
        reason = "limited" if wait_s is not None else "wrong" if authorization else "missing"
        metrics.AUTH_FAILURES.labels(reason).inc()
        if wait_s is not None:
            return HTTPException(429, headers={"Retry-After": str(wait_s)})
        return HTTPException(401, headers={"WWW-Authenticate": "Bearer"})

    async def refusal(self, caller: Caller | Operator | None) -> HTTPException | TenantInactive | None:
        """Why an answer to `caller` that is still open must end: its key, session or tenant has ended (401), its tenant
        was suspended and it does more than read, or its tenant is beyond its rate (429). None if it may continue, also
        while the ledger cannot be reached. The answers to the operator, and those that need no key, continue."""
        if not isinstance(caller, Caller):
            return None
        try:
            if caller.session is not None:
                is_valid = await self.sessions.is_open(caller.session)
            else:
                is_valid = await self._keys.is_valid(caller.tenant, caller.key_id)
            state = await self._keys.tenant_state(caller.tenant)
            if caller.releases and state is TenantState.SUSPENDED:
                return TenantInactive()
        except LedgerUnavailable:
            return None
        if not is_valid or state.ended:  # the keys of a tenant that was closed by command are revoked within seconds
            return HTTPException(401)
        return HTTPException(429) if self._limits.requests.is_exceeded(caller.tenant) else None


def _credential(request: Request) -> str:
    """The header `Authorization`, or what Anthropic's clients, LiteLLM's guardrails and Presidio's clients send in its
    place."""
    path, key = request.scope["path"], request.headers.get("x-api-key")
    has_own_header = is_for_anthropic(path) or path == GUARDRAIL_PATH
    if key is not None and "authorization" not in request.headers and has_own_header:
        return f"Bearer {key}"
    authorization = request.headers.get("authorization", "")
    return _password(authorization) if path in _BASIC_PATHS else authorization


def _password(authorization: str) -> str:
    """A basic authorization as that of a bearer of its password; any other as it is."""
    scheme, _, presented = authorization.partition(" ")
    if scheme.lower() != "basic":
        return authorization
    try:
        return f"Bearer {base64.b64decode(presented, validate=True).decode('ascii').partition(':')[2]}"
    except ValueError:
        return authorization


async def identify(request: Request) -> Caller | Operator:
    """The identity of a request, looked up once. A tenant's request also waits for its place (`LoadLimits`).

    Raises:
        HTTPException: 401 without a key, for an unknown, an expired and a revoked one; 429 beyond the
            tenant's rate, and for too many failures from one address.
        LedgerUnavailable: the key cannot be checked.
        BrowserRefused: a browser's session is used from elsewhere.
        TenantLimitReached, ClientGone: the tenant has no free place for a request.
        InvalidInput: `X-Purpose` or `X-Recipient` has characters that it may not have, or too many.
    """
    known: Caller | Operator | None = getattr(request.state, "identity", None)
    if known is not None:
        return known
    authenticator = parts_of(request)[Authenticator]
    with metrics.stage("authenticate"):
        authorization = _credential(request)
        if authorization:
            identity = await authenticator.identity(authorization)
        else:
            identity = await authenticator.of_session(request)
    if identity is None:
        raise await authenticator.rejected(authorization, request.client.host if request.client else "")
    request.state.identity = identity
    request.state.headers = {}
    if isinstance(identity, Caller):
        request.state.tenant = identity.tenant
        limits, exchange = parts_of(request)[LoadLimits], request.state.exchange
        request.state.headers = await limits.requests.take(identity.tenant)
        await exchange.take_place(limits.in_flight, identity.tenant, reads=not is_large(request.headers))
        if words := _words(request):
            identity = request.state.identity = replace(identity, words=words)
    return identity


def _words(request: Request) -> dict[str, str]:
    headers = {name: f"X-{name.title()}" for name in RELEASE_WORDS}
    return {
        name: check_words(text, field=header)
        for name, header in headers.items()
        if (text := request.headers.get(header))
    }


class Needs:
    """A dependency that admits the keys of tenants with `role` (None: of no tenant), and with `operator` the admin key.

    Keys of a suspended tenant only read: with the role `read`, or by GET.

    Raises HTTPException 403 for the admin key on a tenant's route and the reverse, RoleMissing, TenantInactive.
    """

    def __init__(self, role: KeyRole | None, *, operator: bool = False) -> None:
        self.role = role
        self.operator = operator

    async def __call__(self, request: Request, _: Annotated[object, Depends(_documented)] = None) -> Caller | Operator:
        identity = await identify(request)
        if isinstance(identity, Operator):
            if not self.operator:
                raise HTTPException(403)
        elif self.role is None:
            raise HTTPException(403)
        elif self.role not in identity.roles:
            raise RoleMissing(role=self.role.value)
        elif self.role is not KeyRole.READ and request.method not in SAFE_METHODS:
            if identity.tenant_state is not TenantState.ACTIVE:
                raise TenantInactive
            identity = request.state.identity = replace(identity, releases=True)
        return identity


def needs_of(dependant: Dependant) -> Iterator[Needs]:
    """What a route declares."""
    if isinstance(dependant.call, Needs):
        yield dependant.call
    for each in dependant.dependencies:
        yield from needs_of(each)


def _owner(identity: Caller | Operator) -> str:
    """The owner of jobs and domains: the tenant, or with the admin key all tenants together."""
    return identity.tenant if isinstance(identity, Caller) else SHARED_OWNER


async def _job_owner(identity: Annotated[Caller | Operator, Depends(Needs(KeyRole.JOBS, operator=True))]) -> str:
    return _owner(identity)


async def _reading_owner(identity: Annotated[Caller | Operator, Depends(Needs(KeyRole.READ, operator=True))]) -> str:
    return _owner(identity)


OPERATOR = Depends(Needs(None, operator=True))
READER = Depends(Needs(KeyRole.READ))
ReleaseCallerDep = Annotated[Caller, Depends(Needs(KeyRole.RELEASE))]
ReadCallerDep = Annotated[Caller, READER]
JobsCallerDep = Annotated[Caller, Depends(Needs(KeyRole.JOBS))]
AdminCallerDep = Annotated[Caller, Depends(Needs(KeyRole.ADMIN))]
OwnerDep = Annotated[str, Depends(_job_owner)]
ReadingOwnerDep = Annotated[str, Depends(_reading_owner)]


BY_OPERATOR = "operator"


async def log_if_shared(log: AdminLog, owner: str, *, action: str, name: str) -> None:
    """Log an action on a job or a domain that all tenants share. Actions of a tenant are not logged."""
    if owner == SHARED_OWNER:
        await log.append(by=BY_OPERATOR, action=action, target=f"shared/{name}")
