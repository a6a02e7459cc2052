"""Single deliveries of webhooks, and the label of each failure."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from upstream_kit import Certificate, RawUpstream, Script, answer, certificate, resolving, sends

from core.state.alerts import Alert
from service.alerts.delivery import WebhookSender, new_secret, send
from service.alerts.evaluation import event_body, parse_rule

BODY = event_body("fired", Alert("0" * 32, "r", "budget_used", "acme", "acme/record", 1, None, {"used": 0.5}))


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return certificate(tmp_path_factory.mktemp("certificate"), "hooks.example", "127.0.0.1")


def delivered(
    script: Script,
    *,
    tls: Certificate | None = None,
    ca_file: Path | None = None,
    timeout_s: float = 60.0,
    host: str = "hooks.example",
) -> tuple[str, int]:
    """The label of one delivery, and how many requests have arrived."""

    async def run() -> tuple[str, int]:
        async with RawUpstream([script], tls=tls.server if tls else None) as server:
            sender = WebhookSender(
                private_addresses=True, timeout_s=timeout_s, ca_file=ca_file, resolve=resolving("127.0.0.1")
            )
            url = f"{'https' if tls else 'http'}://{host}:{server.port}/alerts"
            return await sender.send(url, new_secret(), "id.fired", BODY), len(server.requests)

    return asyncio.run(run())


def status(line: str, **headers: str) -> Script:
    return sends(answer(b"", status=line, **headers))


def test_a_webhook_is_encrypted_under_a_trusted_certificate(trusted: Certificate) -> None:
    ok = status("204 No Content")
    assert delivered(ok, tls=trusted, ca_file=trusted.ca_file) == ("delivered", 1)
    assert delivered(ok, tls=trusted) == ("certificate", 0)
    assert delivered(ok, tls=trusted, ca_file=trusted.ca_file, host="other.example") == ("certificate", 0)


def test_each_failure_has_a_label() -> None:
    for script, label in (
        (status("200 OK"), "delivered"), (status("302 Found", location="/elsewhere"), "status-302"),
        (status("410 Gone"), "status-410"), (status("500 Oops"), "status-500"),
        (sends(b"not http\r\n\r\n"), "broken-answer"), (sends(then="abort"), "broken-answer"),
    ):  # fmt: skip
        assert delivered(script) == (label, 1)
    assert delivered(sends(then="hang"), timeout_s=0.5)[0] == "timeout"


def test_an_unforeseen_error_is_a_result_like_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A delivery without a result would stay in the outbox and be repeated for ever."""

    async def broken(*_: Any) -> str:
        raise ZeroDivisionError

    webhooks = WebhookSender(private_addresses=False)
    monkeypatch.setattr(webhooks, "send", broken)
    content = {
        "when": {"kind": "budget_used", "share": 0.5},
        "url": "https://hooks.example/",
        "secret": new_secret(),
        "tenants": None,
    }
    assert asyncio.run(send(webhooks, parse_rule("acme", "r", content), "id.fired", BODY)) == "unforeseen"
