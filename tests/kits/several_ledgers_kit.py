"""A gateway on two ledgers, `main` and `east`, for tests of several ledgers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from gateway_kit import LEAN, Tenant
from redis_kit import EmbeddedServer

WITHIN_S = 240
BODY = {"documents": [{"text": "The committee met. It will meet again."}], "epsilon": 1.0}


def settings(main: EmbeddedServer, **ledgers: EmbeddedServer) -> dict[str, str]:
    return LEAN | {
        "REDIS_URL": main.url,
        "PRIVACY_GATEWAY_MASTER_KEY": "11" * 32,
        "PRIVACY_GATEWAY_STORE_URL": f"file://{main.folder.parent / 'store'}",
        "PRIVACY_GATEWAY_LEDGERS": json.dumps({name: server.url for name, server in ledgers.items()}),
        "PRIVACY_GATEWAY_SERIES_INTERVAL_S": "0.2",
        "PRIVACY_GATEWAY_SEAL_INTERVAL_S": "0.2",
    }


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def series(tenant: Tenant) -> float:
    """The releases that the series of the tenant's sentences contain."""
    found = tenant.http.get("/budget/series", params={"unit": "sentence"}).json()
    return max((point["releases"] for row in found["series"] for point in row["points"]), default=0)
