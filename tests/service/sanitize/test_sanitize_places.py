"""Documents of many masked places: their limits, and their spans."""

import json
from typing import Any

import httpx
import pytest
from gateway_kit import Tenant
from inprocess_kit import Gateway, module_gateway

TERMS = {"mask": {"techniques": ["all"]}, "fill": {"mode": "marker"}, "return_spans": True}
SMALL, MANY, TOO_MANY = "one, two", "q, " * 1_500, "q, " * 2_001


limited = module_gateway(
    changes={"service.config.worker_options.PLACES_PER_DOCUMENT_MAX": 2000, "places_per_request_max": 4000}
)


def post(tenant: Tenant, *texts: str) -> httpx.Response:
    return tenant.http.post("/sanitize", json=TERMS | {"documents": [{"text": text} for text in texts]})


def stream_of(tenant: Tenant, *texts: str) -> list[dict[str, Any]]:
    answer = tenant.sanitize_lines(TERMS, *({"text": text} for text in texts))
    assert answer.status_code == 200, answer.text
    return [json.loads(each) for each in answer.text.splitlines()]


def test_a_document_of_too_many_places_is_refused(limited: Gateway) -> None:
    tenant = limited.tenant()
    assert len(post(tenant, "q, " * 2_000).json()["data"][0]["spans"]) == 2_000
    refused = post(tenant, SMALL, TOO_MANY)
    assert refused.status_code == 422
    assert refused.json()["code"] == "invalid-input"
    assert "at most 2000 masked places" in refused.text
    assert "q" not in refused.json()["detail"].split()


def test_a_document_of_metric_dp_with_too_many_places_is_charged(limited: Gateway) -> None:
    """A worker has read it. The technique `all` makes the whole text one place."""
    tenant = limited.tenant()
    body = {"documents": [{"text": "zqxv, " * 2_001}], "fill": {"mode": "metric_dp", "epsilon": 0.01}}
    refused = tenant.http.post("/sanitize", json=body | {"mask": {"techniques": ["vocabulary"]}})
    assert refused.status_code == 422
    assert refused.headers["X-Should-Retry"] == "false"
    assert refused.json()["charged"] is True
    once = tenant.committed("token")
    assert once > 0
    assert tenant.http.post("/sanitize", json=body | {"mask": {"techniques": ["all"]}}).status_code == 200
    assert tenant.committed("token") == pytest.approx(2 * once)


def test_a_call_of_too_many_places_is_refused(limited: Gateway) -> None:
    tenant = limited.tenant()
    assert post(tenant, MANY, MANY).status_code == 200
    refused = post(tenant, MANY, MANY, MANY)
    assert refused.status_code == 422
    assert "a call has at most 4000 masked places" in refused.text


def test_in_a_stream_it_is_the_problem_of_its_line(limited: Gateway) -> None:
    first, second, third, *many, last = stream_of(limited.tenant(), SMALL, TOO_MANY, SMALL, MANY, MANY, MANY)
    assert first["text"] == third["text"] == "[MASK], [MASK]"
    assert second["problem"]["code"] == "invalid-input"
    assert "at most 2000 masked places" in json.dumps(second["problem"])
    assert [len(row["spans"]) for row in many] == [1_500] * 3
    assert (last["summary"]["released"], last["summary"]["failed"]) == (5, 1)


def test_spans_are_those_of_the_text(limited: Gateway) -> None:
    (row,) = post(limited.tenant(), "Ann, 42 and, \u6f22\u5b57 " * 700).json()["data"]
    assert len(row["spans"]) > 1_024
    assert all({"start", "end", "type", "technique"} <= span.keys() for span in row["spans"])
    assert {row["text"][span["start"] : span["end"]] for span in row["spans"]} == {"[MASK]"}
