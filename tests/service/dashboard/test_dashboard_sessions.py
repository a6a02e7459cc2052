"""Sessions of the dashboard, each of its protections attacked over HTTP."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from gateway_kit import Tenant
from inprocess_kit import Gateway, module_gateway, opened_gateway
from starlette.requests import Request

from core.errors import SignOnFailed
from core.master_key import MasterKey
from core.state.keystore import KeyStore
from core.state.sessions import SessionStore, SignedInBy
from service.dashboard.sign_in_link import SignInLink

ORIGIN = "http://127.0.0.1:8000"


served = module_gateway(DASHBOARD_SESSION_S="600", AUTH_FAILURES_PER_MINUTE="5")


@pytest.fixture
def owner(served: Gateway) -> Tenant:
    return served.tenant()


def browser(served: Gateway, **headers: str) -> httpx.Client:
    client = served.new_client({"Origin": ORIGIN} | headers)
    client.base_url = httpx.URL(ORIGIN)
    return client


def signed_in(served: Gateway, key: str) -> tuple[httpx.Client, dict[str, Any]]:
    client = browser(served)
    answer = client.post("/dashboard/session", headers={"Authorization": f"Bearer {key}"})
    assert answer.status_code == 200, answer.text
    return client, answer.json()


def test_a_key_is_exchanged_for_a_cookie_that_scripts_cannot_read(served: Gateway, owner: Tenant) -> None:
    answer = browser(served).post("/dashboard/session", headers={"Authorization": f"Bearer {owner.key}"})
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Secure" not in cookie  # this machine itself
    assert owner.key not in cookie + answer.text
    assert answer.json()["tenant"] == owner.name


def test_a_session_reads_what_its_key_may_read(served: Gateway, owner: Tenant) -> None:
    client, _ = signed_in(served, owner.key)
    accounts = client.get("/budget").json()["accounts"]
    assert {each["account"].partition("/")[0] for each in accounts} == {owner.name}
    other = served.tenant()
    assert client.get(f"/budget/{other.name}/sentence").status_code == 404


def test_a_session_has_the_roles_of_its_key(served: Gateway, owner: Tenant) -> None:
    client, session = signed_in(served, served.with_key(owner, "read").key)
    assert session["roles"] == ["read"]
    headers = {"X-Form-Token": session["form_token"]}
    refused = client.post("/embed/sentdp", json={"documents": [{"text": "One. Two."}], "epsilon": 1}, headers=headers)
    assert (refused.status_code, refused.json()["code"]) == (403, "role-missing")
    assert client.get("/admin/tenants").status_code == 403
    views = {
        view: client.get(f"/dashboard/{view}").status_code for view in ("what-if", "jobs", "try", "keys", "service")
    }
    assert views == {"what-if": 200, "jobs": 404, "try": 404, "keys": 404, "service": 404}
    assert "/dashboard/keys" not in client.get("/dashboard/what-if").text


def test_a_key_without_the_role_read_cannot_sign_in(served: Gateway, owner: Tenant) -> None:
    key = served.with_key(owner, "release").key
    answer = browser(served).post("/dashboard/session", headers={"Authorization": f"Bearer {key}"})
    assert (answer.status_code, answer.json()["code"]) == (403, "role-missing")
    assert "set-cookie" not in answer.headers


def test_a_session_ends_with_its_key(served: Gateway, owner: Tenant) -> None:
    reader = served.with_key(owner, "read")
    client, _ = signed_in(served, reader.key)
    assert client.get("/budget").status_code == 200
    served.revoke(reader)
    assert client.get("/budget").status_code == 401
    assert 'id="sign-in"' in client.get("/dashboard").text


def test_signing_out_ends_the_session_for_every_copy_of_the_cookie(served: Gateway, owner: Tenant) -> None:
    client, session = signed_in(served, owner.key)
    copy = browser(served)
    copy.cookies.update(client.cookies)
    ended = client.post("/dashboard/session/end", headers={"X-Form-Token": session["form_token"]})
    assert ended.status_code == 204
    assert copy.get("/budget").status_code == 401


def test_the_operator_ends_every_session_of_a_tenant(served: Gateway, owner: Tenant) -> None:
    clients = [signed_in(served, owner.key)[0] for _ in range(2)]
    other, _ = signed_in(served, served.tenant().key)
    assert served.admin.post(f"/admin/tenants/{owner.name}/sessions/end").status_code == 204
    assert [client.get("/budget").status_code for client in (*clients, other)] == [401, 401, 200]
    assert served.client(owner.key).get("/budget").status_code == 200, "the key itself is still valid"
    assert served.admin.post("/admin/tenants/nobody/sessions/end").json()["code"] == "unknown-tenant"
    for path in (f"/admin/tenants/{owner.name}/sessions/end", "/admin/sessions/end"):
        assert served.client(owner.key).post(path).json()["code"] == "wrong-scope"


def test_a_session_ends_by_time_and_by_too_many_others(served: Gateway, owner: Tenant) -> None:
    """By a clock of the test, whatever Redis does."""
    now = [1_000.0]
    client, key = served.service.ledger._client, served.service.parts[MasterKey]
    store = SessionStore(client, key, lifetime_s=600, each_max=3, clock=lambda: now[0])

    async def opened(credential: str = "0" * 16) -> tuple[str, Any]:
        now[0] += 1
        return await store.open(owner.name, SignedInBy.KEY, credential, frozenset())

    async def known(*tokens: str) -> list[bool]:
        return [await store.find(token) is not None for token in tokens]

    async def use() -> None:
        first = [(await opened())[0] for _ in range(3)]
        other, _ = await opened("1" * 16)
        await store.end(first[1])
        (one, _), (two, _) = await opened(), await opened()
        assert await known(*first, other, one, two) == [False, False, True, True, True, True], "the oldest of a key"
        now[0] += 600
        assert await known(two) == [False]

    served.on_loop(use())


def test_a_request_from_elsewhere_changes_nothing(served: Gateway, owner: Tenant) -> None:
    client, session = signed_in(served, served.with_key(owner, "read", "admin").key)
    for path in ("/keys", "/dashboard/session/end", "/budget/estimate"):
        for changed in (
            {"X-Form-Token": ""}, {"X-Form-Token": "0" * 64}, {"Origin": "https://evil.example"}, {"Origin": "null"},
            {"Origin": "http://127.0.0.1:9000"},
        ):  # fmt: skip
            refused = client.post(path, headers={"X-Form-Token": session["form_token"]} | changed)
            assert (refused.status_code, refused.json()["code"]) == (403, "cross-site-request"), (path, changed)
    assert client.get("/dashboard/session").status_code == 200
    del client.headers["origin"]
    refused = client.post("/dashboard/session/end", headers={"X-Form-Token": session["form_token"]})
    assert refused.json()["code"] == "cross-site-request"


def test_the_form_token_of_another_session_is_refused(served: Gateway, owner: Tenant) -> None:
    client, _ = signed_in(served, owner.key)
    _, other = signed_in(served, owner.key)
    refused = client.post("/dashboard/session/end", headers={"X-Form-Token": other["form_token"]})
    assert refused.json()["code"] == "cross-site-request"


def test_no_other_cookie_signs_in(served: Gateway) -> None:
    for token in (b"", b"x", b"0" * 64, b"\xe9" * 64, b"g" * 64, b"0" * 5_000):
        answer = browser(served).get("/budget", headers={b"Cookie": b"pgw_session=" + token})
        assert answer.status_code == 401


def test_other_host_names_are_refused(served: Gateway, owner: Tenant) -> None:
    client, _ = signed_in(served, owner.key)
    for host in ("evil.example", "evil.example:8000", "127.0.0.1.evil.example", "[::2]", "", "@"):
        for path in ("/dashboard", "/dashboard/journal", "/budget"):
            refused = client.get(path, headers={"Host": host})
            assert (refused.status_code, refused.json()["code"]) == (421, "host-refused"), (host, path)
        signing = client.post("/dashboard/session", headers={"Host": host, "Authorization": f"Bearer {owner.key}"})
        assert "set-cookie" not in signing.headers


def test_a_session_beyond_this_machine_needs_tls(tmp_path: Path) -> None:
    with opened_gateway(tmp_path, DASHBOARD_HOSTS='["gateway.example"]') as running:
        client = running.client(running.tenant().key)
        cookie = client.post("/dashboard/session", headers={"Host": "gateway.example"}).headers["set-cookie"]
        assert "Secure" in cookie


def test_wrong_keys_are_limited(served: Gateway, owner: Tenant) -> None:
    client = browser(served)
    wrong = {"Authorization": f"Bearer pgw_{'0' * 16}_{'0' * 32}"}
    statuses = [client.post("/dashboard/session", headers=wrong).status_code for _ in range(8)]
    assert statuses[0] == 401
    assert 429 in statuses
    assert client.post("/dashboard/session", headers={"Authorization": f"Bearer {owner.key}"}).status_code == 200


def test_the_operator_signs_in_with_the_admin_key(served: Gateway) -> None:
    client, session = signed_in(served, served.admin_key)
    assert session["operator"]
    assert client.get("/admin/tenants").status_code == 200
    assert client.get("/budget").status_code == 403


def test_redis_holds_no_session_that_can_be_read_or_forged(served: Gateway, owner: Tenant) -> None:
    client, session = signed_in(served, owner.key)
    redis = served.service.ledger._client

    async def stored() -> list[bytes]:
        _, names = await redis.call("SCAN", "0", "MATCH", "{sessions}*", "COUNT", 1_000_000)
        lists = [name for name in names if b":sessions-of:" in name]
        members = [each for name in lists for each in await redis.call("ZRANGEBYSCORE", name, "-inf", "+inf")]
        return [*lists, *members, *[name + await redis.call("GET", name) for name in names if name not in lists]]

    for each in served.on_loop(stored()):
        for secret in (client.cookies["pgw_session"], session["form_token"], owner.name):
            assert secret.encode() not in each


def test_pages_load_nothing_from_elsewhere(served: Gateway, owner: Tenant) -> None:
    client, _ = signed_in(served, owner.key)
    for path in ("/dashboard", "/dashboard/journal", "/dashboard/nothing"):
        page = client.get(path)
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert page.headers["cache-control"] == "no-store"
        assert "<script>" not in page.text
        assert "style=" not in page.text
        assert "http://" not in page.text
        assert "https://" not in page.text
    assert client.get("/dashboard/nothing").status_code == 404


def test_files_are_checked_again_by_their_tag(served: Gateway) -> None:
    client = browser(served)
    first = client.get("/dashboard/static/dashboard.js")
    assert first.headers["content-type"].startswith("text/javascript")
    again = client.get("/dashboard/static/dashboard.js", headers={"If-None-Match": first.headers["etag"]})
    assert again.status_code == 304
    for path in ("%2e%2e/endpoints.py", "..%2fendpoints.py", "views", "nothing.js", ""):
        assert client.get(f"/dashboard/static/{path}").status_code == 404


def link_of(served: Gateway, key: str) -> str:
    return f"/dashboard/link?token={served.on_loop(served.service.parts[SignInLink].make(key))}"


def test_a_link_signs_in_once_on_this_machine(served: Gateway, owner: Tenant) -> None:
    link = link_of(served, owner.key)
    assert browser(served).get("/dashboard/link?token=wrong").status_code == 403
    client = browser(served)
    followed = client.get(link)
    assert "/dashboard/playground" in followed.text
    assert client.get("/dashboard/session").json()["tenant"] == owner.name
    assert client.get("/").headers["location"] == "/dashboard/playground"
    assert browser(served).get(link).status_code == 403

    elsewhere = SignInLink(served.service.parts[KeyStore])
    token = served.on_loop(elsewhere.make(owner.key))
    for host in ("192.0.2.7", "::ffff:192.0.2.7", "no address"):
        with pytest.raises(SignOnFailed):
            served.on_loop(elsewhere.use(Request({"type": "http", "client": (host, 1)}), token))
    assert served.on_loop(elsewhere.use(Request({"type": "http", "client": ("::1", 1)}), token)).tenant == owner.name


def test_a_link_ends_with_its_time_and_with_its_key(
    served: Gateway, owner: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = link_of(served, owner.key)
    monkeypatch.setattr("service.dashboard.sign_in_link.LINK_S", -1)
    assert browser(served).get(link_of(served, owner.key)).status_code == 403
    assert browser(served).get(link).status_code == 403, "a newer link replaces it"
    with pytest.raises(SignOnFailed):
        link_of(served, served.with_key(owner, "release").key)


def test_the_root_leads_to_what_a_session_may_open(served: Gateway, owner: Tenant) -> None:
    assert browser(served).get("/").headers["location"] == "/dashboard/playground"
    reader, _ = signed_in(served, served.with_key(owner, "read").key)
    assert reader.get("/").headers["location"] == "/dashboard"
