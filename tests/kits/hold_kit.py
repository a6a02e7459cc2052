"""Waits for work that was charged and is not done yet, so that a test can kill what does it."""

from __future__ import annotations

import time

from gateway_kit import Tenant, cpu_ticks
from wait_kit import until

WAIT_S_MAX = 300.0
AT_WORK_TICKS = 20  # of a hundredth of a second


def until_held(tenant: Tenant, unit: str = "sentence", *, more_than: float = 0.0) -> None:
    """Until more than so much epsilon is reserved, and the work behind it has been passed to its worker.

    The gateway passes work on without waiting, so it has done so once it has answered further requests.
    """
    until(lambda: tenant.account(unit)["reserved"]["epsilon"] > more_than, "nothing is held")
    time.sleep(0.3)
    for _ in range(10):
        tenant.account(unit)


def until_at_work(pid: int, before: int) -> None:
    """Until a worker that had used `before` ticks of processor time while it was idle works on something."""
    until(lambda: cpu_ticks(pid) >= before + AT_WORK_TICKS, "it does not work")
