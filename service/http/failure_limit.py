"""A limit of failed authentications for each address: token buckets in this process.

Guarantee: only failures are counted and refused. A valid key is accepted whatever else its address has sent, so nobody
can lock out a caller behind the same address. The table has at most `ADDRESSES_MAX` entries.
"""

from __future__ import annotations

import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable

ADDRESSES_MAX = 10_000
_IPV6_NETWORK_BITS = 64  # a client can use every address of its network


class FailureLimit:
    """`failed` counts one failure. `per_minute` 0 disables the limit."""

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # failures left, and at what time

    def failed(self, address: str) -> int | None:
        """Count a failure of `address`. Returns the seconds to wait if it is beyond the limit, else None."""
        if self._per_minute == 0:
            return None
        network, now, per_second = _network(address), self._clock(), self._per_minute / 60
        left, at = self._left.pop(network, (float(self._per_minute), now))
        left = min(self._per_minute, left + (now - at) * per_second)
        while len(self._left) >= ADDRESSES_MAX:
            self._left.popitem(last=False)
        self._left[network] = (left if left < 1 else left - 1, now)
        return math.ceil((1 - left) / per_second) if left < 1 else None


def _network(address: str) -> str:
    """The address, or of an IPv6 address its network. Anything else is one entry."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return ""
    if found.version == 4:
        return str(found)
    return str(ipaddress.ip_network((found.packed, _IPV6_NETWORK_BITS), strict=False))
