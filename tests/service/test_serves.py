"""Gateways for some of the work: what each answers, and who runs the jobs."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from command_kit import refused_settings
from corpus_kit import until
from gateway_kit import LEAN
from inprocess_kit import Gateway, opened_gateway
from redis_kit import running_server
from synthesis_kit import shop_request, shop_rows

RECORD = {"epsilon": 3.0, "delta": 1e-4, "basic_delta": 1e-4}
DOCUMENTS = {"documents": [{"text": "Write to jo@example.org now."}]}


@dataclass
class Pair:
    """On one ledger and one store: a gateway that sanitises, and one that runs jobs."""

    sanitising: Gateway
    working: Gateway


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("pair")
    with ExitStack() as ended:
        server = ended.enter_context(running_server(folder / "redis"))
        base, shared = LEAN | {"REDIS_URL": server.url}, {"MASTER_KEY": "7" * 64, "STORE_URL": f"file://{folder}/store"}
        yield Pair(
            ended.enter_context(opened_gateway(folder / "one", base, **shared, SERVES='["sanitize"]')),
            ended.enter_context(opened_gateway(folder / "two", base, **shared, SERVES='["jobs"]')),
        )


def test_a_gateway_answers_what_it_serves(pair: Pair) -> None:
    tenant = pair.sanitising.tenant()
    answer = tenant.http.post("/sanitize", json=DOCUMENTS)
    assert "jo@example.org" not in answer.json()["data"][0]["text"]
    assert tenant.http.get("/readyz").json()["workers"].keys() == {"sanitize"}
    assert pair.sanitising.anyone.get("/readyz").status_code == pair.working.anyone.get("/readyz").status_code == 200


def test_what_another_gateway_serves_is_refused_and_costs_nothing(pair: Pair) -> None:
    tenant = pair.sanitising.tenant()
    for path, body in (
        ("/embed/sentdp", {**DOCUMENTS, "epsilon": 1.0}),
        ("/embed/vector", {"vectors": [[0.5, 0.5]], "mechanism": "privemb", "epsilon": 1.0}),
        ("/embed/vector", {"texts": ["one"], "mechanism": "privemb", "epsilon": 1.0}),
        ("/v1/embeddings", {"model": "minilm-sentdp-eps10", "input": "one"}),
    ):
        refused = tenant.http.post(path, json=body)
        assert refused.status_code == 503, refused.text
        assert "no worker for the request" in refused.text
    assert tenant.account("sentence")["committed"]["epsilon"] == tenant.account("vector")["committed"]["epsilon"] == 0


@pytest.mark.usefixtures("processes")
def test_a_gateway_of_jobs_alone_runs_those_that_another_has_accepted(pair: Pair) -> None:
    tenant = pair.sanitising.tenant(record=RECORD)
    assert pair.working.reconnected(tenant).http.post("/sanitize", json=DOCUMENTS).status_code == 503
    created = tenant.http.post("/jobs/synthesis", json=shop_request(method="marginals") | {"rows": shop_rows(60)})
    assert created.status_code == 202, created.text
    assert until(tenant.http, created.json()["job_id"])["status"] == "succeeded"


def test_a_gateway_alone_must_run_the_jobs(tmp_path: Path) -> None:
    said = refused_settings(tmp_path, {"PRIVACY_GATEWAY_SERVES": '["embed"]'})
    assert "SERVES without jobs needs REDIS_URL" in said
    assert "SERVES" in refused_settings(tmp_path, {"PRIVACY_GATEWAY_SERVES": "[]"}).upper()
