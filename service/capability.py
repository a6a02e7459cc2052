"""What a capability of the gateway is: the routes, services, prices and views that belong together, as one object.

Each folder of a capability has one, `CAPABILITY`, at the end of its endpoints or in a module of its own, and
`service/capabilities.py` has a row for each. The application, the gateway, the estimate and the dashboard are made by
loops over these rows. A field exists because at least one capability of the project needs it.
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Protocol

from fastapi import APIRouter

from core.state.keystore import KeyRole
from service.http.strict import Strict
from service.jobs.kind import JobKind
from service.parts import Parts
from service.releases.request import Price

Routes = APIRouter | Callable[[Parts], APIRouter]


class Pricing(Protocol):
    """The part of a charging endpoint that computes its price. The endpoint itself charges this price."""

    async def price(self, tenant: str, body: Any) -> Price: ...


class PresetPricing(Protocol):
    """The prices of presets, whose epsilon is fixed."""

    @property
    def names(self) -> Sequence[str]: ...

    async def price(self, tenant: str, name: str) -> Price: ...


@dataclass(frozen=True)
class Estimated:
    """A charging endpoint, as `POST /budget/estimate` and the headroom of an account price it.

    name: the endpoint's name.
    body: the body that the estimate accepts for it, usually the endpoint's own body.
    marks: members that only this body has, besides those of rows that come later. The estimate selects the first
        endpoint with a mark in the body, and one without marks if there is none.
    typical: makes the bodies with one document, text or vector at an epsilon, one for each mechanism. Empty for an
        endpoint whose price depends on more than that.
    route: the route that accepts these bodies, without its first slash.
    """

    name: str
    body: type[Strict]
    marks: Set[str]
    pricing: Pricing
    typical: Callable[[float], Sequence[Strict]] = lambda _: ()
    route: str = ""


@dataclass(frozen=True)
class View:
    """A view of the dashboard, whose script is `service/dashboard/static/views/NAME.js`.

    order: where the menu shows it; a session begins with the lowest that it may open.
    question: what the view answers, as its page says.
    role: what a tenant's key needs for it; None for a view of the operator.
    chart: whether it draws one.
    operator: a view of tenants that the operator opens, too, with other calls.
    shared: a view that the operator opens with the same calls, for what all tenants share.
    """

    order: int
    name: str
    title: str
    question: str
    role: KeyRole | None
    chart: bool = False
    operator: bool = False
    shared: bool = False


async def _nothing(_: Parts) -> None:
    """Do nothing at the start or at the end."""


@dataclass(frozen=True)
class Capability:
    """One capability. Functions of parts are called when all parts can be asked for, except those of `services`, which
    may ask for whatever their service needs: the order follows from that.

    routers: of the API of tenants. A function makes a router whose schema depends on other capabilities.
    operator_routers: of the API of the operator, which `admin_port` moves to a port of its own.
    common_routers: on every port.
    cluster_routers: on the port for the cluster that runs the jobs.
    services: how each part that the capability adds is built, by its type. A part that the settings leave out is None.
    job_kinds: the kinds of jobs.
    prices: the charging endpoints. The estimate looks for marks in the order of the capabilities.
    views: those of the dashboard.
    begin: called at the start, before the ledger is opened.
    background: what runs from the end of the start until the stop.
    end: called at the stop, before the engine and the ledger stop.
    leave: called at the stop when nothing of `background` runs any more, while the ledger can still be called.
    """

    name: str
    routers: Sequence[Routes] = ()
    operator_routers: Sequence[Routes] = ()
    common_routers: Sequence[Routes] = ()
    cluster_routers: Sequence[APIRouter] = ()
    services: Mapping[type, Callable[[Parts], Any]] = field(default_factory=dict)
    job_kinds: Callable[[Parts], Iterable[JobKind]] = lambda _: ()
    prices: Callable[[Parts], Iterable[Estimated]] = lambda _: ()
    views: Sequence[View] = ()
    begin: Callable[[Parts], Awaitable[None]] = _nothing
    background: Callable[[Parts], Iterable[Coroutine[Any, Any, None]]] = lambda _: ()
    end: Callable[[Parts], Awaitable[None]] = _nothing
    leave: Callable[[Parts], Awaitable[None]] = _nothing
