"""How many calls of one upstream a tenant may have open, so that no tenant takes all of them."""

from collections import Counter
from contextlib import ExitStack

from core.errors import TenantLimitReached
from core.state.shared_limit import SharedLimit


class CallShares:
    """Used on the event loop only, without locks. With `shared` the share is that of all gateways together.

    They are no `Turns`: nobody waits for an upstream, and the count may be in Redis.
    """

    def __init__(self, most: int, *, shared: SharedLimit | None = None) -> None:
        self._most = most
        self._shared = shared
        self._open: Counter[str] = Counter()

    async def take(self, upstream: str, tenant: str, held: ExitStack) -> None:
        """Count a call until `held` is closed.

        Raises TenantLimitReached beyond the tenant's share, LedgerUnavailable.
        """
        place = call_place(upstream, tenant)
        if self._shared is not None:
            if not (await self._shared.take(place)).admitted:
                raise TenantLimitReached(limit="upstream_calls_max")
            held.callback(self._shared.give_back, place)
            return
        if self._open[place] >= self._most:
            raise TenantLimitReached(limit="upstream_calls_max")
        self._open[place] += 1
        held.callback(self._give_back, place)

    def _give_back(self, place: str) -> None:
        self._open[place] -= 1
        if not self._open[place]:
            del self._open[place]


def share(calls_max: int, tenant_share: float) -> int:
    """The calls of one upstream that a tenant may have open."""
    return max(1, int(calls_max * tenant_share))


def call_place(upstream: str, tenant: str) -> str:
    """The name of a tenant's part of an upstream. No tenant's name contains a space."""
    return f"{tenant} {upstream}"
