"""A pack that is replaced while releases that were priced with it wait for a worker."""

import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
from alert_kit import until
from gateway_kit import Tenant
from inline_engine import InlineEngine
from inprocess_kit import Gateway

from core.state.stored_files import DOMAINS
from gpu_workers.engine.protocol import Role
from gpu_workers.packs import pack_paths
from service.files.stored import StoredFiles

PACK = ".safetensors"
WITHIN_S = 120


def released_while_the_pack_changes(
    gateway: Gateway, tenant: Tenant, first: dict[str, str], change: Callable[[], Coroutine[Any, Any, Any]]
) -> tuple[httpx.Response, httpx.Response]:
    """The answers to a release that has been passed to its worker and to one by the pack `own` that waits behind it,
    when `change` happens meanwhile."""
    files, engine = gateway.service.parts[StoredFiles], gateway.service.engine
    assert isinstance(engine, InlineEngine)
    gateway.on_loop(files.put(tenant.name, DOMAINS, "own", {PACK: pack_paths()["general"]}))
    go = threading.Event()
    try:
        engine._thread.submit(go.wait, WITHIN_S)
        with ThreadPoolExecutor(2) as threads:
            handed_over = threads.submit(tenant.embed, **first)
            until(lambda: tenant.account()["reserved"]["epsilon"] and not engine.status(Role.EMBED).queued)
            queued = threads.submit(tenant.embed, domain="own")
            until(lambda: engine.status(Role.EMBED).queued)
            gateway.on_loop(files.put(tenant.name, DOMAINS, "own", {PACK: pack_paths()["reviews"]}))
            assert gateway.on_loop(change())
            go.set()
            return handed_over.result(), queued.result()
    finally:
        go.set()


def test_a_waiting_release_uses_the_pack_that_it_was_priced_with(gateway: Gateway) -> None:
    tenant, files = gateway.tenant(epsilon=10), gateway.service.parts[StoredFiles]
    answers = released_while_the_pack_changes(
        gateway,
        tenant,
        {"domain": "own"},
        lambda: files.find(tenant.name, DOMAINS, "own"),  # as another request does
    )
    assert [answer.status_code for answer in answers] == [200, 200]
    assert tenant.committed() == 2
    assert tenant.account()["reserved"]["epsilon"] == 0


def test_a_queued_release_whose_pack_is_deleted_is_not_charged(gateway: Gateway) -> None:
    tenant, files = gateway.tenant(epsilon=10), gateway.service.parts[StoredFiles]
    served, refused = released_while_the_pack_changes(
        gateway, tenant, {}, lambda: files.remove(tenant.name, DOMAINS, "own")
    )
    assert served.status_code == 200
    assert (refused.status_code, refused.json()["code"]) == (503, "worker-not-ready")
    assert tenant.committed() == 1
    assert tenant.account()["reserved"]["epsilon"] == 0
