"""Alerts by e-mail, through the operator's mail server."""

from __future__ import annotations

import asyncio
import smtplib
import ssl
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.utils import formatdate
from pathlib import Path

import orjson

from service.alerts.webhook import DELIVERED
from service.config.settings import Settings

# Threads of their own: a mail server that hangs takes none from the rest of the gateway.
_SENDERS = ThreadPoolExecutor(2, thread_name_prefix="mail")


@dataclass(frozen=True)
class MailServer:
    """The operator's server. `security`: `starttls`, `tls`, or `none` for a server of this machine."""

    host: str
    port: int
    security: str
    sender: str
    user: str
    password: str | None = field(repr=False)
    timeout_s: float
    tls: ssl.SSLContext = field(repr=False)


def mail_server(settings: Settings) -> MailServer | None:
    """The server of the settings, if there is one. Raises ValueError for a file of certificates that cannot be used."""
    if not settings.alert_smtp_host:
        return None
    ca_file: Path | None = settings.alert_smtp_ca_file
    try:
        tls = ssl.create_default_context(cafile=str(ca_file) if ca_file else None)
    except (OSError, ssl.SSLError):
        raise ValueError("ALERT_SMTP_CA_FILE holds no certificates") from None
    password = settings.alert_smtp_password
    return MailServer(
        host=settings.alert_smtp_host,
        port=settings.alert_smtp_port,
        security=settings.alert_smtp_security,
        sender=settings.alert_smtp_from,
        user=settings.alert_smtp_user,
        password=password.get_secret_value() if password else None,
        timeout_s=settings.alert_smtp_timeout_s,
        tls=tls,
    )


async def send_mail(server: MailServer, recipients: Sequence[str], event_id: str, body: bytes) -> str:
    """Send an event once. Returns `delivered` once the server has taken it, or else a label that says why not."""
    message = _message(server.sender, recipients, event_id, body)
    work = asyncio.get_running_loop().run_in_executor(_SENDERS, _send, server, message)
    return await work


def _message(sender: str, recipients: Sequence[str], event_id: str, body: bytes) -> EmailMessage:
    event = orjson.loads(body)
    alert = event["alert"]
    message = EmailMessage()
    verb = event["type"].removeprefix("alert.")
    message["Subject"] = f"[privacy-gateway] {verb}: {alert['kind']} of {alert['target']}"
    message["From"] = sender
    message["To"] = ", ".join(recipients)
    message["Date"] = formatdate()
    message["Message-ID"] = f"<{event_id}@{sender.rpartition('@')[2]}>"
    lines = [f"{name}: {value}" for name, value in alert.items() if name != "facts"]
    lines += [f"{name}: {value}" for name, value in alert["facts"].items()]
    message.set_content("\n".join(lines) + "\n")
    return message


def _send(server: MailServer, message: EmailMessage) -> str:
    try:
        if server.security == "tls":
            client: smtplib.SMTP = smtplib.SMTP_SSL(
                server.host, server.port, timeout=server.timeout_s, context=server.tls
            )
        else:
            client = smtplib.SMTP(server.host, server.port, timeout=server.timeout_s)
        with client:
            if server.security == "starttls":
                client.starttls(context=server.tls)
            if server.user:
                client.login(server.user, server.password or "")
            client.send_message(message)
    except ssl.SSLError:
        return "certificate"
    except TimeoutError:
        return "timeout"
    except smtplib.SMTPAuthenticationError:
        return "login-refused"
    except smtplib.SMTPException:
        return "mail-refused"
    except OSError:
        return "unreachable"
    return DELIVERED
