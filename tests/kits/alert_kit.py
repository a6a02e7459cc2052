"""A receiver of alerts, which checks signatures as the documentation says."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from stub_kit import Request, StubServer, answer, body_of, headers_of
from wait_kit import until as until


def documented_check() -> Callable[[str, Mapping[str, str], bytes], bool]:
    """The check of a signature that docs/operating/alerts.md shows to receivers."""
    page = (Path(__file__).parents[2] / "docs/operating/alerts.md").read_text()
    names: dict[str, Any] = {"base64": base64, "hashlib": hashlib, "hmac": hmac, "time": time, "Mapping": Mapping}
    exec(page.split("```python\n")[1].split("```")[0], names)
    return names["is_genuine"]


is_genuine = documented_check()


class Receiver(StubServer):
    """A webhook server on this machine. `statuses` are those of its next answers, 200 after them."""

    def __init__(self) -> None:
        super().__init__()
        self.url = f"{self.origin}/alerts"
        self.statuses: list[int] = []
        self.received: list[tuple[dict[str, str], bytes]] = []

    close = StubServer.stop

    def serve(self, request: Request) -> None:
        self.received.append((headers_of(request), body_of(request)))
        status = self.statuses.pop(0) if self.statuses else 200
        answer(request, status=status, headers={"location": f"{self.url}/elsewhere"})

    def events(self, tenant: str) -> list[dict[str, Any]]:
        """What has arrived of a tenant, each id once."""
        found = {headers["webhook-id"]: json.loads(body) for headers, body in list(self.received)}
        return [event for event in found.values() if event["alert"]["tenant"] == tenant]
