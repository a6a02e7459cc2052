"""A client that openapi-python-client writes from the gateway's description of its API."""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from suite_kit import LETTER, URL, new_tenant, shown


def test_the_generated_client_of_the_guide_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    description = tmp_path / "openapi.json"
    with urllib.request.urlopen(f"{URL}/openapi.json") as answer:
        description.write_bytes(answer.read())
    options = ["--path", description, "--output-path", tmp_path / "generated", "--meta", "none"]
    made = subprocess.run(
        [Path(sys.executable).with_name("openapi-python-client"), "generate", *map(str, options)],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    monkeypatch.syspath_prepend(tmp_path)
    client = module("client").AuthenticatedClient(base_url=URL, token=new_tenant(), raise_on_unexpected_status=True)
    body = json.loads(description.read_text())["paths"]["/sanitize"]["post"]["requestBody"]
    example = body["content"]["application/json"]["example"] | {"documents": [{"text": LETTER}]}
    request = module("models").SanitizeRequest.from_dict(example)
    with client:
        masked = module("api.text.sanitize").sync(client=client, body=request, idempotency_key="one")
        accounts = module("api.budget.list_accounts").sync(client=client)
    assert not shown(masked.data[0].text)
    assert masked.privacy.guarantee == "none"
    assert {account.unit for account in accounts.accounts} >= {"sentence", "token"}


def module(name: str) -> Any:
    return __import__(f"generated.{name}", fromlist=["_"])
