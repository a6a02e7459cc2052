"""Bulk releases by the client and its command, against a real gateway, whose jobs are processes."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gateway_kit import Gateway, Tenant

from privacy_gateway_client import BudgetCapReached, InvalidRequest
from privacy_gateway_client import Gateway as Client
from privacy_gateway_client.cli import main as command
from privacy_gateway_client.cli.main import KEY_VARIABLE, main

ROWS = 12
VECTOR: dict[str, Any] = {"endpoint": "embed/vector", "body": {"epsilon": 3}}
COST = 3.0 * ROWS


@pytest.fixture
def owner(real_gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> Tenant:
    tenant = real_gateway.tenant(epsilon=1000)
    monkeypatch.setenv(KEY_VARIABLE, tenant.key)
    return tenant


@pytest.fixture
def client(real_gateway: Gateway, owner: Tenant) -> Iterator[Client]:
    with Client(real_gateway.url, owner.key) as made:
        yield made


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """CSV, with a line break in each value."""
    path = tmp_path / "notes.csv"
    path.write_text("note,key\n" + "".join(f'"Yes.\n{number}.",k{number}\n' for number in range(ROWS)))
    return path


def test_a_file_is_released_under_a_cap_and_downloaded(client: Client, owner: Tenant, notes: Path) -> None:
    columns = {"text_column": "note", "id_column": "key"}
    with client.budget_cap(COST) as cap:
        job = client.release("notes", notes, target={"format": "parquet"}, idempotency_key="one", **columns, **VECTOR)
        assert cap.remaining == 0
        with pytest.raises(BudgetCapReached):
            client.release("more", [{"text": "Yes."}], **VECTOR)
        with pytest.raises(InvalidRequest, match="row_count"):
            client.release("more", {"store": "lake", "prefix": "in", "format": "csv"}, **VECTOR)
    done = client.jobs.wait(job)
    assert client.jobs.resume(client.jobs.pause(done)).status == "succeeded"
    made = notes.with_name("out.parquet")
    client.jobs.download(done, made)
    assert made.read_bytes() == client.jobs.artifact(done)
    manifest = client.jobs.manifest(done)
    assert (manifest["written"], manifest["left_out"], manifest["columns"][:2]) == (ROWS, [], ["row", "id"])
    assert owner.committed("sentence") == COST
    assert client.release("notes", notes, target={"format": "parquet"}, idempotency_key="one", **columns, **VECTOR)
    assert len(list(client.jobs.list())) == 1


def test_rows_of_a_list_and_of_compressed_lines_cost_nothing_by_a_free_fill(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"text": "Mail ann@example.org"}\n'))
    for source in (path, [{"text": "Mail ann@example.org"}]):
        with client.budget_cap(0):
            job = client.release("mails", source, endpoint="sanitize", body={"fill": {"mode": "marker"}})
        [row] = client.jobs.artifact(client.jobs.wait(job)).splitlines()
        assert "ann@" not in json.loads(row)["text"]
    with pytest.raises(InvalidRequest, match=r"\.parquet"):
        client.release("mails", tmp_path / "rows.txt", endpoint="sanitize", body={})


def test_the_command_shows_the_price_and_continues_its_job(
    real_gateway: Gateway, owner: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    path, out = tmp_path / "notes.jsonl", tmp_path / "notes.out.jsonl"
    path.write_text("".join(json.dumps({"text": "Yes.", "id": number}) + "\n" for number in range(ROWS)) + "nothing\n")
    arguments = ["release", str(path), "--url", real_gateway.url, "--endpoint", "embed/vector", "--out", str(out)]
    body = ["--body", '{"epsilon": 3}', "--id-column", "id"]
    assert main([*arguments, *body]) == command.USAGE
    assert f"{ROWS + 1} rows cost epsilon {COST + 3:g} of {owner.name}/" in capsys.readouterr().err
    assert main([*arguments, *body, "--cap", "10", "--yes"]) == command.BUDGET
    assert main([*arguments, "--body", '{"epsilon": 300}', "--yes"]) == command.BUDGET
    assert main([*arguments, "--body", '{"epsilon": "3"}', "--yes"]) == command.USAGE
    assert "epsilon" in capsys.readouterr().err

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("privacy_gateway_client.generated.jobs.Jobs.wait", lambda *_, **__: interrupted())
        assert main([*arguments, *body, "--yes"]) == command.STOPPED
    path.write_text(path.read_text() + "\n\n")
    assert main([*arguments, *body]) == command.USAGE
    path.write_text(path.read_text().removesuffix("\n\n"))
    assert main([*arguments, *body]) == command.DONE, "it is not asked again"
    shown = capsys.readouterr().out
    assert f"{ROWS} of {ROWS + 1} rows are in {out.name}" in shown
    assert "left out: 1 not-json" in shown
    assert [json.loads(line)["id"] for line in out.read_text().splitlines()] == [str(number) for number in range(ROWS)]
    assert json.loads((tmp_path / "notes.out.jsonl.manifest.json").read_text())["unreadable"] == 1
    assert owner.committed("sentence") == COST
    assert not (tmp_path / "notes.out.jsonl.job").exists()
    assert main([*arguments, *body]) == command.USAGE
