"""Alerts that arrive: signed webhooks of two gateways on one ledger, retries, restarts and what is lost."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from alert_kit import Receiver, is_genuine, until
from event_kit import event
from gateway_kit import LEAN
from inprocess_kit import opened_gateway
from redis_kit import GuardedServer, running_server

from core.accounting.events import Unit
from core.ledger.records import Charge
from service.alerts import delivery
from service.alerts.delivery import AlertWatch, DeliveryLimits

CANARY = "Zimtstern-4711"
_numbers = itertools.count()


class World:
    """Two gateways on one Redis, and a webhook server."""

    def __init__(self, folder: Path, ended: ExitStack) -> None:
        self.redis = ended.enter_context(running_server(folder / "redis", GuardedServer))
        self.receiver = Receiver()
        ended.callback(self.receiver.close)
        shared = {"MASTER_KEY": "ab" * 32, "STORE_URL": f"file://{folder}/store"}
        shared["ALERT_WEBHOOK_PRIVATE_ADDRESSES"] = "true"
        self.gateways = [
            ended.enter_context(
                opened_gateway(
                    folder / name,
                    LEAN | {"REDIS_URL": self.redis.url},
                    changes={"service.alerts.delivery.ALERT_INTERVAL_S": 0.1},
                    **shared,
                )
            )
            for name in ("a", "b")
        ]

    def tenant(self) -> Watched:
        return Watched(self, f"watched-{next(_numbers)}")


class Watched:
    """A tenant with a budget of 10 and an `admin` key."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.tenant = world.gateways[0].tenant(name, epsilon=10)
        self.http = world.gateways[0].with_key(self.tenant, "admin", "read").http

    def rule(self, name: str = "near", **fields: Any) -> str:
        """Store a rule; returns the secret of its webhook."""
        body = {"when": {"kind": "budget_used", "share": 0.5}, "webhook": {"url": self.world.receiver.url}} | fields
        answer = self.http.put(f"/alerts/rules/{name}", json=body)
        assert answer.status_code == 201, answer.text
        return answer.json()["webhook"]["secret"]

    def spend(self, epsilon: float) -> None:
        gateway = self.world.gateways[0]
        ledger, charge = gateway.service.ledger, Charge(event("pure", epsilon, unit=Unit.RECORD))
        release = gateway.on_loop(ledger.reserve(self.name, [charge])).release_id
        gateway.on_loop(ledger.commit(self.name, release))

    def events(self) -> list[dict[str, Any]]:
        return self.world.receiver.events(self.name)

    def until_event(self, kind: str) -> dict[str, Any]:
        return until(lambda: next((event for event in self.events() if event["type"] == kind), None))

    def last_delivery(self, rule: str = "near") -> dict[str, Any]:
        return self.http.get(f"/alerts/rules/{rule}").json()["last_delivery"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delivery, "DELIVERIES", DeliveryLimits(attempts_max=5, retry_s=0.2))
        with ExitStack() as ended:
            yield World(tmp_path_factory.mktemp("alerts"), ended)


def test_an_alert_arrives_signed_once_and_says_when_it_is_over(world: World) -> None:
    tenant, bystander = world.tenant(), world.tenant()
    secret = tenant.rule()
    bystander.rule()
    tenant.spend(6)
    fired = tenant.until_event("alert.fired")
    [listed] = tenant.http.get("/alerts", params={"status": "open"}).json()["alerts"]
    assert fired["alert"] == listed
    assert (listed["rule"], listed["kind"], listed["target"]) == ("near", "budget_used", f"{tenant.name}/record")
    assert listed["facts"] == {"used": 0.6, "share": 0.5}
    raised = {"when": {"kind": "budget_used", "share": 0.9}, "webhook": {"url": world.receiver.url}}
    assert tenant.http.put("/alerts/rules/near", json=raised).status_code == 200
    over = tenant.until_event("alert.over")
    assert over["alert"]["id"] == fired["alert"]["id"]
    assert over["alert"]["over_ms"] >= over["alert"]["fired_ms"]
    assert tenant.http.get("/alerts", params={"status": "over"}).json()["alerts"] == [over["alert"]]
    assert until(lambda: tenant.last_delivery().get("webhook"))["result"] == "delivered"
    sent = [(headers, body) for headers, body in world.receiver.received if tenant.name.encode() in body]
    assert [headers["webhook-id"].partition(".")[2] for headers, _ in sent] == ["fired", "over"]
    for headers, body in sent:
        assert is_genuine(secret, headers, body)
        assert not is_genuine(secret, headers, body + b" ")
        assert not is_genuine("whsec_" + "A" * 43 + "=", headers, body)
    assert bystander.events() == []
    assert bystander.http.get("/alerts").json()["alerts"] == []


def test_a_failing_receiver_gets_the_same_id_again(world: World) -> None:
    tenant = world.tenant()
    world.receiver.statuses[:] = [500, 302, 429]
    tenant.rule()
    tenant.spend(6)
    until(lambda: tenant.last_delivery().get("webhook", {}).get("result") == "delivered")
    ids = [headers["webhook-id"] for headers, body in world.receiver.received if tenant.name.encode() in body]
    assert len(ids) == 4
    assert len(set(ids)) == 1
    assert "/elsewhere" not in str([headers for headers, _ in world.receiver.received]), "a redirect is not followed"


def test_a_receiver_that_always_fails_is_given_up_and_the_alert_stays_listed(world: World) -> None:
    tenant = world.tenant()
    tenant.rule(webhook={"url": "http://127.0.0.1:1/"})
    tenant.spend(6)

    def is_empty() -> bool:
        with world.redis.admin() as redis:
            return bool(tenant.last_delivery()) and not redis.exists(f"{{@alerts}}:outbox:{tenant.name}")

    until(is_empty)
    assert tenant.last_delivery()["webhook"]["result"] == "unreachable"
    assert len(tenant.http.get("/alerts", params={"status": "open"}).json()["alerts"]) == 1


def test_a_sample_arrives_at_once(world: World) -> None:
    tenant = world.tenant()
    secret = tenant.rule()
    assert tenant.http.post("/alerts/rules/near/test").json() == {"results": {"webhook": "delivered"}}
    headers, body = next(sent for sent in world.receiver.received if tenant.name.encode() in sent[1])
    assert is_genuine(secret, headers, body)
    assert json.loads(body)["type"] == "alert.sample"
    assert tenant.http.get("/alerts").json()["alerts"] == []


def test_text_of_documents_is_in_no_alert(world: World) -> None:
    tenant = world.tenant()
    tenant.rule()
    answer = tenant.tenant.embed([{"text": f"{CANARY} is a word."}], epsilon=6)
    assert answer.status_code == 200, answer.text
    until(lambda: len(tenant.events()) == 2)  # the sentence's account and the token's
    assert CANARY.encode() not in b"".join(body for _, body in world.receiver.received)
    assert CANARY not in tenant.http.get("/alerts").text


@pytest.mark.slow("crash")
def test_a_ledger_that_is_not_trusted_is_reported_from_memory(world: World) -> None:
    """Comes last: nothing trusts this ledger afterwards."""
    tenant = world.tenant()
    tenant.rule("seals", when={"kind": "integrity"})
    books = [gateway.service.parts[AlertWatch].book for gateway in world.gateways]
    until(lambda: all(book.find(tenant.name, "seals") for book in books))
    with world.redis.admin() as redis:
        redis.hset(f"{{{tenant.name}}}:tenant", "seq", "1")
        redis.xtrim(f"{{{tenant.name}}}:journal", maxlen=0)
    found = tenant.until_event("alert.fired")
    assert (found["alert"]["target"], found["alert"]["facts"]) == ("ledger", {"reason": "not-trusted"})
