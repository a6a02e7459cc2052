"""Who a browser's request comes from, by the session in its cookie.

Guarantee: a session is worth no more than the key that it was given for. It ends with the key, and a request that
changes something must come from a page of the gateway (`Origin`) and repeat the session's form token. The cookie is not
readable for scripts, is sent to this host alone, and is never sent with requests that other sites cause.
"""

from collections.abc import Iterable, Sequence
from typing import Literal
from urllib.parse import urlsplit

from fastapi import Request, Response

from core.errors import BrowserRefused
from core.state.keystore import KeyRole, KeyStore
from core.state.sessions import Session, SessionStore, SignedInBy

COOKIE = "pgw_session"
FORM_HEADER = "X-Form-Token"
SAFE_METHODS = ("GET", "HEAD")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class BrowserSessions:
    """Sessions of tenants' keys, of the admin keys and of people.

    `grants`: the digest of the setting that grants sessions to people of an identity provider; None without one.
    `hosts`: the names under which the dashboard is served.
    """

    def __init__(
        self,
        store: SessionStore,
        keys: KeyStore,
        admin_keys: Sequence[str],
        *,
        grants: str | None,
        hosts: Sequence[str],
    ) -> None:
        self._store = store
        self._keys = keys
        self._admin_credentials = frozenset(map(store.admin_credential, admin_keys))
        self._grants = grants
        self._hosts = frozenset(host.lower().strip("[]") for host in hosts)

    def check_host(self, request: Request) -> None:
        """Raise BrowserRefused for a name that a rebound address could have."""
        if _host(request) not in self._hosts:
            raise BrowserRefused(code="host-refused")

    async def of(self, request: Request) -> Session | None:
        """The session of a request whose key is still valid. Raises LedgerUnavailable, BrowserRefused."""
        token = request.cookies.get(COOKIE)
        if not token:
            return None
        self.check_host(request)
        session = await self._store.find(token)
        return session if session is not None and await self.is_valid(session) else None

    async def is_valid(self, session: Session) -> bool:
        """Whether a session has not ended, nor its key, nor the grant of its person. Raises LedgerUnavailable."""
        if self._store.has_ended(session):
            return False
        if session.by is SignedInBy.ADMIN_KEY:
            return session.credential in self._admin_credentials
        if session.by is SignedInBy.SIGN_ON:
            return session.grants == self._grants
        return session.tenant is not None and await self._keys.is_valid(session.tenant, session.credential)

    async def is_open(self, session: Session) -> bool:
        """As `is_valid`, for a session that was found a while ago: it may have been ended since."""
        return await self._store.is_known(session) and await self.is_valid(session)

    def check_origin(self, request: Request, session: Session) -> None:
        """Raise BrowserRefused for a request that changes something and does not come from a page of ours."""
        if request.method in SAFE_METHODS:
            return
        origin = urlsplit(request.headers.get("origin", "")).netloc
        same = origin and origin == request.headers.get("host")
        if not same or request.headers.get(FORM_HEADER) != session.form_token:
            raise BrowserRefused

    async def open(
        self,
        request: Request,
        response: Response,
        *,
        tenant: str | None,
        by: SignedInBy,
        credential: str,
        roles: Iterable[KeyRole],
        grants: str = "",
    ) -> Session:
        """Open a session and set its cookie."""
        token, session = await self._store.open(tenant, by, credential, frozenset(roles), grants=grants)
        set_cookie(request, response, COOKIE, token, samesite="strict", path="/")
        return session

    async def open_for_operator(self, request: Request, response: Response, admin_key: str) -> Session:
        """As `open`, for an admin key that was accepted."""
        credential = self._store.admin_credential(admin_key)
        return await self.open(request, response, tenant=None, by=SignedInBy.ADMIN_KEY, credential=credential, roles=())

    async def open_for_person(
        self,
        request: Request,
        response: Response,
        *,
        issuer: str,
        subject: str,
        tenant: str | None,
        roles: Iterable[KeyRole],
    ) -> Session:
        """As `open`, for a person of an identity provider."""
        credential = self._store.person_credential(issuer, subject)
        return await self.open(
            request,
            response,
            tenant=tenant,
            by=SignedInBy.SIGN_ON,
            credential=credential,
            roles=roles,
            grants=self._grants or "",
        )

    async def end(self, request: Request, response: Response) -> None:
        """End the session of a request, and remove its cookie."""
        if token := request.cookies.get(COOKIE):
            await self._store.end(token)
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")

    async def end_all(self, tenant: str | None) -> None:
        """End every session of a tenant, or those of the operator. Raises LedgerUnavailable."""
        await self._store.end_all(tenant)


def set_cookie(
    request: Request,
    response: Response,
    name: str,
    value: str,
    *,
    samesite: Literal["strict", "lax"],
    path: str,
    max_age: int | None = None,
) -> None:
    """Set a cookie that no script reads. Browsers accept it over TLS only, but on this machine itself."""
    secure = _host(request) not in _LOOPBACK
    response.set_cookie(name, value, max_age=max_age, httponly=True, samesite=samesite, secure=secure, path=path)


def _host(request: Request) -> str:
    """The name of the `Host` header, without a port."""
    try:
        return (urlsplit(f"//{request.headers.get('host', '')}").hostname or "").lower()
    except ValueError:
        return ""
