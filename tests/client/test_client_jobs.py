"""Jobs of the client against a gateway whose answers a test writes: events over lost connections, failures, bodies."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from client_kit import AT_ONCE, Recorder

from privacy_gateway_client import Gateway, Job, JobCancelled, JobFailed, Limits, Unauthorized

STATE = {
    "job_id": "j1", "kind": "synthesis", "label": "shop", "status": "running", "progress": 0.5, "stage": "training",
    "attempts": 1, "cancel_requested": False, "created_ms": 1, "started_ms": 2, "ended_ms": None,
    "reserved": {"epsilon": 1.0, "delta": 0.0}, "spent": {"epsilon": 0.0, "delta": 0.0},
}  # fmt: skip


def event(name: str, number: int, **changes: Any) -> bytes:
    return f"event: {name}\nid: {number}\ndata: {json.dumps({**STATE, **changes})}\n\n".encode()


class Broken(httpx.SyncByteStream):
    """A body that breaks off after its bytes."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __iter__(self) -> Iterator[bytes]:
        yield self._content
        raise httpx.ReadError("cut")


def scripted(*answers: Callable[[], httpx.Response]) -> Recorder:
    waiting = list(answers)
    return Recorder(lambda _: waiting.pop(0)())


def events(content: bytes, *, cut: bool = False) -> Callable[[], httpx.Response]:
    stream = Broken(content) if cut else httpx.ByteStream(content)
    return lambda: httpx.Response(200, stream=stream, headers={"Content-Type": "text/event-stream"})


def client_with(sent: Recorder, **settings: Any) -> Gateway:
    return Gateway("http://gateway", "key", retry=AT_ONCE, transport=sent, **settings)


def test_waiting_continues_after_lost_connections_where_it_was() -> None:
    sent = scripted(
        events(b": waiting\n\n" + event("progress", 3, progress=0.2), cut=True),
        lambda: httpx.Response(503, headers={"Retry-After": "0"}),
        events(event("progress", 4, progress=0.6)),  # ends without an end state: the gateway stops
        events(event("succeeded", 7, status="succeeded", progress=1.0, result={"rows": 5})),
    )
    seen: list[float] = []
    with client_with(sent) as client:
        done = client.jobs.wait("j1", progress=lambda state: seen.append(state.progress))
    assert done.result == {"rows": 5}
    assert seen == [0.2, 0.6, 1.0]
    assert [request.headers.get("Last-Event-ID") for request in sent.requests] == [None, "3", "3", "4"]


def test_a_failed_job_is_an_error_with_its_facts() -> None:
    problem = {"type": "...", "code": "bad-corpus", "title": "...", "reason": "unknown-category", "line": 17}
    sent = scripted(
        events(event("failed", 2, status="failed", problem=problem)),
        events(event("cancelled", 2, status="cancelled", spent={"epsilon": 1.0, "delta": 0.0})),
        events(b'event: problem\ndata: {"code": "unauthorized", "status": 401}\n\n'),
    )
    with client_with(sent) as client:
        with pytest.raises(JobFailed) as failed:
            client.jobs.wait(Job.model_validate(STATE), progress=True)
        with pytest.raises(JobCancelled) as cancelled:
            client.jobs.wait("j1")
        with pytest.raises(Unauthorized):
            client.jobs.wait("j1")

    assert (failed.value.code, failed.value.reason, failed.value.line) == ("bad-corpus", "unknown-category", 17)
    assert cancelled.value.spent.epsilon == 1


def accepted(request: httpx.Request) -> httpx.Response:
    return httpx.Response(202, json=STATE)


TERMS: dict[str, Any] = {"labels": ["no", "yes"], "epsilon": 8.0, "delta": 1e-5, "batch": 2}


def test_a_list_is_sent_as_json_and_a_file_as_lines(tmp_path: Path) -> None:
    rows = [{"text": "a", "label": "no"}, {"text": "b", "label": "yes"}, {"text": "c", "label": "no"}]
    file = tmp_path / "private.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in rows))
    sent = Recorder(accepted)
    with client_with(sent) as client:
        client.finetune("reviews", rows, public=rows[:1], **TERMS)
        client.finetune("reviews", file, public=rows[:1], **TERMS)
    as_json, as_lines = sent.requests

    body = json.loads(as_json.content)
    assert (body["rows"], len(body["private"]), len(body["public"])) == (3, 3, 1)
    lines = [json.loads(line) for line in as_lines.content.splitlines()]
    assert lines == [*rows, {**rows[0], "split": "public"}]
    assert as_lines.url.params["rows"] == "3"
    assert json.loads(as_lines.url.params["labels"]) == ["no", "yes"]
    assert as_lines.headers["Content-Type"] == "application/x-ndjson"


def test_a_large_table_is_sent_as_lines() -> None:
    sent = Recorder(accepted)
    schema = {"columns": [{"name": "age", "kind": "numeric", "minimum": 0, "maximum": 9}], "label": None}
    with client_with(sent, limits=Limits(job_json_rows=1)) as client:
        client.synthesize(
            "t", [{"age": 1}, {"age": 2}], schema=schema, method="marginals", epsilon=1, delta=1e-5, row_count="public"
        )
    [request] = sent.requests
    assert json.loads(request.url.params["schema"]) == schema
    assert len(request.content.splitlines()) == 2
    assert request.headers["Idempotency-Key"]


def test_a_stream_that_is_left_early_is_closed() -> None:
    closed: list[bool] = []

    class Watched(httpx.ByteStream):
        def close(self) -> None:
            closed.append(True)

    stream = Watched(event("progress", 1) + event("progress", 2))
    with client_with(Recorder(lambda _: httpx.Response(200, stream=stream))) as client:
        for _ in client.jobs.events("j1"):
            break
    assert closed
