"""Single deliveries: encrypted webhooks and mail servers, and the label of each failure."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from alert_kit import MailServer as ReceivingServer
from pydantic import ValidationError
from upstream_kit import Certificate, RawUpstream, Script, answer, certificate, resolving, sends

from core.ledger.alerts import Alert
from service.alerts.book import parse_rule
from service.alerts.delivery import Channels
from service.alerts.email import MailServer, send_mail
from service.alerts.evaluation import event_body
from service.alerts.schemas import RuleBody
from service.alerts.webhook import WebhookSender, new_secret
from service.config.settings import Settings

BODY = event_body("fired", Alert("0" * 32, "r", "budget_used", "acme", "acme/record", 1, None, {"used": 0.5}))


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return certificate(tmp_path_factory.mktemp("certificate"), "hooks.example", "127.0.0.1")


def delivered(
    script: Script,
    *,
    tls: Certificate | None = None,
    ca_file: Path | None = None,
    private: bool = True,
    timeout_s: float = 60.0,
    host: str = "hooks.example",
    resolve: Callable[[str, int], Awaitable[list[str]]] | None = None,
) -> tuple[str, int]:
    """The label of one delivery, and how many requests have arrived."""

    async def run() -> tuple[str, int]:
        async with RawUpstream([script], tls=tls.server if tls else None) as server:
            sender = WebhookSender(
                private_addresses=private,
                timeout_s=timeout_s,
                ca_file=ca_file,
                resolve=resolve or resolving("127.0.0.1"),
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


def test_a_name_of_a_private_address_is_not_called(trusted: Certificate) -> None:
    ok = status("200 OK")
    given: dict[str, Any] = {"tls": trusted, "ca_file": trusted.ca_file, "private": False}
    for address in ("127.0.0.1", "10.0.0.1", "169.254.169.254", "::ffff:127.0.0.1"):
        assert delivered(ok, resolve=resolving(address), **given) == ("address-refused", 0)


@pytest.mark.parametrize(
    ("script", "label"),
    [
        (status("200 OK"), "delivered"),
        (status("302 Found", location="/elsewhere"), "status-302"),
        (status("410 Gone"), "status-410"),
        (status("500 Oops"), "status-500"),
        (sends(b"not http\r\n\r\n"), "broken-answer"),
        (sends(then="abort"), "broken-answer"),
    ],
    ids=["ok", "redirect", "gone", "failed", "no-http", "aborted"],
)
def test_each_failure_has_a_label(script: Script, label: str) -> None:
    found, requests = delivered(script)
    assert (found, requests) == (label, 1)


def test_a_receiver_that_hangs_times_out() -> None:
    assert delivered(sends(then="hang"), timeout_s=0.5)[0] == "timeout"


@pytest.fixture(params=["starttls", "tls"])
def mail(request: pytest.FixtureRequest, trusted: Certificate) -> Iterator[tuple[str, ReceivingServer]]:
    server = ReceivingServer(trusted.server, at_once=request.param == "tls")
    yield request.param, server
    server.close()


def posted(security: str, port: int, tls: ssl.SSLContext) -> str:
    server = MailServer("127.0.0.1", port, security, "a@gateway.example", "", None, 60.0, tls)
    return asyncio.run(send_mail(server, ["b@acme.example"], "id.fired", BODY))


def test_mail_is_encrypted_under_a_trusted_certificate(mail: tuple[str, ReceivingServer], trusted: Certificate) -> None:
    security, server = mail
    assert posted(security, server.port, ssl.create_default_context()) == "certificate"
    assert server.messages == []
    assert posted(security, server.port, ssl.create_default_context(cafile=str(trusted.ca_file))) == "delivered"
    [(recipients, text)] = server.messages
    assert recipients == ["b@acme.example"]
    assert "target: acme/record" in text


def test_mail_is_not_sent_unencrypted_where_encryption_is_set() -> None:
    server = ReceivingServer()
    try:
        assert posted("starttls", server.port, ssl.create_default_context()) == "mail-refused"
        assert server.messages == []
        assert posted("none", 1, ssl.create_default_context()) == "unreachable"
    finally:
        server.close()


WHEN = {"kind": "budget_used", "share": 0.5}


def test_an_unforeseen_error_is_a_result_like_others() -> None:
    """A delivery without a result would stay in the outbox and be repeated for ever."""
    server = MailServer("127.0.0.1", 1, "none", "a@gateway.example", "", None, 60.0, ssl.create_default_context())
    channels = Channels(WebhookSender(private_addresses=False, timeout_s=60.0), server)
    content = {
        "when": WHEN,
        "url": None,
        "secret": None,
        "email": ["b@acme.example", ".a@acme.example"],
        "tenants": None,
    }
    assert asyncio.run(channels.send(parse_rule("acme", "r", content), "email", "id.fired", BODY)) == "unforeseen"


@pytest.mark.parametrize(
    "recipient", [".a@b.example", "a.@b.example", "a..b@c.example", "a@b..example", "a@.b", "a@b."]
)
def test_recipients_that_no_message_can_have_are_refused(recipient: str) -> None:
    with pytest.raises(ValidationError):
        RuleBody.model_validate({"when": WHEN, "email": [recipient]})
    RuleBody.model_validate({"when": WHEN, "email": ["a.b+c_d%e@f-g.example", "1@localhost"]})


@pytest.mark.parametrize(
    "given",
    [
        {"alert_smtp_host": "mail"},
        {"alert_smtp_host": "mail", "alert_smtp_from": "nobody"},
        {
            "alert_smtp_host": "mail",
            "alert_smtp_from": "a@b.example",
            "alert_smtp_user": "u",
            "alert_smtp_security": "none",
        },
    ],
    ids=["no-sender", "no-address", "password-unencrypted"],
)
def test_a_mail_server_that_cannot_be_used_is_refused_at_the_start(given: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="ALERT_SMTP"):
        Settings(data_dir=tmp_path, **given)
