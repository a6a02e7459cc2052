"""How many calls of one upstream a tenant may have open, so that no tenant takes all of them."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack

from core.errors import TenantLimitReached


class CallShares:
    """Used on the event loop only, without locks."""

    def __init__(self, *, calls_max: int, tenant_share: float) -> None:
        self._most = max(1, int(calls_max * tenant_share))
        self._open: Counter[tuple[str, str]] = Counter()

    def take(self, upstream: str, tenant: str, held: ExitStack) -> None:
        """Count a call until `held` is closed. Raises TenantLimitReached beyond the tenant's share."""
        place = upstream, tenant
        if self._open[place] >= self._most:
            raise TenantLimitReached(limit="upstream_calls_max")
        self._open[place] += 1
        held.callback(self._give_back, place)

    def _give_back(self, place: tuple[str, str]) -> None:
        self._open[place] -= 1
        if not self._open[place]:
            del self._open[place]
