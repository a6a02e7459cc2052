"""Reports on budgets: forecasts, spending, bounds, integrity, exports, events. None of them charges."""

from __future__ import annotations

from typing import Any

from privacy_gateway_client.core import Core
from privacy_gateway_client.effects import Op, close_flow, emit, next_line
from privacy_gateway_client.exchange import call, call_flow, get, parsed_json
from privacy_gateway_client.sse import EventReader

Answer = dict[str, Any]


def forecast(core: Core, account: str) -> Op[Answer]:
    """When the account runs out: an estimate, with a band."""
    return (yield from _json(core, f"/budget/{account}/forecast"))


def bounds(core: Core, account: str) -> Op[Answer]:
    """What is proven of an account, and what is an estimate."""
    return (yield from _json(core, f"/budget/{account}/bounds"))


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
) -> Op[Answer]:
    """Who spent: by mechanism, route, key or subject, over time. One page."""
    times = {"from": from_ms, "to": to_ms}
    path = f"/budget/{account}/spending"
    return (yield from _json(core, path, by=by, bucket=bucket, cursor=cursor, limit=limit, **times))


def integrity(core: Core) -> Op[Answer]:
    """Seals, open holds, epsilon spent without output, and the last audit."""
    return (yield from _json(core, "/budget/integrity"))


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
    """The data of each event that says that the tenant's budget has changed, until the stream ends."""
    flow = yield from call_flow(core.retry, get("/budget/events"))
    reader = EventReader()
    while (line := (yield from next_line(flow))) is not None:
        event = reader.take(line)
        if event is not None:
            yield from emit(parsed_json(event.data))
    yield from close_flow(flow)


def all_integrity(core: Core, *, cursor: str | None = None, limit: int | None = None) -> Op[Answer]:
    """The integrity of every tenant, one page. With the admin key."""
    return (yield from _json(core, "/admin/integrity", cursor=cursor, limit=limit))


def service(core: Core) -> Op[Answer]:
    """Workers, queues, throughput, latency and errors since the gateway's start. With the admin key."""
    return (yield from _json(core, "/admin/service"))


def _json(core: Core, path: str, **params: Any) -> Op[Answer]:
    answer = yield from call(core.retry, get(path, **params))
    members: Answer = parsed_json(answer.content)
    return members
