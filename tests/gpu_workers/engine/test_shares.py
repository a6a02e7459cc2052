"""Shares of tenants: a few of them never leave nothing to the next one."""

import pytest

from core.errors import TenantLimitReached
from gpu_workers.engine.fairness import MemoryShares, tenant_places


def test_every_tenant_takes_a_share_of_what_the_others_leave_free() -> None:
    taken: list[int] = []
    while (part := tenant_places(32, others=sum(taken), share=0.5)) > 0:
        taken.append(part)
    assert taken == [16, 8, 4, 2, 1, 1]


def test_owners_at_their_limits_leave_memory_to_the_next_one() -> None:
    shares = MemoryShares(bytes_max=100, owner_bytes_max=40, limit="some_bytes_max")
    for owner, part in (("a", 40), ("b", 30), ("c", 15)):
        with pytest.raises(TenantLimitReached) as refused:
            shares.take(owner, part + 1)
        assert refused.value.limit == "some_bytes_max"
        shares.take(owner, part)
    shares.take("d", 7)
    shares.give_back("a", 40)
    shares.take("d", 20)
