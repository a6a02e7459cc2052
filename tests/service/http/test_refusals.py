"""What the gateway does not take: the right 4xx, nothing charged, nothing of the input in the answer."""

import json

from gateway_kit import DOCUMENT, Tenant
from inprocess_kit import Gateway

SECRET = "zq-secret-9137"
GOOD = {"documents": [{"text": DOCUMENT}], "epsilon": 1.0}


def _with(**fields: object) -> bytes:
    return json.dumps(GOOD | fields).encode()


def _raw(epsilon: str) -> bytes:
    return _with().replace(b'"epsilon": 1.0', b'"epsilon": ' + epsilon.encode())


BAD_BODIES = {
    "NaN": (_raw("NaN"), 400), "Infinity": (_raw("Infinity"), 400), "minus infinity": (_raw("-Infinity"), 400),
    "a float beyond range": (_raw("1e999"), 400), "a number as a string": (_raw('"0.5"'), 422),
    "a boolean": (_raw("true"), 422), "zero": (_raw("0"), 422), "negative": (_raw("-1"), 422),
    "null": (_raw("null"), 422), "below the operator's range": (_raw("1e-9"), 422),
    "above the operator's range": (_raw("100000"), 422),
    "not JSON": (b'{"documents": [{"text": "' + SECRET.encode(), 400), "an array": (b"[]", 422),
    "empty body": (b"", 422), "deep nesting": (b'{"documents": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400),
    "a string that never ends": (b'{"documents": [{"text": "' + b'\\"' * 4_000_000, 400),
    "invalid UTF-8": (b'{"documents": [{"text": "\xff"}], "epsilon": 1}', 400),
    "no documents": (_with(documents=[]), 422), "an empty document": (_with(documents=[{"text": ""}]), 422),
    "a blank document": (_with(documents=[{"text": " \n\t "}]), 422),
    "no sentences": (_with(documents=[{"sentences": []}]), 422),
    "an empty sentence": (_with(documents=[{"sentences": [SECRET, ""]}]), 422),
    "no form": (_with(documents=[{"id": SECRET}]), 422),
    "two forms": (_with(documents=[{"text": SECRET, "sentences": [SECRET]}]), 422),
    "no embeddings": (_with(documents=[{"embeddings": []}]), 422),
    "ragged embeddings": (_with(documents=[{"embeddings": [[1.0] * 384, [1.0] * 383]}]), 422),
    "another dimension": (_with(documents=[{"embeddings": [[1.0, 0.0]]}]), 422),
    "a zero embedding": (_with(documents=[{"embeddings": [[0.0] * 384]}]), 422),
    "an embedding beyond float32": (_with(documents=[{"embeddings": [[1e300] + [0.0] * 383]}]), 422),
    "an unknown mechanism": (_with(mechanism=SECRET), 422), "an unknown domain": (_with(domain=SECRET), 422),
    "too long an id": (_with(documents=[{"text": "x", "id": "i" * 129}]), 422),
    "too long a text": (_with(documents=[{"text": "x" * 1_000_001}]), 422),
    "a body of 10 MB": (_with(documents=[{"text": SECRET * 700_000}]), 413),
}  # fmt: skip


def test_a_bad_body_is_refused_uncharged_and_not_repeated(tenant: Tenant) -> None:
    for case, (body, status) in BAD_BODIES.items():
        answer = tenant.http.post("/embed/sentdp", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == status, f"{case}: {answer.text}"
        assert answer.headers["content-type"] == "application/problem+json"
        problem = answer.json()
        assert problem["status"] == status
        assert problem["code"]
        assert problem["title"]
        assert SECRET not in answer.text
        assert tenant.committed() == 0.0
        assert tenant.account()["reserved"]["epsilon"] == 0.0


def test_a_streamed_body_of_10_mb_is_refused(tenant: Tenant) -> None:
    chunks = (b"x" * 65536 for _ in range(160))
    answer = tenant.http.post("/embed/sentdp", content=chunks, headers={"Content-Type": "application/json"})
    assert answer.status_code == 413
    assert answer.json()["code"] == "body-too-large"


def test_no_key_or_a_wrong_key(gateway: Gateway) -> None:
    wrong = b"Bearer pgw_0123456789abcdef_0123456789abcdef0123456789abcdef"
    for presented in (None, wrong, b"Bearer nonsense", b"Bearer", b"Bearer ", b"Bearer  ", b"bearer", b"Bearer \t"):
        headers = {} if presented is None else {b"Authorization": presented}
        for method, path in (("POST", "/embed/sentdp"), ("GET", "/admin/tenants")):
            answer = gateway.anyone.request(method, path, headers=headers)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"


def test_the_admin_key_releases_nothing_and_a_tenants_key_administers_nothing(gateway: Gateway, tenant: Tenant) -> None:
    assert gateway.admin.post("/embed/sentdp", json=GOOD).status_code == 403
    assert tenant.http.get("/admin/tenants").status_code == 403


def test_a_bad_idempotency_key(tenant: Tenant) -> None:
    for key in ("", "x" * 256, "two words", "umlaut-\u00fc"):
        headers = [(b"Idempotency-Key", key.encode()), (b"Content-Type", b"application/json")]
        assert tenant.http.post("/embed/sentdp", content=_with(), headers=headers).status_code == 422
    assert tenant.committed() == 0.0


def test_unknown_paths_and_methods_are_problems_too(gateway: Gateway) -> None:
    missing = gateway.anyone.get(f"/{SECRET}")
    assert missing.status_code == 404
    assert missing.headers["content-type"] == "application/problem+json"
    assert SECRET not in missing.text
    assert gateway.anyone.get("/embed/sentdp").status_code == 405
