"""Text is radioactive: a marked string goes through every door, and none of it may stay anywhere."""

import contextlib
import uuid
from pathlib import Path

import httpx
import pytest
from gateway_kit import DOCUMENT, Gateway, Tenant


@pytest.fixture
def marker() -> str:
    return f"zq{uuid.uuid4().hex}"


def _everything_written(gateway: Gateway) -> dict[str, bytes]:
    """The log, the metrics, and every file of the data directory: Redis' append-only file among them."""
    metrics = httpx.get(f"{gateway.url}/metrics", timeout=300).content
    written = {"log": gateway.log_path.read_bytes(), "metrics": metrics}
    for path in gateway.data_dir.rglob("*"):
        if path.is_file():
            with contextlib.suppress(FileNotFoundError):  # files come and go
                written[str(path)] = path.read_bytes()
    assert any(name.endswith(".aof") for name in written)
    return written


def test_no_byte_of_a_text_stays_anywhere(real_gateway: Gateway, real_tenant: Tenant, marker: str) -> None:
    text = f"{DOCUMENT} My password is {marker}. Mail {marker}@example.com."
    headers = {"Idempotency-Key": "canary", "traceparent": f"00-{marker}", "X-Request-ID": f"{marker} {marker}"}
    answers = [
        real_tenant.embed([{"text": text}], headers=headers), real_tenant.embed([{"text": text}], headers=headers),
        real_tenant.embed([{"text": text}], headers=headers, epsilon=2.0),
        real_tenant.embed([{"sentences": [text, marker]}], mechanism="deep_candidate"),
        real_tenant.embed([{"text": text}], epsilon=-1), real_tenant.embed([{"text": text, marker: marker}]),
        real_tenant.embed([{"text": text}], domain=marker), real_tenant.embed([{"text": text}], subject=marker),
        real_tenant.embed([{"text": text}], epsilon=999.0),
        real_tenant.http.post("/embed/sentdp", content=f'{{"documents": [{{"text": "{marker}'.encode()),
        real_tenant.http.get(f"/budget/{marker}"), real_tenant.http.get(f"/{marker}", params={"text": marker}),
        real_tenant.http.post("/sanitize", json={"documents": [{"text": f"Mail {marker}@example.com now."}]}),
        real_tenant.http.post("/sanitize", json={"documents": [{"text": text}], "mask": {"entities": [marker]}}),
        real_tenant.http.post("/sanitize", json={"documents": [{"text": text}], "mask": {"allow_list": marker}}),
        real_tenant.http.post("/analyze", json={"text": text, "language": "en"}),
        real_tenant.http.post("/analyze", json={"text": text, "language": "en", "entities": [marker]}),
        real_tenant.http.post("/anonymize", json={"text": text, "analyzer_results": [{"start": marker}]}),
        real_tenant.http.post(
            "/beta/litellm_basic_guardrail_api",
            json={"input_type": "request", "litellm_call_id": marker, "texts": [text]},
        ),
    ]  # fmt: skip

    codes = [answer.status_code for answer in answers]
    assert codes == [200, 200, 422, 200, 422, 422, 422, 422, 403, 415, 404, 404, 200, 422, 422, 200, 422, 422, 200]
    for answer in answers:
        assert marker not in answer.text
        assert marker not in str(answer.headers)
    for name, content in _everything_written(real_gateway).items():
        assert marker.encode() not in content, Path(name).name
