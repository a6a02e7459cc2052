"""`privacy-gateway domain`: in the foreground, without a gateway and beside one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from command_kit import Finished, run_command
from corpus_kit import PLANTED, documents, embedding_rows, json_lines, rows
from gateway_kit import COMMAND, Gateway, Tenant, clean_environment


def command(data_dir: Path, *arguments: str) -> list[str]:
    return [str(COMMAND), "domain", *arguments, "--data-dir", str(data_dir)]


def run(data_dir: Path, *arguments: str) -> Finished:
    return run_command(None, "domain", *arguments, "--data-dir", str(data_dir))


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "public.jsonl"
    path.write_bytes(json_lines(embedding_rows(120)))
    return path


@pytest.mark.slow("training")
def test_build_list_remove(tmp_path: Path, corpus: Path) -> None:
    data = tmp_path / "data"
    few = ("--steps", "10")
    built = run(data, "build", "--corpus", str(corpus), "--name", "law", "--source", "court | site", "--json", *few)
    assert built.returncode == 0, built.stderr
    assert json.loads(built.stdout)["documents"] == 120
    assert "encoding" in built.stderr
    assert [path.name for path in (data / "jobs").iterdir()] == []
    assert len(list((data / "store/files/shared").iterdir())) == 2, "the pack and its card"

    own = run(data, "build", "--corpus", str(corpus), "--name", "law", "--tenant", "acme", *few)
    assert own.returncode == 0, own.stderr
    rows_of = {row["name"]: row["scope"] for row in json.loads(run(data, "list", "--tenant", "acme", "--json").stdout)}
    assert (rows_of["general"], rows_of["law"]) == ("installed", "tenant")
    assert "law\tshared" in run(data, "list").stdout

    assert run(data, "remove", "law").returncode == 0
    assert run(data, "remove", "law").returncode == 1
    assert "law" not in run(data, "list").stdout
    assert "law\ttenant" in run(data, "list", "--tenant", "acme").stdout
    assert not list((data / "store/files/shared").iterdir())


@pytest.mark.parametrize("name", ["auto", "routes"])
def test_a_reserved_name_cannot_be_built(tmp_path: Path, corpus: Path, name: str) -> None:
    data = tmp_path / "data"
    refused = run(data, "build", "--corpus", str(corpus), "--name", name)
    assert refused.returncode == 1
    assert "reserved" in refused.stderr


def _interruptible() -> None:
    """Of a child: a shell's background job, as the tests may be, is started deaf to Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.slow("crash")
def test_a_stopped_command_goes_on(tmp_path: Path) -> None:
    corpus = tmp_path / "public.jsonl"
    corpus.write_bytes(json_lines([{"sentences": [*parts, PLANTED]} for parts in documents(310)]))
    data = tmp_path / "data"
    arguments = ("build", "--corpus", str(corpus), "--name", "law", "--steps", "10")
    for number in (signal.SIGINT, signal.SIGKILL):
        with subprocess.Popen(
            command(data, *arguments), env=clean_environment(), stderr=subprocess.PIPE, preexec_fn=_interruptible
        ) as first:
            deadline = time.monotonic() + 300
            wanted = 1 if number is signal.SIGINT else 2
            while len(list(data.glob("jobs/command-*/shard-*"))) < wanted and time.monotonic() < deadline:
                time.sleep(0.02)
            os.kill(first.pid, number)
            assert first.wait(300) != 0
    kept = {path: path.stat().st_mtime_ns for path in data.glob("jobs/command-*/shard-00000[01]")}
    assert len(kept) == 2
    assert not any(b"zanzibar" in path.read_bytes() for path in data.rglob("*") if path.is_file())
    with subprocess.Popen(command(data, *arguments), env=clean_environment(), stderr=subprocess.PIPE) as second:
        deadline = time.monotonic() + 300
        while len(list(data.glob("jobs/command-*/shard-*"))) < 4 and time.monotonic() < deadline:
            assert second.poll() is None
            time.sleep(0.02)
        assert {path: path.stat().st_mtime_ns for path in kept} == kept
        assert second.wait(300) == 0
    assert not list(data.glob("jobs/*"))


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b'{"text": "walrus', "line 1"),
        (json_lines(rows(5)), "too-few-documents"),
    ],
)
def test_a_bad_corpus_is_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(content)
    failed = run(tmp_path / "data", "build", "--corpus", str(path), "--name", "law")
    assert failed.returncode == 1
    assert message in failed.stderr
    assert "walrus" not in failed.stderr
    assert "Traceback" not in failed.stderr
    assert not list((tmp_path / "data" / "jobs").iterdir())


def test_what_cannot_be_is_said_in_one_line(tmp_path: Path, corpus: Path) -> None:
    for arguments in (
        ("build", "--corpus", str(tmp_path / "nowhere"), "--name", "law"),
        ("build", "--corpus", str(corpus), "--name", "../law"),
        ("build", "--corpus", str(corpus), "--name", "law", "--tenant", "../x"),
        ("build", "--corpus", str(corpus), "--name", "law", "--tenant", "x", "--shared"),
        ("build", "--corpus", str(corpus), "--name", "law", "--steps", "9"),
        ("remove", "../general"),
    ):
        failed = run(tmp_path / "data", *arguments)
        assert failed.returncode != 0, arguments
        assert "Traceback" not in failed.stderr
    assert not list(tmp_path.glob("data/domains/**/*.safetensors"))


@pytest.mark.slow("training")
def test_beside_a_running_gateway(real_gateway: Gateway, real_tenant: Tenant, corpus: Path) -> None:
    """What the command builds is there at once."""
    options = ("--name", "beside", "--tenant", real_tenant.name, "--steps", "10")
    built = run(real_gateway.data_dir, "build", "--corpus", str(corpus), *options)
    assert built.returncode == 0, built.stderr
    document = embedding_rows(1, seed=4)[0]
    assert real_tenant.embed([document], domain="beside", normalize=True).status_code == 200
    assert run(real_gateway.data_dir, "remove", "beside", "--tenant", real_tenant.name).returncode == 0
    assert real_tenant.embed([document], domain="beside", normalize=True).status_code == 422
