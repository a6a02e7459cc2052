"""`GET /masking/counts`: what masking did by key, model and type, without a text, and for the tenant itself alone."""

from typing import Any

from alert_kit import until
from gateway_kit import Tenant, good
from inprocess_kit import Gateway
from model_kit import ModelServer

TEXT = "Please write to Maria Keller, maria.keller@example.org."
CARD = "My card is 4111 1111 1111 1111."


def ask(tenant: Tenant, text: str, policy: str) -> int:
    body = {"model": "stub-gpt", "messages": [{"role": "user", "content": text}]}
    return tenant.http.post("/v1/chat/completions", json=body, headers={"Privacy-Policy": policy}).status_code


def test_requests_finds_and_refusals_are_counted(proxying: Gateway, tenant: Tenant, llm: ModelServer) -> None:
    document = {"documents": [{"text": TEXT}]}
    assert [ask(tenant, TEXT, "forgotten"), ask(tenant, TEXT, "forgotten")] == [200, 200]
    assert ask(tenant, CARD, "no-cards") == 400
    assert tenant.http.post("/sanitize", json=document).status_code == 200
    assert ask(tenant, TEXT, "priced") == 200
    priced = document | {"fill": {"mode": "dp", "epsilon": 4.0}}
    assert tenant.http.post("/sanitize", json=priced).status_code == 200

    def rows() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = good(tenant.http.get("/masking/counts?days=1"))["rows"]
        return found

    model, other = until(lambda: sum(row["requests"] for row in rows()) == 3 and rows())
    assert (model["key_id"], model["model"], model["requests"]) == (tenant.key_id, "stub-gpt", 2)
    assert model["refused"] == 1
    finds = {"PERSON": 1, "EMAIL_ADDRESS": 1, "CREDIT_CARD": 1}
    assert {kind: model["finds"].get(kind) for kind in finds} == finds, "a text that was read before counts once"
    assert (other["model"], other["requests"], other["finds"]["EMAIL_ADDRESS"]) == (None, 1, 1), "free work alone"
    assert good(proxying.tenant().http.get("/masking/counts"))["rows"] == []
    assert tenant.http.get("/masking/counts?days=0").status_code == 422
