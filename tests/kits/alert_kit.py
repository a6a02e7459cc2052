"""A receiver of alerts, which checks signatures as the documentation says."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
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


def documented_check() -> Callable[[str, Mapping[str, str], bytes], bool]:
    """The check of a signature that docs/operating/alerts.md shows to receivers."""
    page = (Path(__file__).parents[2] / "docs/operating/alerts.md").read_text()
    names: dict[str, Any] = {"base64": base64, "hashlib": hashlib, "hmac": hmac, "time": time, "Mapping": Mapping}
    exec(page.split("```python\n")[1].split("```")[0], names)
    return names["is_genuine"]


is_genuine = documented_check()


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
