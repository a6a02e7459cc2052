"""Fixtures of the suites, which run in the environments of the integrations against a real gateway.

`test_integrations.py` starts the gateway and passes its address and admin key in the environment.
"""

import os
import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from privacy_gateway_client import Cache, Gateway, new_cache_key

URL = os.environ["INTEGRATION_GATEWAY_URL"]
PAGE = Path(__file__).parents[2] / "docs/guide/integrations.md"
EPSILON = 1000.0

REVIEWS = [
    "The hotel was clean. The staff were kind. Breakfast was cold. The room had a view of the harbour.",
    "The battery lasts two days. The screen is bright. I would buy it again. Delivery took a week.",
    "The plot is thin. The actors try hard. The music is too loud. I left before the end.",
]
LETTER = "Please write to Maria Keller in Lisbon, maria.keller@example.org, about card 4111 1111 1111 1111."
# whole values, since a surrogate may share a part by chance (Marian)
ORIGINALS = ("Maria Keller", "maria.keller@example.org", "Lisbon", "4111 1111 1111 1111")


def new_tenant(epsilon: float = EPSILON) -> str:
    """The API key of a new tenant with this budget in every unit."""
    with Gateway(URL, os.environ["INTEGRATION_ADMIN_KEY"]) as admin:
        return admin.admin.create_tenant(f"t-{uuid.uuid4().hex[:12]}", epsilon=epsilon).key


def spent(gateway: Gateway, unit: str = "sentence") -> float:
    """What the tenant has spent in an account of its own."""
    return next(one for one in gateway.budget.accounts() if one.unit == unit).committed.epsilon


def shown(text: str) -> list[str]:
    """The originals of `LETTER` that a text shows."""
    return [original for original in ORIGINALS if original.casefold() in text.casefold()]


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    """A client of a new tenant."""
    with Gateway(URL, new_tenant()) as client:
        yield client


@pytest.fixture
def poor_gateway() -> Iterator[Gateway]:
    """A client of a new tenant with a budget of 5."""
    with Gateway(URL, new_tenant(5)) as client:
        yield client


@pytest.fixture
def caching_gateway(tmp_path: Path) -> Iterator[Gateway]:
    """A client of a new tenant with a cache."""
    cache = Cache(tmp_path / "answers.db", new_cache_key(tmp_path / "answers.key"))
    with Gateway(URL, new_tenant(), cache=cache) as client:
        yield client
    cache.close()


@pytest.fixture
def run_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Runs the Python blocks of a section of the guide, and returns the names that they define."""

    def run(heading: str, **names: Any) -> dict[str, Any]:
        section = re.split(r"^##+ ", PAGE.read_text(), flags=re.MULTILINE)
        text = next(part for part in section if part.startswith(f"{heading}\n"))
        code = "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
        key = new_tenant()
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("PRIVACY_GATEWAY_API_KEY", key)
        code = code.replace("http://127.0.0.1:8000", URL).replace("pgw_...", key)
        scope = dict(names)
        exec(compile(code, str(PAGE), "exec"), scope)
        return scope

    return run
