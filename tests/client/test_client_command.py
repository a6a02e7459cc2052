"""`privacy-gateway-client` against a gateway: outputs, resumption, exit codes."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import pytest
from client_kit import Recorder
from corpus_kit import json_lines
from finetune_http_kit import tiny_encoder
from finetune_kit import LABELS, labelled
from gateway_kit import Gateway, Tenant
from inprocess_kit import Gateway as InProcessGateway
from safetensors import safe_open
from safetensors.numpy import load_file
from synthesis_kit import SHOP, shop_rows

from privacy_gateway_client.cli import main as command
from privacy_gateway_client.cli.main import KEY_VARIABLE, main
from privacy_gateway_client.cli.main import Gateway as CommandGateway

SECRET = "Maria Keller"


class Run:
    """Runs the command against the in-process gateway, through a transport that a test may replace."""

    def __init__(self, gateway: InProcessGateway) -> None:
        self.transport: httpx.BaseTransport = gateway.transport

    def __call__(self, *arguments: str) -> int:
        def client(url: str, key: str, **settings: Any) -> CommandGateway:
            return CommandGateway(url, key, transport=self.transport, **settings)

        with mock.patch("privacy_gateway_client.cli.main.Gateway", client):
            return main([*arguments, "--url", "http://gateway"])


@pytest.fixture
def run(gateway: InProcessGateway, tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    monkeypatch.setenv(KEY_VARIABLE, tenant.key)
    return Run(gateway)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "docs.jsonl"
    path.write_text("".join(json.dumps({"id": str(n), "text": f"{SECRET} {n}. Two."}) + "\n" for n in range(150)))
    return path


def test_documents_become_a_file_of_vectors(run: Run, tenant: Tenant, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "vectors.safetensors"
    assert run("embed", str(corpus), "--epsilon", "2", "--out", str(out)) == command.DONE
    assert load_file(out)["embeddings"].shape == (150, 384)
    with safe_open(out, "np") as file:
        facts = file.metadata()
    assert json.loads(facts["ids"]) == [str(n) for n in range(150)]
    assert json.loads(facts["releases"])[2]["inputs"] == [128, 150]
    assert json.loads(facts["releases"])[2]["privacy"]["epsilon"] == 2
    assert tenant.committed() == 300
    assert [path.name for path in tmp_path.iterdir() if "parts" in path.name] == []


def test_a_command_that_was_interrupted_continues(
    run: Run, gateway: InProcessGateway, tenant: Tenant, corpus: Path, tmp_path: Path
) -> None:
    """Its answers were lost after they had been paid; the second run gets the same ones under the same keys."""

    def lose(request: httpx.Request) -> httpx.Response:
        answer = gateway.transport.handle_request(request)
        if request.url.path != "/embed/sentdp":
            return answer
        answer.read()
        raise httpx.ReadError("lost", request=request)

    arguments = ("embed", str(corpus), "--epsilon", "1", "--out", str(tmp_path / "v.safetensors"))
    run.transport = Recorder(lose)
    assert run(*arguments, "--wait", "0") == command.UNREACHABLE
    assert tenant.committed() > 0
    run.transport = gateway.transport
    assert run(*arguments) == command.DONE

    assert tenant.committed() == 150
    assert run(*arguments) == command.USAGE  # the output exists


def test_what_was_paid_is_kept_when_the_budget_ends(
    gateway: InProcessGateway, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    poor = gateway.tenant(epsilon=100)
    monkeypatch.setenv(KEY_VARIABLE, poor.key)
    run = Run(gateway)
    arguments = ("embed", str(corpus), "--epsilon", "1", "--out", str(tmp_path / "v.safetensors"))
    for _ in range(2):  # what was refused is not taken for begun
        assert run(*arguments) == command.BUDGET
        assert "has epsilon 100 left, and the request needs epsilon 150" in capsys.readouterr().err
    assert poor.committed() == 0
    arguments = (*arguments, "--as-many-as-fit")
    assert run(*arguments) == command.BUDGET
    assert "budget-exhausted" in capsys.readouterr().err
    paid = poor.committed()
    assert paid > 0
    assert len(list((tmp_path / "v.safetensors.parts").iterdir())) >= 2
    assert run(*arguments) == command.BUDGET
    assert poor.committed() == paid


def test_texts_are_sanitised_line_by_line(run: Run, tenant: Tenant, tmp_path: Path) -> None:
    source = tmp_path / "mails.txt"
    source.write_text("Mail jane@example.org\n\nNothing\n")
    out = tmp_path / "clean.jsonl"
    assert run("sanitize", str(source), "--fill", "marker", "--out", str(out)) == command.DONE
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["index"] for row in rows] == [0, 1]
    assert "jane" not in rows[0]["text"]
    assert rows[1]["text"] == "Nothing"
    words = tmp_path / "words.jsonl"
    arguments = ("--technique", "all", "--fill", "metric_dp", "--epsilon", "2", "--out", str(words))
    assert run("sanitize", str(source), *arguments) == command.DONE
    assert tenant.committed("vector") == 4


def test_the_budget_is_shown(run: Run, tenant: Tenant, capsys: Any) -> None:
    assert run("budget") == command.DONE
    assert f"{tenant.name}/sentence\tepsilon 1000 of 1000" in capsys.readouterr().out
    assert run("budget", "--mechanism", "sentence_codes", "--epsilon", "3") == command.DONE
    assert capsys.readouterr().out == "333\n"


def test_exit_codes(
    run: Run, tenant: Tenant, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    out = str(tmp_path / "v")
    assert run("embed", str(tmp_path / "missing.jsonl"), "--epsilon", "1", "--out", out) == command.USAGE
    assert run("embed", str(corpus), "--epsilon", "1", "--out", out, "--cap", "10") == command.BUDGET
    assert run("embed", str(corpus), "--epsilon", "1", "--out", out, "--domain", "none") == command.USAGE
    damaged = tmp_path / "damaged.jsonl"
    damaged.write_text(f'{{"text": "ok"}}\n{{"text": "{SECRET}\n')
    assert run("embed", str(damaged), "--epsilon", "1", "--out", str(tmp_path / "w")) == command.USAGE
    assert "line 2" in capsys.readouterr().err
    damaged.write_text(101 * '{"text": "ok"}\n' + '{"text": " "}\n')
    assert run("embed", str(damaged), "--epsilon", "1", "--out", str(tmp_path / "w")) == command.USAGE
    assert "documents.101: " in capsys.readouterr().err
    assert tenant.committed() == 0
    assert main(["budget", "--url", "127.0.0.1:8000"]) == command.USAGE
    monkeypatch.setenv(KEY_VARIABLE, "pgw_wrong")
    assert run("budget") == command.KEY
    monkeypatch.delenv(KEY_VARIABLE)
    assert run("budget") == command.KEY
    assert SECRET not in capsys.readouterr().err


def test_a_table_is_synthesised(real_gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a real gateway, whose jobs are processes; the same command finds the same job."""
    tenant = real_gateway.tenant(record={"epsilon": 50, "delta": 1e-3})
    monkeypatch.setenv(KEY_VARIABLE, tenant.key)
    (tmp_path / "schema.json").write_text(json.dumps(SHOP))
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(shop_rows(1)[0]))
        table.writeheader()
        table.writerows(shop_rows(300))
    arguments = [
        "synthesize", "--url", real_gateway.url, "--schema", str(tmp_path / "schema.json"),
        "--data", str(tmp_path / "rows.csv"), "--method", "marginals", "--epsilon", "1", "--delta", "1e-5",
        "--row-count", "public", "--rows", "50", "--name", "shop", "--out", str(tmp_path / "made"),
    ]  # fmt: skip
    assert main(arguments) == command.DONE
    spent = tenant.committed("record")
    assert main(arguments) == command.DONE

    assert spent == tenant.committed("record") > 0
    assert len((tmp_path / "made/shop.csv").read_text().splitlines()) == 51
    assert json.loads((tmp_path / "made/shop.certificate.json").read_text())["guarantee"] == "approx-dp"
    assert (tmp_path / "made/shop.html").stat().st_size > 0


@pytest.mark.slow("training")
def test_a_classifier_is_trained(
    real_gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """The same command finds the same job; another name, or other rows, are another one."""
    tiny_encoder(real_gateway)
    tenant = real_gateway.tenant(record={"epsilon": 60.0, "delta": 2e-3, "basic_delta": 2e-3})
    monkeypatch.setenv(KEY_VARIABLE, tenant.key)
    (tmp_path / "towns.jsonl").write_bytes(json_lines(labelled(40)))
    (tmp_path / "public.jsonl").write_bytes(json_lines(labelled(10)))
    arguments = [
        "finetune", "--url", real_gateway.url, "--data", str(tmp_path / "towns.jsonl"),
        "--public", str(tmp_path / "public.jsonl"), "--model", "tiny", "--epsilon", "50", "--delta", "1e-3",
        "--batch", "8", "--steps", "3", "--weight-decay", "0.01", "--out", str(tmp_path / "made"),
        *(part for label in LABELS for part in ("--label", label)),
    ]  # fmt: skip
    assert main([*arguments[:-4], "--plan", *arguments[-4:]]) == command.DONE
    assert "costs epsilon 5" in capsys.readouterr().out
    assert main([*arguments, "--cap", "10"]) == command.BUDGET
    assert tenant.committed("record") == 0
    assert main([*arguments, "--cap", "60"]) == command.DONE
    spent = tenant.committed("record")
    assert spent > 50
    card = (tmp_path / "made/classifier.md").read_text()
    assert "Classifier `classifier`" in card
    assert "| weight decay | 0.01 |" in card
    made = (tmp_path / "made/classifier.safetensors").read_bytes()

    assert main(arguments) == command.DONE
    assert tenant.committed("record") == spent
    assert (tmp_path / "made/classifier.safetensors").read_bytes() == made
    assert main([*arguments, "--name", "other"]) == command.BUDGET
    (tmp_path / "towns.jsonl").write_bytes(json_lines([{**row, "label": "nowhere"} for row in labelled(40)]))
    capsys.readouterr()
    assert main([*arguments, "--name", "wrong", "--epsilon", "5"]) == command.JOB
    assert "unknown-label" in capsys.readouterr().err
    assert tenant.committed("record") == spent
