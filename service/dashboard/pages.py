"""The pages of the dashboard as HTML, their files, and which of them a session may open.

Pages and files are read from this package once. A page holds no data of a tenant but its name: its script asks the REST
API for everything else. Each capability has its own rows of views (`service/capability.py`). A view reads and changes
what its key may, by the same REST calls as any client. It has no other way to the ledger.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.metadata import version
from pathlib import PurePosixPath

from fastapi import Response
from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from core.state.sessions import Session
from service.capability import View

# A page runs and loads nothing but the gateway's own files, and asks nobody but the gateway.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; form-action 'none'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {"Content-Security-Policy": POLICY, "Cross-Origin-Opener-Policy": "same-origin"}
_MEDIA_TYPES = {".js": "text/javascript", ".css": "text/css", ".json": "application/json", ".svg": "image/svg+xml"}


@dataclass(frozen=True)
class File:
    content: bytes
    media_type: str
    tag: str


@cache
def _template(name: str) -> Template:
    environment = Environment(
        loader=PackageLoader("service.dashboard"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template(name)


# What a person reads who could not sign in through the identity provider.
REFUSALS = {
    "another-request": "This answer belongs to another request. Start again.",
    "too-late": "Signing in took too long. Start again.",
    "provider": "The identity provider cannot be reached.",
    "not-authentic": "The identity provider's answer is not valid.",
    "refused": "The identity provider refused to sign you in.",
    "link": "This link was used before, or is too old. Sign in with a key.",
    "no-grant": "You are signed in at the identity provider, but the operator grants you nothing on this gateway.",
}


def sign_in(*, sign_on: str | None, refusal: str = "") -> Response:
    """The page of whoever has no session. The address stays, so that signing in shows what was asked for. `sign_on`:
    the address that begins to sign in through the identity provider, if there is one. `refusal`: of `REFUSALS`."""
    return _page(
        "sign_in.html",
        status=403 if refusal else 200,
        sign_on=sign_on,
        refusal=REFUSALS.get(refusal, ""),
        version=version("privacy-gateway"),
    )


def signed_on(view: str) -> Response:
    """The page after signing in. It moves on by itself: a browser sends the session's cookie only with requests that
    begin on a page of the gateway, not with the redirect from the identity provider."""
    return _page("signed_on.html", address=f"/dashboard/{view}" if view else "/dashboard")


def unavailable() -> Response:
    """The page while the ledger cannot be reached, without which no session is known. It tries again by itself."""
    answer = _page("unavailable.html", status=503)
    answer.headers["Retry-After"] = "5"
    return answer


# The parts of the menu, by the first order of their views.
_GROUPS = ((130, "Work"), (60, "What happened?"), (40, "What is left?"), (0, "The gateway"))


def _groups(offered: Sequence[View]) -> dict[str, list[View]]:
    """The views by the question of their part of the menu."""
    found: dict[str, list[View]] = {}
    for view in offered:
        found.setdefault(next(title for order, title in _GROUPS if view.order >= order), []).append(view)
    return found


def page(session: Session, view: View, offered: Sequence[View]) -> Response:
    """The page of a view, with links to those that are offered."""
    return _page("view.html", session=session, view=view, groups=_groups(offered), version=version("privacy-gateway"))


def missing(session: Session, offered: Sequence[View]) -> Response:
    """The page for a view that does not exist, or that the session may not open."""
    return _page(
        "missing.html",
        status=404,
        session=session,
        view=None,
        groups=_groups(offered),
        version=version("privacy-gateway"),
    )


def statement_page(tenant: str, tables: Sequence[object]) -> Response:
    """A statement for an auditor, to print. Each of `tables` has `title`, `columns` and `rows`."""
    return _page("statement.html", tenant=tenant, tables=tables)


def _page(name: str, *, status: int = 200, **values: object) -> Response:
    content = _template(name).render(values)
    return Response(content, status_code=status, headers=_HEADERS, media_type="text/html")


@cache
def files() -> Mapping[str, File]:
    """The files of the pages, by their path under `static`."""
    root = resources.files("service.dashboard").joinpath("static")
    found = {}
    for folder in ("", "views/"):
        for entry in root.joinpath(folder).iterdir() if folder else root.iterdir():
            if entry.is_file() and (media_type := _MEDIA_TYPES.get(PurePosixPath(entry.name).suffix)):
                content = entry.read_bytes()
                tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
                found[f"{folder}{entry.name}"] = File(content, media_type, tag)
    return found


@dataclass(frozen=True)
class Surface:
    """Which API an application serves: that of tenants, that of the operator, or both. Its views call no other."""

    tenants: bool
    operator: bool


class Views:
    """The views of every capability, in the order of the menu."""

    def __init__(self, views: Iterable[View], surface: Surface) -> None:
        self._views = sorted(views, key=lambda view: view.order)
        self._surface = surface

    def of(self, session: Session) -> tuple[View, ...]:
        """The views that a session may open, the first one first."""
        surface = self._surface
        if session.tenant is None:
            return tuple(
                view
                for view in self._views
                if ((view.role is None or view.operator) and surface.operator) or (view.shared and surface.tenants)
            )
        return tuple(view for view in self._views if surface.tenants and view.role in session.roles)

    def exists(self, name: str) -> bool:
        """Whether there is a view of this name for anybody."""
        return any(view.name == name for view in self._views)
