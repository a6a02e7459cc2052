"""`POST /sanitize/batch`: rows in order, one line's trouble is its own, and the budget sees each document once."""

import asyncio
import json
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from exchange_kit import of_documents
from gateway_kit import Gateway as RealGateway
from gateway_kit import Tenant
from inprocess_kit import Gateway, opened_gateway
from wait_kit import until

from gpu_workers.engine.protocol import Role

SECRET = "zworykin@xylotron-corp.com"
HEADERS = {"Content-Type": "application/x-ndjson"}
METRIC = {"mask": {"techniques": ["all"]}, "fill": {"mode": "metric_dp", "epsilon": 2.5}}
WORST = 4.999395135  # of one document on the `token` account, as in test_sanitize_metric_dp.py
BLANK = (b"", b"\n \n\r\n")


def line(value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"


def stream(tenant: Tenant, *lines: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows and the summary; a `bytes` line is sent as it is."""
    answer = tenant.sanitize_lines(*lines)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-ndjson"
    return parsed(answer)


def parsed(answer: httpx.Response) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    *rows, last = [json.loads(each) for each in answer.text.splitlines()]
    return rows, last["summary"]


def code(row: dict[str, Any]) -> str | None:
    return row["problem"]["code"] if "problem" in row else None


def test_rows_come_in_order_as_sanitize_gives_them(tenant: Tenant) -> None:
    documents = [{"id": f"d{n}", "text": f"Mail user{n}@example.org about {n}."} for n in range(100)]
    terms = {"fill": {"mode": "marker"}, "return_spans": True}

    rows, summary = stream(tenant, terms, *documents)

    single = tenant.http.post("/sanitize", json={"documents": documents[:90]} | terms).json()
    assert rows[:90] == single["data"]
    assert [row["id"] for row in rows] == [document["id"] for document in documents]
    assert [row["index"] for row in rows] == list(range(100))
    assert summary == {
        "documents": 100, "released": 100, "failed": 0, "charged": 0, "complete": True, "privacy": single["privacy"],
        "budget": None,
        "usage": {
            "documents": 100, "tokens": sum(row["tokens"] for row in rows),
            "masked_tokens": sum(row["masked_tokens"] for row in rows),
        },
    }  # fmt: skip


def test_without_terms_the_defaults_apply_and_the_last_line_needs_no_end(tenant: Tenant) -> None:
    rows, summary = stream(tenant, {"text": f"To {SECRET}."}, b"\r\n\n", json.dumps({"text": f"By {SECRET}."}).encode())
    assert [row["text"] for row in rows] == ["To [EMAIL_ADDRESS].", "By [EMAIL_ADDRESS]."]
    assert summary["documents"] == 2
    assert stream(tenant, {"return_spans": True})[1]["documents"] == 0


def test_a_bad_line_is_its_own_trouble_and_is_not_repeated(tenant: Tenant) -> None:
    good = {"text": f"To {SECRET}."}
    deep = b"[" * 50 + b"]" * 50
    answer = tenant.sanitize_lines(
        good, b'{"text": "' + SECRET.encode() + b"\n", b'{"text": "\xff\xfe ' + SECRET.encode() + b'"}\n',
        {"text": "  "}, {"id": "a", SECRET: 1}, {"text": 5}, [SECRET], b'{"text": ' + deep + b"}\n",
        b'{"text": NaN}\n', {"text": "x" * 1_000_001}, b'{"text": "' + SECRET.encode() * 400_000 + b'"}\n',
        {"text": "x", "subject": "zworykin"}, good,
    )  # fmt: skip
    rows, summary = parsed(answer)

    assert "zworykin" not in answer.text
    refused = [*["malformed"] * 2, *["invalid-input"] * 4, *["malformed"] * 2, "invalid-input", "body-too-large"]
    assert [code(row) for row in rows] == [None, *refused, None, None]
    assert rows[3]["problem"]["errors"][0]["field"] == "text"
    assert rows[5]["problem"]["errors"][0] == {"field": "text", "kind": "string_type", "message": "is not a text"}
    assert rows[1]["line"] == 2
    assert rows[-1]["text"] == "To [EMAIL_ADDRESS]."
    assert (summary["documents"], summary["released"], summary["failed"]) == (13, 3, 10)
    assert summary["complete"] is True


def test_what_is_wrong_before_the_first_document_is_a_status(tenant: Tenant) -> None:
    for content, status, problem in (
        *((blank, 422, "invalid-input") for blank in BLANK), (b"zworykin\n", 400, "malformed"),
        (b"\xff\xfe\n", 400, "malformed"), (b'"zworykin"\n', 422, "invalid-input"),
        ({"zworykin 1": 1}, 422, "invalid-input"), ({"mask": {"techniques": ["zworykin"]}}, 422, "invalid-input"),
        ({"mask": {"allow_list": "zworykin"}}, 422, "invalid-input"),
        ({"fill": {"mode": "metric_dp"}}, 422, "invalid-input"), ({"policy": "zworykin"}, 422, "invalid-input"),
        (b"zworykin" * 1_100_000, 413, "body-too-large"),
    ):  # fmt: skip
        answer = tenant.sanitize_lines(content, *([] if content in BLANK else [{"text": "x"}]))
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["code"] == problem
        assert "zworykin" not in answer.text


def test_a_stream_has_no_idempotency_key(tenant: Tenant) -> None:
    refused = tenant.sanitize_lines({"text": "x"}, headers={"Idempotency-Key": "zworykin"})
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid-input")
    assert "zworykin" not in refused.text + str(refused.headers)


def test_each_document_is_charged_once_under_the_release_of_its_rows(tenant: Tenant) -> None:
    rows, summary = stream(tenant, METRIC, *[{"text": f"Meet Dr Zworykin at {n}"} for n in range(70)], {"text": ""})

    assert summary["charged"] == summary["released"] == 70
    assert summary["failed"] == 1
    assert tenant.committed("vector") == 70 * 2.5
    assert tenant.committed("token") == pytest.approx(70 * WORST, rel=1e-12)
    assert summary["privacy"]["guarantee"] == "metric-dp"
    assert summary["privacy"]["epsilon_worst_case"] == WORST
    assert "release_id" not in summary["privacy"]
    assert summary["budget"]["committed"]["epsilon"] == 175.0
    assert summary["budget"]["remaining"]["epsilon"] == 825.0
    entries = tenant.http.get(f"/budget/{tenant.name}/vector/journal?limit=1000").json()["entries"]
    releases = {row["release_id"] for row in rows if "release_id" in row}
    assert {entry["release_id"] for entry in entries if entry["transition"] == "commit"} == releases
    assert not any("zworykin" in row.get("text", "").lower() for row in rows)


def test_an_exhausted_budget_ends_the_stream_with_what_it_still_covered(gateway: Gateway) -> None:
    tenant = gateway.tenant(epsilon=35.0)
    rows, summary = stream(tenant, METRIC, *[{"text": "short text"}] * 3, b"no json\n", *[{"text": "short text"}] * 200)
    assert [code(row) for row in rows] == [None, None, None, "malformed", None, None, None, None]
    assert summary["problem"]["code"] == "budget-exhausted"
    assert summary["problem"]["account"] == f"{tenant.name}/token"
    assert (summary["complete"], summary["documents"]) == (False, 8)
    assert summary["released"] == summary["charged"] == 7
    assert tenant.committed("token") == pytest.approx(7 * WORST)
    assert tenant.account("token")["reserved"]["epsilon"] == 0.0
    assert tenant.http.get("/budget").status_code == 200, "the connection is fit for the next request"


def test_a_stream_that_the_budget_does_not_cover_at_all_says_what_it_would_have_been(gateway: Gateway) -> None:
    rows, summary = stream(gateway.tenant(epsilon=1.0), METRIC, {"text": "x"})
    assert rows == []
    assert (summary["documents"], summary["charged"], summary["budget"]) == (0, 0, None)
    assert summary["problem"]["code"] == "budget-exhausted"
    assert summary["privacy"]["guarantee"] == "metric-dp"


def test_subjects_are_the_business_of_their_lines(gateway: Gateway) -> None:
    tenant = gateway.tenant(epsilon=100.0, subject_epsilon=6.0)
    rows, summary = stream(tenant, METRIC, *[{"text": "x", "subject": name} for name in "abac"], {"text": "x"})
    assert [code(row) for row in rows] == [None, None, "budget-exhausted", None, "subject-required"]
    assert summary["complete"] is True
    assert summary["charged"] == 3


def test_a_policy_holds_for_a_stream(gateway: Gateway, tenant: Tenant) -> None:
    rows, summary = stream(tenant, {"policy": "newsroom", "fill": {"mode": "class_marker"}}, {"text": f"To {SECRET}"})
    assert rows[0]["text"] == "To [EMAIL_ADDRESS]"
    assert summary["policy"] == "newsroom"
    assert tenant.sanitize_lines({"policy": "clinical"}).status_code == 422


@pytest.mark.slow("process")
def test_a_long_stream_holds_little_memory(real_gateway: RealGateway, real_tenant: Tenant) -> None:
    long = b'{"text": "To ' + SECRET.encode() + b'"' + b" " * 65_000 + b"}\n"

    def memory_kb(what: str) -> int:
        status = Path(f"/proc/{real_gateway.process.pid}/status").read_text()
        return int(status.split(f"{what}:")[1].split()[0])

    stream(real_tenant, {"text": "warm"})
    Path(f"/proc/{real_gateway.process.pid}/clear_refs").write_text("5")  # resets the peak
    before = memory_kb("VmRSS")
    lines = (b'{"text": "no end\n' if number % 20 == 7 else long for number in range(2000))
    rows, summary = parsed(real_tenant.http.post("/sanitize/batch", content=lines, headers=HEADERS))

    assert (summary["documents"], len(rows), summary["failed"]) == (2000, 2000, 100)
    assert memory_kb("VmHWM") - before < 64 * 1024, "130 MB went through"


def test_rows_come_while_the_body_is_open_and_a_client_that_leaves_pays_for_no_more(
    gateway: Gateway, tenant: Tenant
) -> None:
    async def talk() -> None:
        exchange = of_documents(gateway, tenant.key, line(METRIC))
        for rows in range(1, 4):
            exchange.body.put_nowait(line({"text": "one two three"}))
            while sum(message.get("body", b"").count(b"\n") for message in exchange.messages) < rows:
                assert not exchange.task.done()
                await asyncio.sleep(0.01)
        exchange.leave()
        await exchange.ended()

    gateway.on_loop(talk())
    account = tenant.account("vector")
    assert (account["committed"]["epsilon"], account["reserved"]["epsilon"]) == (3 * 2.5, 0.0)


@pytest.mark.slow("crash")
def test_a_client_that_leaves_pays_for_no_group_but_the_one_at_work(real_gateway: RealGateway) -> None:
    tenant = real_gateway.tenant(epsilon=1e6)
    worker = real_gateway.pid_of("worker sanitize")
    body = b"".join(map(line, [METRIC, *[{"text": "one two three"}] * 600]))
    head = f"POST /sanitize/batch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {tenant.key}\r\n"
    head += f"Content-Type: application/x-ndjson\r\nContent-Length: {len(body) + 1}\r\n\r\n"  # it stays open
    os.kill(worker, signal.SIGSTOP)
    try:
        with socket.create_connection(("127.0.0.1", real_gateway.port), timeout=300) as client:
            client.sendall(head.encode() + body)
            until(lambda: tenant.account("vector")["reserved"]["epsilon"])
        held = tenant.account("vector")["reserved"]["epsilon"]
    finally:
        os.kill(worker, signal.SIGCONT)

    def is_settled() -> bool:
        before = tenant.account("vector")
        time.sleep(0.5)  # longer than a group takes
        return not before["reserved"]["epsilon"] and tenant.account("vector") == before

    until(is_settled)
    assert held <= 64 * 2.5
    assert tenant.committed("vector") <= held


def test_a_worker_that_dies_is_the_problem_of_the_documents_it_held(gateway: Gateway, tenant: Tenant) -> None:
    gateway.kill_worker_at_work(Role.SANITIZE)
    rows, summary = stream(tenant, METRIC, *[{"text": "one two three"}] * 100)  # two groups
    codes = [code(row) for row in rows]
    assert set(codes) == {None, "worker-died"}
    assert codes == sorted(codes, key=lambda each: each is None), "the group that was at work"
    assert all(row["problem"]["charged"] for row in rows if "problem" in row)
    assert summary["complete"] is True
    assert tenant.committed("vector") == 100 * 2.5


def test_a_stream_of_blank_lines_is_refused(tmp_path: Path) -> None:
    with opened_gateway(tmp_path, changes={}) as gateway:
        tenant = gateway.tenant()
        refused = tenant.sanitize_lines(b"\n" * 2_000)
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid-input")
        assert "blank lines" in refused.json()["detail"]
        rows, summary = stream(tenant, *[{"text": "x"}, b"\n" * 300] * 3)
        assert (len(rows), summary["complete"]) == (3, True)


def test_the_limits_of_a_stream_and_its_end_with_the_gateway(tmp_path: Path) -> None:
    limits = {"stream_lines_max": 5, "stream_line_bytes_max": 1024, "stream_group_max": 2, "stream_idle_s": 0.5}
    with opened_gateway(tmp_path, changes=limits) as small:
        tenant = small.tenant()
        rows, summary = stream(tenant, *[{"text": "x"}] * 4, {"text": "x" * 1024}, {"text": "x"}, {"text": "x"})
        assert [code(row) for row in rows] == [None] * 4 + ["body-too-large"]
        assert (summary["complete"], summary["problem"]["code"]) == (False, "invalid-input")

        refused = tenant.sanitize_lines(b"\n" * 6)  # blank lines count before they are skipped
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid-input")
        assert "at most 5 lines" in refused.json()["detail"]
        rows, summary = stream(tenant, {"text": "x"}, b"\n" * 4)
        assert (len(rows), summary["complete"]) == (1, True)
        rows, summary = stream(tenant, {"text": "x"}, b" \n" * 1000, {"text": "x"})
        assert (summary["complete"], summary["problem"]["code"]) == (False, "invalid-input")
        assert len(rows) <= 1

        async def left_open(end: Callable[[], None]) -> str:
            """The code of the problem that ends a stream whose client sends one line and then nothing."""
            exchange = await of_documents(small, tenant.key, line({"text": "x"})).begun()
            end()
            return str(json.loads((await exchange.ended()).splitlines()[-1])["summary"]["problem"]["code"])

        assert small.on_loop(left_open(lambda: None)) == "request-timeout"
        assert small.on_loop(left_open(small.service.end_streams)) == "not-started"
