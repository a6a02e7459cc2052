"""`/dashboard`: pages for people, their files, and the sessions that they use in place of an API key."""

from typing import Annotated, NotRequired

from fastapi import APIRouter, Depends, Request, Response
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse
from typing_extensions import TypedDict

from core.errors import BrowserRefused, LedgerUnavailable, SignOnFailed
from core.ledger.transitions import Ledger
from core.master_key import MasterKey
from core.state.keystore import KeyRole, KeyStore
from core.state.sessions import Session, SignedInBy
from service.capability import Capability, View
from service.config.settings import Settings
from service.dashboard import pages
from service.dashboard.pages import Views
from service.dashboard.sign_in_link import SignInLink
from service.dashboard.sign_on import REQUEST_S, SignOn
from service.http.answers import AnswerRoute, doc
from service.http.auth import Caller, Needs, Operator
from service.http.browser_sessions import BrowserSessions, set_cookie
from service.parts import Part, Parts, parts_of

router = APIRouter(route_class=AnswerRoute, tags=["dashboard"])

PREFIX = "/dashboard"
SIGN_ON = f"{PREFIX}/sign-on"
LINK = f"{PREFIX}/link"
PLAYGROUND = "playground"
SIGN_ON_COOKIE = "pgw_sign_on"
READING = Needs(KeyRole.READ, operator=True)
IdentityDep = Annotated[Caller | Operator, Depends(READING)]


async def _provider(request: Request) -> SignOn | None:
    return parts_of(request).find(SignOn)


ProviderDep = Annotated[SignOn | None, Depends(_provider)]  # None where people sign in with a key alone


class BrowserSession(TypedDict):
    """A session of the dashboard."""

    tenant: Annotated[str | None, doc("The tenant; null for the operator.")]
    operator: Annotated[bool, doc("Whether it is the operator's.")]
    roles: Annotated[list[str], doc("What it may do, sorted.")]
    views: Annotated[list[str], doc("The views that it may open.")]
    ends_ms: Annotated[int, doc("When it ends, in milliseconds since the epoch.")]
    form_token: Annotated[str, doc("What a request that changes something has to send.")]
    last_entry: NotRequired[Annotated[int | None, doc("The tenant's last journal entry; absent from a sign-in.")]]


@router.post(f"{PREFIX}/session", summary="Sign in: a session for the key of this request")
async def sign_in(
    request: Request, response: Response, identity: IdentityDep, sessions: Part[BrowserSessions]
) -> BrowserSession:
    """The answer sets a cookie. The key needs the role `read`, or is the admin key."""
    sessions.check_host(request)
    if getattr(request.state, "session", None) is not None:
        raise BrowserRefused  # a session does not make another one, which would end later
    if isinstance(identity, Caller):
        session = await sessions.open(
            request,
            response,
            tenant=identity.tenant,
            by=SignedInBy.KEY,
            credential=identity.key_id,
            roles=identity.roles,
        )
    else:
        key = request.headers["authorization"].partition(" ")[2]
        session = await sessions.open_for_operator(request, response, key)
    return _shown(request, session)


@router.get(f"{PREFIX}/session", summary="The session of this browser")
async def session_of(request: Request, _: IdentityDep, ledger: Part[Ledger]) -> BrowserSession:
    """`last_entry`: the number of the tenant's last journal entry. A page that reads afterwards compares it with
    `GET /budget/events`, so that no change is missed in between."""
    session: Session | None = getattr(request.state, "session", None)
    if session is None:
        raise HTTPException(404)
    numbers = {} if session.tenant is None else await ledger.last_numbers([session.tenant])
    return {**_shown(request, session), "last_entry": numbers.get(session.tenant or "")}


@router.post(f"{PREFIX}/session/end", status_code=204, summary="Sign out: end the session of this browser")
async def sign_out(request: Request, response: Response, _: IdentityDep, sessions: Part[BrowserSessions]) -> None:
    await sessions.end(request, response)


@router.get(f"{PREFIX}/static/{{path:path}}", include_in_schema=False)
async def file(path: str, request: Request) -> Response:
    found = pages.files().get(path)
    if found is None:
        raise HTTPException(404)
    headers = {"ETag": found.tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == found.tag:
        return Response(status_code=304, headers=headers)
    return Response(found.content, headers=headers, media_type=found.media_type)


@router.get(LINK, include_in_schema=False)
async def follow_link(
    request: Request, sessions: Part[BrowserSessions], link: Part[SignInLink], token: str = ""
) -> Response:
    """Sign in by the link that the start of the gateway printed, and open the playground."""
    sessions.check_host(request)
    try:
        key = await link.use(request, token)
    except SignOnFailed as failed:
        return pages.sign_in(sign_on=None, refusal=failed.reason)
    response = pages.signed_on(PLAYGROUND if KeyRole.RELEASE in key.roles else "")
    await sessions.open(request, response, tenant=key.tenant, by=SignedInBy.KEY, credential=key.key_id, roles=key.roles)
    return response


@router.get(SIGN_ON, summary="Sign in through the identity provider", response_class=Response)
async def sign_on(request: Request, sessions: Part[BrowserSessions], provider: ProviderDep, view: str = "") -> Response:
    """Redirects to the provider. 404 without one."""
    sessions.check_host(request)
    if provider is None:
        raise HTTPException(404)
    try:
        address, carried = await provider.begin(
            redirect_uri=_redirect_uri(request), view=view if _views(request).exists(view) else ""
        )
    except SignOnFailed as error:
        return pages.sign_in(sign_on=_sign_on_address(request, view), refusal=error.reason)
    response = RedirectResponse(address, status_code=303)
    # `lax`, because the answer comes with a navigation from the provider's pages
    set_cookie(request, response, SIGN_ON_COOKIE, carried, samesite="lax", path=SIGN_ON, max_age=REQUEST_S)
    return response


@router.get(f"{SIGN_ON}/done", summary="The answer of the identity provider", response_class=Response)
async def signed_on(
    request: Request,
    sessions: Part[BrowserSessions],
    provider: ProviderDep,
    state: str = "",
    code: str = "",
    error: str | None = None,
) -> Response:
    sessions.check_host(request)
    if provider is None:
        raise HTTPException(404)
    try:
        if error is not None:
            raise SignOnFailed(reason="refused")
        person, view = await provider.finish(
            redirect_uri=_redirect_uri(request), carried=request.cookies.get(SIGN_ON_COOKIE, ""), state=state, code=code
        )
    except SignOnFailed as failed:
        return pages.sign_in(sign_on=_sign_on_address(request, ""), refusal=failed.reason)
    response = pages.signed_on(view)
    grant = person.grant
    await sessions.open_for_person(
        request,
        response,
        issuer=provider.issuer,
        subject=person.subject,
        tenant=grant.tenant,
        roles=() if grant.operator else grant.roles,
    )
    response.delete_cookie(SIGN_ON_COOKIE, path=SIGN_ON, httponly=True, samesite="lax")
    return response


@router.get("/", include_in_schema=False)
async def root(request: Request, sessions: Part[BrowserSessions]) -> Response:
    """To the playground, for whoever may open it or has not signed in."""
    try:
        session = await sessions.of(request)
    except LedgerUnavailable:
        return pages.unavailable()
    may_open = session is None or any(each.name == PLAYGROUND for each in _offered(request, session))
    return RedirectResponse(f"{PREFIX}/{PLAYGROUND}" if may_open else PREFIX, status_code=303)


@router.get(
    PREFIX, name="dashboard", summary="The dashboard: its first view, or the page to sign in", response_class=Response
)
@router.get(f"{PREFIX}/{{view}}", summary="A view of the dashboard", response_class=Response)
async def view(
    request: Request, sessions: Part[BrowserSessions], provider: ProviderDep, view: str | None = None
) -> Response:
    sessions.check_host(request)
    try:
        session = await sessions.of(request)
    except LedgerUnavailable:
        return pages.unavailable()
    if session is None:
        return pages.sign_in(sign_on=None if provider is None else _sign_on_address(request, view or ""))
    offered = _offered(request, session)
    found = next((each for each in offered if view in (None, each.name)), None)
    return pages.missing(session, offered) if found is None else pages.page(session, found, offered)


def _views(request: Request) -> Views:
    views: Views = request.app.state.views
    return views


def _offered(request: Request, session: Session) -> tuple[View, ...]:
    return _views(request).of(session)


def _sign_on_address(request: Request, view: str) -> str:
    return f"{SIGN_ON}?view={view}" if _views(request).exists(view) else SIGN_ON


def _redirect_uri(request: Request) -> str:
    return f"{request.url.scheme}://{request.headers['host']}{SIGN_ON}/done"


def _shown(request: Request, session: Session) -> BrowserSession:
    return {
        "tenant": session.tenant,
        "operator": session.tenant is None,
        "roles": sorted(session.roles),
        "views": [found.name for found in _offered(request, session)],
        "ends_ms": session.ends_ms,
        "form_token": session.form_token,
    }


def _sign_on(parts: Parts) -> SignOn | None:
    settings = parts[Settings].sign_on
    return None if settings is None else SignOn(settings, parts[MasterKey])


CAPABILITY = Capability(
    name="dashboard",
    common_routers=[router],
    services={SignOn: _sign_on, SignInLink: lambda parts: SignInLink(parts[KeyStore])},
)
