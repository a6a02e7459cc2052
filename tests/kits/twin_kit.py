"""Two gateways in this process with one master key, and everything that a sequence of requests leaves behind in each.

What differs between two runs of one request is public and listed in PUBLIC: identifiers that are drawn, and clocks.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import torch
from corpus_kit import until as until_job
from gateway_kit import Tenant
from inprocess_kit import Gateway
from model_kit import ModelServer

from core.accounting.events import Unit
from gpu_workers.jobs.process import Exchange, run_job
from gpu_workers.jobs.protocol import JobOrder

# What two runs of one request may differ in, and why it shows nothing of a text.
PUBLIC: Mapping[str, str] = {
    "x-request-id": "drawn for each request",
    "request_id": "drawn for each request",
    "idempotency-key": "drawn where the client sends none",
    "release-id": "drawn for each release",
    "release_id": "drawn for each release",
    "reused_from": "the identifier of a release",
    "key_id": "names the client's key, which is drawn for each tenant",
    "job_id": "drawn for each job",
    "location": "names the job",
    "server-timing": "the clock of the gateway, for work without a price alone",
    "at_ms": "the clock of Redis",
    "created_ms": "the clock of Redis",
    "started_ms": "the clock of Redis",
    "ended_ms": "the clock of Redis",
    "expires_ms": "the clock of the gateway",
    "first_expires_ms": "the clock of the gateway",
    "last_expires_ms": "the clock of the gateway",
    "sha256": "of a journal entry, with its clock",
    "seal": "of journal entries, with their clocks",
}
_MEMBERS = re.compile(rb'"(' + "|".join(PUBLIC).encode() + rb')": ?("[^"]*"|\d+|null|\{[^{}]*\})')


def _last_text(body: dict[str, Any]) -> str:
    """What the model answers: the last text of a request, where it is one."""
    last = body.get("messages", body.get("input"))[-1]
    return str(last.get("content", last.get("output", "")))


class _Thread:
    """A job that runs in a thread of this process, so that a patch of this process holds in it as well."""

    def __init__(self, order: JobOrder, sent: list[Any], on_message: Callable[[Any], None], loop: Any) -> None:
        def send(message: Any) -> None:
            sent.append(message)
            loop.call_soon_threadsafe(on_message, message)

        def run() -> None:
            torch.manual_seed(1)
            send(run_job(order, exchange))

        exchange = Exchange(send)
        self.send = exchange.received
        threading.Thread(target=run, daemon=True).start()

    def kill(self) -> None:
        """A thread ends by itself."""

    async def stop(self) -> None:
        """Its last message was its end."""


@dataclass(frozen=True)
class Sent:
    """One request. `job`: wait for the job that it submits, and fetch what it made."""

    path: str
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)
    job: bool = False

    @classmethod
    def of(cls, path: str, body: Any, *, job: bool = False, **headers: str) -> Sent:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return cls(path, json.dumps(body).encode(), named, job)


@dataclass
class Left:
    """What a sequence of requests leaves behind, by name."""

    parts: dict[str, Any] = field(default_factory=dict)

    @property
    def statuses(self) -> list[int]:
        """Of the answers."""
        return [value for name, value in self.parts.items() if name.endswith(": status")]

    def difference(self, other: Left) -> str | None:
        """The name of the first part that differs."""
        for name, value in self.parts.items():
            if other.parts.get(name) != value:
                return name
        return None if self.parts.keys() == other.parts.keys() else "the number of answers"


class Twins:
    """Two gateways of one master key, whose tenants have the same names, at one model."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        self.model = ModelServer(_last_text)
        self._folder = folder
        self._sent: list[list[Any]] = [[], []]  # what the jobs of each gateway have sent to it
        self._jobs = mock.patch("service.jobs.attempt.start_job", self._start_job)
        self._jobs.start()
        key = secrets.token_hex(32)
        common = {
            "PRIVACY_GATEWAY_UPSTREAMS": self.model.setting,
            "PRIVACY_GATEWAY_MASTER_KEY": key,
            "PRIVACY_GATEWAY_TAGGER": "off",
            **settings,
        }
        self.gateways = [Gateway(folder / f"data-{side}", common) for side in (0, 1)]
        self._names = iter(range(1, 1_000_000))

    def _start_job(self, order: JobOrder, *, on_message: Callable[[Any], None], **_: Any) -> _Thread:
        side = order.folder.is_relative_to(self._folder / "data-1")
        return _Thread(order, self._sent[side], on_message, asyncio.get_running_loop())

    def stop(self) -> None:
        for gateway in self.gateways:
            gateway.stop()
        self._jobs.stop()
        self.model.stop()

    def tenants(self, *, epsilon: float = 1e6) -> tuple[Tenant, Tenant]:
        """A new tenant of one name in each gateway."""
        name = f"twin-{next(self._names)}"
        limit = {"epsilon": epsilon, "delta": 0.1, "basic_delta": 0.1}
        return tuple(gateway.tenant(name, epsilon=epsilon, record=limit) for gateway in self.gateways)  # type: ignore[return-value]

    def left(self, side: int, tenant: Tenant, requests: Sequence[Sent]) -> Left:
        """Send the requests one after another. Returns what each of them left behind."""
        found = Left()
        for number, request in enumerate(requests):
            self.model.raw.clear()
            self._sent[side].clear()
            self.model.response_id = f"resp_{number:08}"
            answer = tenant.http.post(
                request.path, content=request.body, headers={"content-type": "application/json", **request.headers}
            )
            found.parts[f"request {number + 1}: bytes to the model"] = list(self.model.raw)
            found.parts |= self._answer(f"request {number + 1}", answer)
            if request.job and answer.status_code == 202:
                found.parts |= self._job(f"request {number + 1}", side, tenant, answer.json()["job_id"])
        return found

    def kept(self, tenant: Tenant) -> Left:
        """What the ledger and the vault have of a tenant."""
        found = Left()
        for unit in Unit:
            answer = tenant.http.get(f"/budget/{tenant.name}/{unit.value}/journal", params={"limit": 1000})
            found.parts[f"journal of {unit.value}"] = public(answer.content)
            answer = tenant.http.get(f"/budget/{tenant.name}/{unit.value}")
            found.parts[f"account of {unit.value}"] = public(answer.content)
        found.parts["vault, listed"] = public(tenant.http.get("/vault").content)
        return found

    def _answer(self, name: str, answer: httpx.Response) -> dict[str, Any]:
        headers = {key: "" if key in PUBLIC else value for key, value in answer.headers.items()}
        return {
            f"{name}: status": answer.status_code,
            f"{name}: answer": public(answer.content),
            f"{name}: headers": headers,
        }

    def _job(self, name: str, side: int, tenant: Tenant, job_id: str) -> dict[str, Any]:
        until_job(tenant.http, job_id)
        found = {
            f"{name}: job record": public(tenant.http.get(f"/jobs/{job_id}").content),
            f"{name}: the messages of the job to the gateway": [repr(message) for message in self._sent[side]],
        }
        for what in ("artifact", "card", "report"):
            made = tenant.http.get(f"/jobs/{job_id}/{what}")
            content = public(made.content) if made.is_error else sorted_head(made.content)
            found[f"{name}: {what} of the job"] = made.status_code, content
        return found


def sorted_head(content: bytes) -> bytes:
    """A file of safetensors with its head in order: the library writes the members in an order of its own each time."""
    size = int.from_bytes(content[:8], "little")
    if not content[8:].startswith(b"{") or size > len(content):
        return content
    return json.dumps(json.loads(content[8 : 8 + size]), sort_keys=True).encode() + content[8 + size :]


def public(content: bytes) -> bytes:
    """An answer without the members of PUBLIC."""
    return _MEMBERS.sub(rb'"\1":', content)
