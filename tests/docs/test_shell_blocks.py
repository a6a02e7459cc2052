"""Every shell block of README.md and docs/ runs against a gateway, or carries the reason why it does not.

A block that cannot run in a test has a comment on the line before its fence: `<!-- not run: the reason -->`.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from corpus_kit import json_lines, rows
from gateway_kit import COMMAND, Gateway, clean_environment

ROOT = Path(__file__).parents[2]
ADDRESS = "http://127.0.0.1:8000"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<lines>.*?)^ *```$", re.MULTILINE | re.DOTALL)
SHELL = {"sh", "bash", "console", "shell", "zsh"}
MARKER = re.compile(r"^ *<!-- not run: \S.* -->$")
# A curl that fails where the gateway answers with an error, and commands that find the gateway.
CURL = '#!/bin/sh\nexec {curl} --fail-with-body --show-error --max-time 500 "$@"\n'
CLIENT = '#!/bin/sh\nPRIVACY_GATEWAY_URL={url} exec {python} -m privacy_gateway_client.cli.main "$@"\n'


class Block(NamedTuple):
    line: int
    commands: str
    runs: bool


def blocks(page: str) -> Iterator[Block]:
    """The shell blocks of a page; of a `console` block the lines after a prompt."""
    for fence in FENCE.finditer(page):
        if fence["language"] not in SHELL:
            continue
        lines = [line.removeprefix(fence["indent"]) for line in fence["lines"].splitlines()]
        if fence["language"] == "console":
            lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        before = page[: fence.start()].splitlines()
        yield Block(len(before) + 1, "\n".join(lines), not (before and MARKER.match(before[-1])))


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture(scope="module")
def reader(real_gateway: Gateway, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a reader: the tenant that `make run` opens, its key, the commands.

    Of the tenant's budget, 500 documents at epsilon 10 are taken away, as if they had been embedded before.
    """
    options = re.search(r"tenant create dev (.*) --key-file", (ROOT / "Makefile").read_text())
    assert options is not None
    key_file = real_gateway.data_dir / "dev.key"
    environment = clean_environment() | {"PRIVACY_GATEWAY_DATA_DIR": str(real_gateway.data_dir)}
    subprocess.run(
        [str(COMMAND), "tenant", "create", "dev", *shlex.split(options[1]), "--key-file", str(key_file)],
        check=True,
        capture_output=True,
        env=environment,
    )
    budget = re.search(r"--epsilon (\d+)", options[1])
    assert budget is not None
    for unit in ("sentence", "token"):
        limit = ["tenant", "limit", "dev", unit, str(int(budget[1]) - 500 * 10)]
        subprocess.run([str(COMMAND), *limit], check=True, capture_output=True, env=environment)
    commands = tmp_path_factory.mktemp("commands")
    curl = subprocess.run(["which", "curl"], check=True, capture_output=True, text=True).stdout.strip()
    for command, script in (
        ("curl", CURL.format(curl=curl)),
        ("privacy-gateway", f'#!/bin/sh\nexec {COMMAND} "$@"\n'),
        ("privacy-gateway-client", CLIENT.format(url=real_gateway.url, python=sys.executable)),
    ):
        (commands / command).write_text(script)
        (commands / command).chmod(0o755)
    return environment | {"PATH": f"{commands}:{os.environ['PATH']}", "KEY": key_file.read_text().strip()}


@pytest.mark.slow("documentation")
@pytest.mark.parametrize("limits", [None, {"epsilon": 10, "delta": 1e-4}, {"epsilon": 30, "delta": 1e-3}])
def test_a_newcomer_can_fine_tune(
    real_gateway: Gateway, reader: dict[str, str], limits: dict[str, float] | None
) -> None:
    """At (8, 1e-5), on the tenant of `make run` and on any record account whose limit plainly covers it."""
    http = real_gateway.client(reader["KEY"]) if limits is None else real_gateway.tenant(record=limits).http
    training = {"name": "mood", "labels": ["good", "bad"], "epsilon": 8, "delta": 1e-5, "rows": 20_000, "batch": 200}
    answer = http.post("/budget/estimate", json=training | {"epochs": 1})
    assert answer.status_code == 200, answer.text
    line = answer.json()["accounts"][0]
    assert line["cost"]["epsilon"] < 10
    assert answer.json()["allowed"], json.dumps(answer.json())


README, *OTHERS = [page for page in PAGES if any(block.runs for block in blocks(page.read_text()))]


@pytest.mark.parametrize(
    "page", [README, *(pytest.param(page, marks=pytest.mark.slow("documentation")) for page in OTHERS)], ids=name
)
def test_the_commands_of_a_page_run(page: Path, real_gateway: Gateway, reader: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / ".data").symlink_to(real_gateway.data_dir)
    (tmp_path / "public.jsonl").write_bytes(json_lines(rows(120)))
    commands = "\n".join(block.commands for block in blocks(page.read_text()) if block.runs)
    script = f"set -euxo pipefail\n{commands}\n".replace(ADDRESS, real_gateway.url)
    script = script.replace("/jobs/domain?", "/jobs/domain?steps=10&")
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=reader, capture_output=True, text=True, timeout=550)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"


def test_a_marker_has_a_reason_and_a_block() -> None:
    for page in PAGES:
        text = page.read_text()
        marked = sum(not block.runs for block in blocks(text))
        markers = re.findall(r"^ *<!-- not run", text, re.MULTILINE)
        assert len(markers) == marked, (
            f"{name(page)}: a marker without a reason, or elsewhere than before a shell block"
        )


def test_the_rules_find_what_they_must() -> None:
    page = (
        "```sh\na\n```\n\n<!-- not run: needs docker -->\n```bash\nb\n```\n\n   ```console\n   $ c\n   answer\n   ```\n"
    )
    found = list(blocks(page))
    assert [(block.commands, block.runs) for block in found] == [("a", True), ("b", False), ("c", True)]
    assert [block.runs for block in blocks("<!-- not run: -->\n```sh\na\n```\n")] == [True]


def shows(answer: Any, shown: Any) -> bool:
    """Whether an example has the members and the texts of an answer; `...` stands for anything, numbers vary."""
    if isinstance(shown, dict):
        return all(name == "..." or (name in answer and shows(answer[name], shown[name])) for name in shown)
    if isinstance(shown, list):
        return all(value == "..." or shows(answer[place], value) for place, value in enumerate(shown))
    return shown == answer if isinstance(shown, str) else isinstance(answer, int | float)


def test_the_readme_shows_the_answer_of_its_request(real_gateway: Gateway, reader: dict[str, str]) -> None:
    page = (ROOT / "README.md").read_text()
    request, shown = page.split("-d '")[1].split("'\n")[0], page.split("```json\n")[1].split("```")[0]
    headers = {"Content-Type": "application/json"}
    answer = real_gateway.client(reader["KEY"]).post("/embed/sentdp", content=request, headers=headers)
    assert shows(answer.json(), json.loads(shown)), answer.text
