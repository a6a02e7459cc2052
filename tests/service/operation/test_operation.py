"""Health, metrics, catalogue, headers: what an operator and a load balancer see."""

import re

from gateway_kit import Gateway as RealGateway
from gateway_kit import Tenant
from inprocess_kit import Gateway


def test_alive_and_ready(gateway: Gateway) -> None:
    assert gateway.anyone.get("/livez").json() == {"status": "alive"}
    ready = gateway.anyone.get("/readyz")
    assert ready.status_code == 200
    assert ready.json()["workers"] == {"embed": "ready", "sanitize": "ready", "fill": "ready"}


def test_metrics_tell_of_queue_batches_stages_and_spending(real_gateway: RealGateway, real_tenant: Tenant) -> None:
    real_tenant.embed(epsilon=1)
    text = real_gateway.anyone.get("/metrics").text
    for name in (
        "gateway_queue_tasks", "gateway_batch_tasks_bucket", "gateway_batch_seconds_bucket",
        'gateway_stage_seconds_count{stage="reserve"}', 'gateway_stage_seconds_count{stage="commit"}',
        f'gateway_spent_epsilon_total{{outcome="released",tenant="{real_tenant.name}",unit="sentence"}} 1.0',
    ):  # fmt: skip
        assert name in text


def test_the_catalogue_says_what_runs(tenant: Tenant) -> None:
    models = tenant.http.get("/models").json()["models"]
    embed = next(model for model in models if model["role"] == "embed")
    assert embed["encoder"]["dimension"] == 384
    assert embed["encoder"]["dtype"] in ("int8", "float32", "bfloat16", "float16")
    assert embed["encoder"]["batch_invariant"] is True
    domains = tenant.http.get("/domains").json()["domains"]
    general = next(domain for domain in domains if domain["name"] == "general")
    assert general["candidates"] >= 3000
    assert general["source"]
    assert general["licence"]


def test_request_ids_are_kept_when_they_are_harmless(gateway: Gateway) -> None:
    kept = gateway.anyone.get("/livez", headers={"X-Request-ID": "abc-123"})
    assert kept.headers["x-request-id"] == "abc-123"
    made = gateway.anyone.get("/livez", headers={"X-Request-ID": "not harmless <script>"})
    assert "script" not in made.headers["x-request-id"]


def test_the_api_page_is_there_and_loads_nothing_from_elsewhere(gateway: Gateway) -> None:
    page = gateway.anyone.get("/docs")
    assert page.status_code == 200
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(loaded) == 3
    for asset in loaded:
        assert gateway.anyone.get(asset).status_code == 200
    script = gateway.anyone.get("/static-offline-docs/swagger-ui-bundle.js")
    assert script.headers["content-type"].startswith("text/javascript")
    for other in ("/static-offline-docs/redoc.standalone.js", "/docs/x"):
        assert gateway.anyone.get(other).status_code == 404
    assert "://" not in page.text
    paths = gateway.anyone.get("/openapi.json").json()["paths"]
    assert {"/embed/sentdp", "/sanitize", "/budget", "/budget/estimate"} <= paths.keys()


def test_tenants_that_cannot_be_are_refused(gateway: Gateway, tenant: Tenant) -> None:
    for name, status in ((tenant.name, 409), ("A B", 422)):
        assert gateway.admin.post("/admin/tenants", json={"name": name, "epsilon": 1}).status_code == status
    assert gateway.admin.get("/admin/tenants/nobody/budgets").status_code == 404


def test_the_models_say_which_data_exclude_commercial_use(gateway: Gateway, tenant: Tenant) -> None:
    terms = gateway.with_key(tenant, "read").http.get("/models").json()["data_terms"]
    assert [each["what"].split(" of ")[0] for each in terms if each["terms"] and each["instead"]] == [
        "domain packs, the vector pack and the bundled model that fills", "the bundled tagger", "the bundled encoder",
    ]  # fmt: skip
