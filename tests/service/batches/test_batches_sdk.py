"""The Batch API by the unmodified `openai` SDK over HTTP, with a gateway of its own and a language model behind it."""

import asyncio
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from constants_kit import constants
from fuzz.canaries import MARK, found_in_files, found_in_redis
from gateway_kit import LEAN, Gateway, Tenant, good
from proxy_kit import POLICIES
from upstream_kit import Request, ServedUpstream, answer
from wait_kit import until

PRESET = "minilm-sentdp-eps10"
EMBEDDINGS, CHAT = "/v1/embeddings", "/v1/chat/completions"
TEXT = f"The screen is bright. {MARK} is my word."


@pytest.fixture(scope="module")
def upstream() -> Iterator[ServedUpstream]:
    with ServedUpstream() as running:
        yield running


@pytest.fixture(scope="module")
def gateway(upstream: ServedUpstream, processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder: Path = tmp_path_factory.mktemp("batches")
    (folder / "policies.toml").write_text(POLICIES)
    models = {"own": {"base_url": upstream.raw.url, "kind": "openai", "models": ["m"]}}
    running = Gateway(
        folder / "data",
        LEAN
        | constants({"hold_margin_s": 1.0})  # after which the hold of a gateway that died is spent
        | {
            "PRIVACY_GATEWAY_UPSTREAMS": json.dumps(models),
            "PRIVACY_GATEWAY_POLICIES_FILE": str(folder / "policies.toml"),
            "PRIVACY_GATEWAY_REQUEST_TIMEOUT_S": "20",
        },
    )
    yield running
    running.stop()
    assert not found_in_files(folder / "data"), "no text is on the disk in the clear"
    assert MARK not in running.log_path.read_text()


def sdk(gateway: Gateway, tenant: Tenant) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=tenant.key)


def line(number: int, body: dict[str, Any], url: str = EMBEDDINGS) -> dict[str, Any]:
    return {"custom_id": f"{MARK}-{number}", "method": "POST", "url": url, "body": body}


def embedding(number: int, **more: Any) -> dict[str, Any]:
    return line(number, {"model": PRESET, "input": f"{number}. {TEXT}", "encoding_format": "base64", **more})


def chat(number: int, said: str) -> dict[str, Any]:
    return line(number, {"model": "m", "messages": [{"role": "user", "content": said}]}, CHAT)


def packed(lines: list[Any]) -> bytes:
    return b"".join(each if isinstance(each, bytes) else json.dumps(each).encode() + b"\n" for each in lines)


def created(client: openai.OpenAI, lines: list[Any], endpoint: Any = EMBEDDINGS, **more: Any) -> Any:
    file = client.files.create(file=(f"{MARK}.jsonl", packed(lines)), purpose="batch")
    return client.batches.create(input_file_id=file.id, endpoint=endpoint, completion_window="24h", **more)


def ended(client: openai.OpenAI, batch: Any) -> Any:
    until(lambda: client.batches.retrieve(batch.id).status in ("completed", "failed", "cancelled", "expired"), "ended")
    return client.batches.retrieve(batch.id)


def rows(client: openai.OpenAI, file_id: str | None) -> dict[int, Any]:
    """The rows of a file, by the numbers of their lines."""
    if file_id is None:
        return {}
    found = [json.loads(each) for each in client.files.content(file_id).text.splitlines()]
    numbered = {int(row["custom_id"].rpartition("-")[2]): row for row in found}
    assert len(numbered) == len(found), "one row a line"
    return numbered


async def echo(request: Request, writer: asyncio.StreamWriter) -> None:
    """A model that repeats what it gets."""
    said = json.loads(request.body)["messages"][-1]["content"]
    choice = {"index": 0, "message": {"role": "assistant", "content": f"You said: {said}"}, "finish_reason": "stop"}
    writer.write(answer(json.dumps({"id": "c", "object": "chat.completion", "choices": [choice]}).encode()))
    await writer.drain()


def test_embeddings_from_the_upload_to_the_output(gateway: Gateway) -> None:
    tenant = gateway.tenant()
    client = sdk(gateway, tenant)
    content = packed([embedding(0), embedding(1), embedding(2, model="no-such"), embedding(3, input=" ")])
    file = client.files.create(file=io.BytesIO(content), purpose="batch")
    assert (file.object, file.bytes, file.purpose, file.status) == ("file", len(content), "batch", "processed")
    assert client.files.content(file.id).read() == content

    batch = client.batches.create(
        input_file_id=file.id, endpoint=EMBEDDINGS, completion_window="24h", metadata={"of": MARK}
    )
    assert batch.status in ("validating", "in_progress")
    done = ended(client, batch)
    assert (done.status, done.metadata, done.input_file_id) == ("completed", {"of": MARK}, file.id)
    assert done.request_counts.model_dump() == {"total": 4, "completed": 2, "failed": 2}
    found, wrong = rows(client, done.output_file_id), rows(client, done.error_file_id)
    assert found.keys() == {0, 1}
    assert found[0]["response"]["status_code"] == 200
    assert found[0]["response"]["body"]["privacy"]["epsilon"] == 10.0
    assert found[0]["error"] is None
    assert {number: row["response"]["body"]["error"]["code"] for number, row in wrong.items()} == {
        2: "unknown-model", 3: "invalid-input"
    }  # fmt: skip
    assert tenant.committed() == 20.0
    assert [each.id for each in client.batches.list()] == [done.id]
    body = {"input_file_id": file.id, "endpoint": EMBEDDINGS, "completion_window": "24h"}
    retries = [
        tenant.http.post("/v1/batches", json=body, headers={"X-Stainless-Retry-Count": count}) for count in "012"
    ]
    assert len({good(each)["id"] for each in retries}) == 1, "a retry of the SDK creates no second batch"
    assert client.batches.list(limit=1).has_more
    assert [each.id for each in client.files.list()] != []
    assert {each.purpose for each in client.files.list()} == {"batch", "batch_output"}
    job = good(tenant.http.get(f"/jobs/{done.id.removeprefix('batch_')}"))
    assert (job["kind"], job["label"], job["status"]) == ("batch", "embeddings", "succeeded")
    assert client.files.delete(file.id).deleted
    with pytest.raises(openai.NotFoundError) as caught:
        client.files.retrieve(file.id)
    assert caught.value.code == "unknown-file"
    other = sdk(gateway, gateway.tenant())
    for call in (other.files.content, other.batches.retrieve):
        with pytest.raises(openai.NotFoundError):
            call(done.output_file_id if call == other.files.content else done.id)
    assert not found_in_redis(gateway.data_dir / "redis" / "redis.sock")


def test_chat_is_masked_for_the_model_and_restored_in_the_output(gateway: Gateway, upstream: ServedUpstream) -> None:
    tenant = gateway.tenant()
    client = sdk(gateway, tenant)
    upstream.begin(echo)
    said = [f"Write to {name}@example.org, please." for name in ("maria.keller", "jonas.weber")]
    streamed = chat(2, "x")
    batch = ended(client, created(client, [chat(0, said[0]), chat(1, said[1])], CHAT))
    assert b"maria.keller" not in upstream.seen
    found = rows(client, batch.output_file_id)
    answers = {number: row["response"]["body"]["choices"][0]["message"]["content"] for number, row in found.items()}
    assert answers == {number: f"You said: {text}" for number, text in enumerate(said)}
    streamed["body"]["stream"] = True
    assert ended(client, created(client, [streamed], CHAT)).errors.data[0].code == "invalid_body"


def test_a_budget_that_ends_and_a_file_that_is_none(gateway: Gateway) -> None:
    tenant = gateway.tenant(epsilon=25.0)
    client = sdk(gateway, tenant)
    batch = ended(client, created(client, [embedding(number) for number in range(4)]))
    assert batch.request_counts.model_dump() == {"total": 4, "completed": 2, "failed": 2}
    for row in rows(client, batch.error_file_id).values():
        assert row["response"]["status_code"] == 403
        assert row["response"]["body"]["error"]["code"] == "budget-exhausted"
    assert tenant.committed() == 20.0

    broken = {
        "invalid_json_line": [embedding(0), b"{"],
        "duplicate_custom_id": [embedding(0), embedding(0)],
        "mismatched_url": [embedding(0), chat(1, "x")],
        "invalid_method": [embedding(0), embedding(1) | {"method": "GET"}],
        "invalid_request": [embedding(0), embedding(1) | {"bodies": {}}],
        "invalid_body": [embedding(0), embedding(1) | {"body": []}],
    }
    for code, lines in broken.items():
        failed = ended(client, created(client, lines))
        assert (failed.status, failed.output_file_id) == ("failed", None)
        assert [(each.code, each.line) for each in failed.errors.data] == [(code, 2)]
    assert ended(client, created(client, [b"\n"])).errors.data[0].code == "empty_file"
    assert tenant.committed() == 20.0

    for wrong in ({"purpose": "assistants"}, {"purpose": "batch", "file": b""}):
        with pytest.raises(openai.BadRequestError) as caught:
            client.files.create(**{"file": b"{}", **wrong})
        assert caught.value.param in ("purpose", "file")
    for parts in ({}, {"file": ("a", b"{}")}):
        assert tenant.http.post("/v1/files", files=parts).status_code in (400, 415)
    reader = gateway.with_key(tenant, "jobs", "read")
    with pytest.raises(openai.PermissionDeniedError):
        created(sdk(gateway, reader), [embedding(0)])


def held(upstream: ServedUpstream, first: int) -> None:
    """A model that answers the first requests, and holds the others."""

    async def holds(_: Request, __: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    upstream.begin(*[echo] * first, holds)


def test_what_a_cancelled_batch_has_done_stands(gateway: Gateway, upstream: ServedUpstream) -> None:
    tenant = gateway.tenant()
    client = sdk(gateway, tenant)
    held(upstream, 3)
    batch = created(client, [chat(number, "Hello.") for number in range(20)], CHAT)
    until(lambda: client.batches.retrieve(batch.id).request_counts.completed == 3, "three are done")
    assert client.batches.cancel(batch.id).status in ("cancelling", "cancelled")
    done = ended(client, batch)
    assert (done.status, done.request_counts.completed) == ("cancelled", 3)
    assert len(rows(client, done.output_file_id)) == 3
    assert len(upstream.raw.requests) <= 3 + 4, "a few lines at a time"


def test_a_revoked_key_ends_its_batch_and_what_was_done_stands(gateway: Gateway, upstream: ServedUpstream) -> None:
    owner = gateway.tenant()
    creator = gateway.with_key(owner)
    held(upstream, 2)
    batch = created(sdk(gateway, creator), [chat(number, "Hello.") for number in range(9)], CHAT)
    client = sdk(gateway, owner)
    until(lambda: client.batches.retrieve(batch.id).request_counts.completed == 2, "two are done")
    gateway.revoke(creator)
    upstream.raw.scripts[:] = [echo]
    failed = ended(client, batch)
    assert (failed.status, failed.errors.data[0].code) == ("failed", "key-ended")
    assert len(rows(client, failed.output_file_id)) == 2


@pytest.mark.slow("crash")
def test_a_killed_gateway_goes_on_where_it_was(gateway: Gateway) -> None:
    """One charge a line: rows that were written are not made again, and those in work get their stored answers."""
    tenant = gateway.tenant()
    client = sdk(gateway, tenant)
    count = 100
    batch = created(client, [embedding(number) for number in range(count)])
    until(lambda: tenant.committed() > 0, "the first lines are charged")
    gateway.die()
    gateway.start()
    done = ended(client, batch)
    assert done.status == "completed"
    found, wrong = rows(client, done.output_file_id), rows(client, done.error_file_id)
    assert found.keys() | wrong.keys() == set(range(count))
    for row in wrong.values():
        assert row["response"]["body"]["error"]["charged"], "in work when the gateway died"
    assert len(wrong) <= 4
    tenant = gateway.reconnected(tenant)
    assert tenant.committed() == 10.0 * count
