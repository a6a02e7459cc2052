"""A limit of failed authentications for each address: token buckets in this process, and those that gateways share.

Guarantee: only failures are counted and refused. A valid key is accepted whatever else its address has sent, so nobody
can lock out a caller behind the same address. The table has at most `ADDRESSES_MAX` entries. An address is in the
shared buckets once it has used an eighth of the limit at one gateway; Redis has an HMAC of it.
"""

from __future__ import annotations

import contextlib
import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable

from core.errors import LedgerUnavailable
from service.http.rate_limit import Tokens

ADDRESSES_MAX = 10_000
SHARED_BELOW = 7 / 8  # of the limit, left at this gateway
_IPV6_NETWORK_BITS = 64  # a client can use every address of its network


class FailureLimit:
    """`failed` counts one failure. `per_minute` 0 disables the limit."""

    def __init__(
        self, per_minute: int, *, clock: Callable[[], float] = time.monotonic, shared: Tokens | None = None
    ) -> None:
        """`shared`: the buckets of all gateways. While Redis does not answer, those of this process count alone."""
        self._per_minute = per_minute
        self._shared = shared
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # failures left, and at what time

    async def failed(self, address: str) -> int | None:
        """Count a failure of `address`. Returns the seconds to wait if it is beyond the limit, else None."""
        if self._per_minute == 0:
            return None
        network, now, per_second = _network(address), self._clock(), self._per_minute / 60
        left, at = self._left.pop(network, (float(self._per_minute), now))
        left = min(self._per_minute, left + (now - at) * per_second)
        while len(self._left) >= ADDRESSES_MAX:
            self._left.popitem(last=False)
        self._left[network] = (left if left < 1 else left - 1, now)
        if left < 1:
            return math.ceil((1 - left) / per_second)
        if self._shared is not None and left <= self._per_minute * SHARED_BELOW:
            with contextlib.suppress(LedgerUnavailable):
                taken = await self._shared.take(network)
                return None if taken.admitted else max(1, math.ceil(taken.wait_s))
        return None


def _network(address: str) -> str:
    """The address, or of an IPv6 address its network. Anything else is one entry."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return ""
    if found.version == 4:
        return str(found)
    return str(ipaddress.ip_network((found.packed, _IPV6_NETWORK_BITS), strict=False))
