"""The views of the dashboard that one application offers. Each capability has its own rows (`service/capability.py`).

A view reads and changes what its key may, by the same REST calls as any client. It has no other way to the ledger.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from core.state.sessions import Session
from service.capability import View


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
