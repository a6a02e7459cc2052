"""The commands of README.md, on a tenant with the limits of the one that `make run` makes."""

from __future__ import annotations

import itertools
import json
import re
import shlex
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from gateway_kit import COMMAND, Gateway, Tenant, clean_environment

ROOT = Path(__file__).parents[2]
ADDRESS = "http://127.0.0.1:8000"
SHELL = re.compile(r"```sh\n(.*?)```", re.DOTALL)


def requests_of(page: str) -> list[list[str]]:
    """The words of every `curl` command that has no argument of the reader's own."""
    blocks = "\n".join(SHELL.findall((ROOT / page).read_text()))
    joined = blocks.replace("\\\n", " ")
    starts = [match.start() for match in re.finditer(r"^curl ", joined, re.MULTILINE)]
    return [shlex.split(joined[start : _end(joined, start)], comments=True) for start in starts]


def _end(text: str, start: int) -> int:
    """The end of the command: the first line end outside quotes."""
    quote = ""
    for at in range(start, len(text)):
        if quote:
            quote = "" if text[at] == quote else quote
        elif text[at] in "'\"":
            quote = text[at]
        elif text[at] == "\n":
            return at
    return len(text)


@pytest.fixture(scope="module")
def dev(gateway: Gateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenant]:
    """A tenant that is made as the Makefile makes `dev`."""
    options = re.search(r"tenant create dev (.*) --key-file", (ROOT / "Makefile").read_text())
    assert options is not None
    name, key_file = f"dev-{uuid.uuid4().hex[:8]}", tmp_path_factory.mktemp("dev") / "dev.key"
    subprocess.run(
        [
            str(COMMAND), "tenant", "create", name, *shlex.split(options[1]),
            "--key-file", str(key_file), "--data-dir", str(gateway.data_dir),
        ],
        check=True,
        env=clean_environment(),
        capture_output=True,
    )  # fmt: skip
    key = key_file.read_text().strip()
    with httpx.Client(base_url=gateway.url, headers={"Authorization": f"Bearer {key}"}, timeout=60) as http:
        yield Tenant(name, key, http)


def test_the_page_shows_requests() -> None:
    assert len(requests_of("README.md")) >= 8


@pytest.mark.parametrize(
    "words",
    [words for words in requests_of("README.md") if "-T" not in words and "JOB_ID" not in " ".join(words)],
    ids=lambda words: next(word for word in words if word.startswith(ADDRESS)).removeprefix(ADDRESS).split("?")[0],
)
def test_each_request_of_the_readme_is_answered(dev: Tenant, words: list[str]) -> None:
    url = next(word for word in words if word.startswith(ADDRESS)).removeprefix(ADDRESS)
    headers = dict(word.split(": ", 1) for flag, word in itertools.pairwise(words) if flag == "-H")
    assert headers.pop("Authorization") == "Bearer $KEY"
    body = next((word for flag, word in itertools.pairwise(words) if flag == "-d"), None)
    answer = dev.http.get(url) if body is None else dev.http.post(url, content=body, headers=headers)
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("limits", [None, {"epsilon": 10, "delta": 1e-4}, {"epsilon": 30, "delta": 1e-3}])
def test_a_newcomer_can_fine_tune(gateway: Gateway, dev: Tenant, limits: dict[str, float] | None) -> None:
    """At (8, 1e-5), by default, on any record account whose limit plainly covers it."""
    tenant = dev if limits is None else gateway.tenant(record=limits)
    training = {"name": "mood", "labels": ["good", "bad"], "epsilon": 8, "delta": 1e-5, "rows": 20_000, "batch": 200}
    answer = tenant.http.post("/budget/estimate", json=training | {"epochs": 1})
    assert answer.status_code == 200, answer.text
    line = answer.json()["accounts"][0]
    assert line["cost"]["epsilon"] < 10
    assert answer.json()["allowed"], json.dumps(answer.json())
