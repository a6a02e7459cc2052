"""A capability is one object: the application, the estimate, the headroom and the API page follow from its row."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_kit import LEAN
from inprocess_kit import Gateway
from toys import toy_endpoint

from service.capabilities import CAPABILITIES

ROOT = Path(__file__).parents[2]
# What the toy may import: what capabilities of the project import of each other, too.
PUBLIC = tuple(f"service.{name}" for name in ("capability", "config", "domains", "http", "parts", "releases"))


@pytest.fixture(scope="module")
def toyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway with one row more."""
    running = Gateway(tmp_path_factory.mktemp("toyed") / "data", LEAN, [*CAPABILITIES, toy_endpoint.CAPABILITY])
    yield running
    running.stop()


def test_a_row_adds_an_endpoint_that_charges_and_is_priced(toyed: Gateway) -> None:
    tenant, body = toyed.tenant(), {"titles": ["Of mice", "Of men"], "epsilon": 2.0}

    priced = tenant.http.post("/budget/estimate", json=body).json()
    assert priced["privacy"]["guarantee"] == "pure-dp"
    assert priced["accounts"][0]["cost"]["epsilon"] == 2.0
    assert tenant.committed() == 0

    released = tenant.http.post("/toy/titles", json=body)
    assert released.status_code == 200, released.text
    assert len(released.json()["topic"]) == 384
    assert released.json()["privacy"]["epsilon"] == 2.0
    assert tenant.committed() == 2.0
    replayed = tenant.http.post(
        "/toy/titles", json=body, headers={"Idempotency-Key": released.headers["Idempotency-Key"]}
    )
    assert (replayed.json(), tenant.committed()) == (released.json(), 2.0)

    account = f"/budget/{tenant.name}/sentence/headroom"
    rows = tenant.http.get(account, params={"epsilon": 2.0}).json()["requests"]
    assert "toy/titles" in [row["endpoint"] for row in rows]
    entry = tenant.http.get("/openapi.json").json()["paths"]["/toy/titles"]["post"]
    assert entry["summary"] == "The topic of some titles"


def test_the_row_is_all_that_the_endpoint_touches() -> None:
    """Its module imports only what the project's own capabilities import of each other."""
    tree = ast.parse((ROOT / "tests/toys/toy_endpoint.py").read_text())
    imported = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    of_service = [name for name in imported if name.startswith("service.")]
    assert of_service
    assert all(name.startswith(PUBLIC) for name in of_service), of_service


def test_names_of_capabilities_and_places_in_the_menu_are_unique() -> None:
    names = [capability.name for capability in CAPABILITIES]
    views = [view for capability in CAPABILITIES for view in capability.views]
    assert len(set(names)) == len(names)
    assert len({view.order for view in views}) == len({view.name for view in views}) == len(views)
    scripts = {path.stem for path in (ROOT / "service/dashboard/static/views").glob("*.js")}
    assert {view.name for view in views} <= scripts
