"""A pack that is replaced while releases that were priced with it wait for a worker."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from inline_engine import InlineEngine
from inprocess_kit import Gateway

from core.ledger.stored_files import DOMAINS
from gpu_workers.engine.protocol import Role
from gpu_workers.packs import pack_paths

PACK = ".safetensors"
WITHIN_S = 120


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_waiting_release_uses_the_pack_that_it_was_priced_with(gateway: Gateway) -> None:
    files, engine = gateway.service.files, gateway.service.engine
    assert isinstance(engine, InlineEngine)
    tenant = gateway.tenant(epsilon=10)
    gateway.on_loop(files.put(tenant.name, DOMAINS, "own", {PACK: pack_paths()["general"]}))
    go = threading.Event()
    try:
        engine._thread.submit(go.wait, WITHIN_S)
        with ThreadPoolExecutor(2) as threads:
            handed_over = threads.submit(tenant.embed, domain="own")
            until(lambda: tenant.account()["reserved"]["epsilon"] and not engine.status(Role.EMBED).queued)
            queued = threads.submit(tenant.embed, domain="own")
            until(lambda: engine.status(Role.EMBED).queued)
            gateway.on_loop(files.put(tenant.name, DOMAINS, "own", {PACK: pack_paths()["reviews"]}))
            assert gateway.on_loop(files.find(tenant.name, DOMAINS, "own"))  # as another request does
            go.set()
            answers = handed_over.result(), queued.result()
    finally:
        go.set()
    assert [answer.status_code for answer in answers] == [200, 200]
    assert tenant.committed() == 2
    assert tenant.account()["reserved"]["epsilon"] == 0


def test_a_queued_release_whose_pack_is_deleted_is_not_charged(gateway: Gateway) -> None:
    files, engine = gateway.service.files, gateway.service.engine
    assert isinstance(engine, InlineEngine)
    tenant = gateway.tenant(epsilon=10)
    gateway.on_loop(files.put(tenant.name, DOMAINS, "own", {PACK: pack_paths()["general"]}))
    go = threading.Event()
    try:
        engine._thread.submit(go.wait, WITHIN_S)
        with ThreadPoolExecutor(2) as threads:
            handed_over = threads.submit(tenant.embed)
            until(lambda: tenant.account()["reserved"]["epsilon"] and not engine.status(Role.EMBED).queued)
            queued = threads.submit(tenant.embed, domain="own")
            until(lambda: engine.status(Role.EMBED).queued)
            gateway.on_loop(files.put(tenant.name, DOMAINS, "own", {PACK: pack_paths()["reviews"]}))
            gateway.on_loop(files.remove(tenant.name, DOMAINS, "own"))
            go.set()
            assert handed_over.result().status_code == 200
            refused = queued.result()
    finally:
        go.set()
    assert (refused.status_code, refused.json()["code"]) == (503, "worker-not-ready")
    assert tenant.committed() == 1
    assert tenant.account()["reserved"]["epsilon"] == 0
