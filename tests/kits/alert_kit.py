"""Receivers of alerts: a webhook server that checks signatures as the documentation says, and a mail server."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socketserver
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WAIT_S_MAX = 300.0


def until(condition: Callable[[], Any], what: str = "it did not happen") -> Any:
    """What `condition` returns, once that is true."""
    deadline = time.monotonic() + WAIT_S_MAX
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError(what)


def is_genuine(secret: str, headers: dict[str, str], body: bytes) -> bool:
    """Whether a webhook is signed under a secret."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    is_recent = abs(time.time() - int(headers["webhook-timestamp"])) < 300
    return is_recent and hmac.compare_digest(expected, headers["webhook-signature"])


class Receiver:
    """A webhook server on this machine. `statuses` are those of its next answers, 200 after them."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.received: list[tuple[dict[str, str], bytes]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.received.append(({name.lower(): value for name, value in self.headers.items()}, body))
                self.send_response(receiver.statuses.pop(0) if receiver.statuses else 200)
                self.send_header("location", f"{receiver.url}/elsewhere")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/alerts"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def events(self, tenant: str) -> list[dict[str, Any]]:
        """What has arrived of a tenant, each id once."""
        found = {headers["webhook-id"]: json.loads(body) for headers, body in list(self.received)}
        return [event for event in found.values() if event["alert"]["tenant"] == tenant]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class MailServer:
    """A mail server that takes every message, without encryption."""

    def __init__(self) -> None:
        self.messages: list[tuple[list[str], str]] = []
        server = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                recipients: list[str] = []
                self.wfile.write(b"220 mail\r\n")
                while line := self.rfile.readline():
                    word = line[:4].upper()
                    if word == b"RCPT":
                        recipients.append(line.decode().partition("<")[2].partition(">")[0])
                    if word == b"DATA":
                        self.wfile.write(b"354 go on\r\n")
                        text = b""
                        while (part := self.rfile.readline()) not in (b".\r\n", b""):
                            text += part
                        server.messages.append((recipients, text.decode()))
                    self.wfile.write(b"221 bye\r\n" if word == b"QUIT" else b"250 mail\r\n")
                    if word == b"QUIT":
                        return

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
