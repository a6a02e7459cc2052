"""What a batch does with the lines that its window has left over."""

import json

import pytest
from inprocess_kit import Gateway, module_gateway
from wait_kit import until

own = module_gateway()


def test_lines_after_the_end_of_the_window_are_listed_and_not_charged(
    own: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = own.tenant()
    monkeypatch.setattr("service.batches.task.WINDOW_S", -1)
    lines = [
        {"custom_id": f"line-{number}", "method": "POST", "url": "/v1/embeddings",
         "body": {"model": "minilm-sentdp-eps10", "input": "The screen is bright."}}
        for number in range(3)
    ]  # fmt: skip
    content = "\n".join(map(json.dumps, lines)).encode()
    file = tenant.http.post("/v1/files", data={"purpose": "batch"}, files={"file": ("in.jsonl", content)}).json()
    body = {"input_file_id": file["id"], "endpoint": "/v1/embeddings", "completion_window": "24h"}
    batch = tenant.http.post("/v1/batches", json=body).json()
    until(lambda: tenant.http.get(f"/v1/batches/{batch['id']}").json()["status"] == "expired", "expired")
    done = tenant.http.get(f"/v1/batches/{batch['id']}").json()
    assert (done["output_file_id"], done["request_counts"]) == (None, {"total": 3, "completed": 0, "failed": 3})
    left = tenant.http.get(f"/v1/files/{done['error_file_id']}/content").text.splitlines()
    assert {json.loads(row)["error"]["code"] for row in left} == {"batch_expired"}
    assert tenant.committed("sentence") == 0
