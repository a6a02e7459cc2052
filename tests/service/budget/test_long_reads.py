"""Long answers about the ledger are made one at a time, so that no tenant crowds out the event loop."""

import time
from concurrent.futures import ThreadPoolExecutor

from gateway_kit import Tenant
from inprocess_kit import Gateway

from service.admission import LedgerReads


def test_each_long_read_waits_for_its_turn(gateway: Gateway, tenant: Tenant) -> None:
    assert tenant.embed().status_code == 200
    turns, account = gateway.service.parts[LedgerReads], f"/budget/{tenant.name}/sentence"
    paths = ["/budget", "/budget/series", *(account + end for end in ("/journal", "/journal/export", "/spending"))]
    for path in paths:
        gateway.on_loop(turns.wait("another"))
        with ThreadPoolExecutor(1) as client:
            read = client.submit(gateway.client(tenant.key).get, path)
            while turns.unfinished_of(tenant.name) == 0:
                assert not read.done(), path
                time.sleep(0.01)
            gateway.loop.call_soon_threadsafe(turns.end, "another")
            assert read.result().status_code == 200
