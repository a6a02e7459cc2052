"""Reports on budgets: forecasts, spending, bounds, integrity, exports, events. None of them charges.

A report is the JSON object that the gateway's OpenAPI document describes.
"""

from __future__ import annotations

from typing import Any

from privacy_gateway_client.core import Core
from privacy_gateway_client.effects import Op, close_flow, emit, next_line
from privacy_gateway_client.exchange import call_flow, get, parsed_json
from privacy_gateway_client.operations.reading import EventReader, fetched_json
from privacy_gateway_client.problems import line_problem


def forecast(core: Core, account: str) -> Op[dict[str, Any]]:
    """When the account runs out: an estimate, with a band."""
    return (yield from fetched_json(core, get(f"/budget/{account}/forecast")))


def bounds(core: Core, account: str) -> Op[dict[str, Any]]:
    """What is proven of an account, and what is an estimate."""
    return (yield from fetched_json(core, get(f"/budget/{account}/bounds")))


def spending(
    core: Core,
    account: str,
    *,
    by: str | None = None,
    bucket: str | None = None,
    from_ms: int | None = None,
    to_ms: int | None = None,
    cursor: str | None = None,
    limit: int | None = None,
) -> Op[dict[str, Any]]:
    """Who spent: by mechanism, route, key or subject, over time. One page."""
    times = {"from": from_ms, "to": to_ms}
    path = f"/budget/{account}/spending"
    return (yield from fetched_json(core, get(path, by=by, bucket=bucket, cursor=cursor, limit=limit, **times)))


def integrity(core: Core) -> Op[dict[str, Any]]:
    """Seals, open holds, epsilon spent without output, and the last audit."""
    return (yield from fetched_json(core, get("/budget/integrity")))


def export_journal(
    core: Core, /, account: str, *, from_ms: int | None = None, to_ms: int | None = None, **filters: str | None
) -> Op[None]:
    """The journal of an account, row by row. `filters`: `transition`, `mechanism`, `route`, `key_id`, `subject`."""
    params = {"from": from_ms, "to": to_ms, "format": "jsonl", **filters}
    flow = yield from call_flow(core.retry, get(f"/budget/{account}/journal/export", **params))
    while (line := (yield from next_line(flow))) is not None:
        if line:
            yield from emit(parsed_json(line))
    yield from close_flow(flow)


def budget_events(core: Core) -> Op[None]:
    """An item for each event that says that the tenant's budget has changed, until the stream ends. Raises Unauthorized
    when the key is revoked or expires."""
    flow = yield from call_flow(core.retry, get("/budget/events"))
    reader = EventReader()
    while (line := (yield from next_line(flow))) is not None:
        event = reader.take(line)
        if event is not None and event.name == "problem":
            raise line_problem(parsed_json(event.data))
        if event is not None:
            yield from emit(parsed_json(event.data))
    yield from close_flow(flow)


def all_integrity(core: Core, *, cursor: str | None = None, limit: int | None = None) -> Op[dict[str, Any]]:
    """The integrity of every tenant, one page. With the admin key."""
    return (yield from fetched_json(core, get("/admin/integrity", cursor=cursor, limit=limit)))


def service(core: Core) -> Op[dict[str, Any]]:
    """Workers, queues, throughput, latency and errors since the gateway's start. With the admin key."""
    return (yield from fetched_json(core, get("/admin/service")))
