"""Signing in to the dashboard through an identity provider, and everything that must not sign in."""

import base64
import hashlib
import json
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx
import pytest
from alert_kit import until
from command_kit import refused_settings
from inprocess_kit import Gateway, opened_gateway
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey
from stub_kit import Request, StubServer, answer, body_of

from service.config.providers import SignOnSettings
from service.http.auth import Authenticator

CLIENT, SECRET = "privacy-gateway", "s" * 40


class Provider(StubServer):
    """`claims`: of the person who signs in. `wrong`: replaces claims of the ID token. `key`: signs it."""

    def __init__(self) -> None:
        super().__init__()
        self.issuer = self.origin
        self.key = RSAKey.generate_key(2048, {"kid": "1", "use": "sig"})
        self.published = [self.key]
        self.claims: dict[str, Any] = {"sub": "anna", "groups": ["search-team"]}
        self.wrong: dict[str, Any] = {}
        self.algorithm = "RS256"
        self.is_down = False
        self._codes: dict[str, dict[str, str]] = {}

    def serve(self, request: Request) -> None:
        if request.command == "POST":
            form = dict(parse_qsl(body_of(request).decode()))
            content = self._token(form, request.headers.get("authorization", ""))
        elif request.path.endswith("/openid-configuration"):
            content = self._metadata()
        else:
            content = KeySet(self.published).as_dict(private=False)
        status = 503 if self.is_down else 400 if "error" in content else 200
        answer(request, json.dumps(content).encode(), status=status, headers={"content-type": "application/json"})

    def setting(self, **grants: dict[str, Any]) -> str:
        settings = {"issuer": self.issuer, "client_id": CLIENT, "key_env": "TEST_SIGN_ON_KEY", "grants": grants}
        return json.dumps(settings)

    def approve(self, address: str) -> str:
        """What a person's browser gets after signing in at `address`: the gateway's address with code and state."""
        asked = dict(parse_qsl(urlsplit(address).query))
        assert asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(16)
        self._codes[code] = asked
        query = urlencode({"code": code, "state": asked["state"]})
        return f"{urlsplit(asked['redirect_uri']).path}?{query}"

    def _metadata(self) -> dict[str, str]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
        }

    def _token(self, form: dict[str, str], authorization: str) -> dict[str, Any]:
        asked = self._codes.pop(form.get("code", ""), None)
        proof = base64.urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest()).decode()
        expected = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if asked is None or proof.rstrip("=") != asked["code_challenge"] or authorization != f"Basic {expected}":
            return {"error": "invalid_grant"}
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT, "exp": now + 300, "iat": now, "nonce": asked["nonce"]}
        claims |= self.claims | self.wrong
        header = {"alg": self.algorithm, "kid": "1"}
        token = jwt.encode(header, claims, self.key, algorithms=[self.algorithm])
        return {"access_token": "unused", "token_type": "Bearer", "id_token": token}


ORIGIN = "http://127.0.0.1:8000"


@pytest.fixture
def provider(running: Provider) -> Iterator[Provider]:
    kept = dict(vars(running))
    yield running
    vars(running).update(kept)


@pytest.fixture(scope="module")
def running() -> Iterator[Provider]:
    with Provider() as provider:
        yield provider


@contextmanager
def gateway_of(provider: Provider, folder: Path, **grants: dict[str, Any]) -> Iterator[Gateway]:
    key = mock.patch.dict(os.environ, {"TEST_SIGN_ON_KEY": SECRET})
    with key, opened_gateway(folder, SIGN_ON=provider.setting(**grants)) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def served(running: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    grants: dict[str, Any] = {
        "officers": {"operator": True},
        "search-team": {"tenant": "acme", "roles": ["read", "release"]},
        "readers": {"tenant": "acme"},
    }
    with gateway_of(running, tmp_path_factory.mktemp("sign-on"), **grants) as gateway:
        gateway.tenant("acme")
        gateway.tenant("other")
        yield gateway


def browser(served: Gateway) -> httpx.Client:
    client = served.new_client({"Origin": ORIGIN})
    client.base_url = httpx.URL(ORIGIN)
    return client


def signed_on(client: httpx.Client, provider: Provider, view: str = "") -> httpx.Response:
    begun = client.get("/dashboard/sign-on", params={"view": view} if view else {})
    assert begun.status_code == 303, begun.text
    return client.get(provider.approve(begun.headers["location"]))


def test_a_person_signs_in_with_the_roles_of_the_grant(served: Gateway, provider: Provider) -> None:
    client = browser(served)
    page = signed_on(client, provider, "journal")
    assert page.status_code == 200
    assert 'url=/dashboard/journal"' in page.text
    session = client.get("/dashboard/session").json()
    assert (session["tenant"], session["roles"]) == ("acme", ["read", "release"])
    assert client.get("/budget").status_code == 200
    assert client.get("/jobs").status_code == 403
    assert client.get("/budget/other/sentence").status_code == 404
    headers = {"X-Form-Token": session["form_token"]}
    released = client.post("/embed/sentdp", json={"documents": [{"text": "One. Two."}], "epsilon": 1}, headers=headers)
    assert released.status_code == 200, released.text


def granted(grants: dict[str, Any], **fields: Any) -> str:
    """The digest of a setting with these grants."""
    given = {"issuer": "https://id.example.com", "client_id": "x", "grants": grants} | fields
    return SignOnSettings.model_validate(given).grants_digest


def test_a_session_ends_with_the_grants_that_opened_it(
    served: Gateway, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = browser(served)
    assert signed_on(client, provider).status_code == 200
    assert client.get("/budget").status_code == 200
    sessions = served.service.parts[Authenticator].sessions
    for changed in (granted({"search-team": {"tenant": "acme"}}), None):  # as after a restart with another setting
        with monkeypatch.context() as patch:
            patch.setattr(sessions, "_grants", changed)
            assert client.get("/budget").status_code == 401
            assert 'id="sign-in"' in client.get("/dashboard").text
    assert client.get("/budget").status_code == 200


def test_every_change_of_grants_is_another_digest() -> None:
    one, two = {"tenant": "acme", "roles": ["read", "jobs"]}, {"operator": True}
    both = {"a": one, "b": two}
    others = [{"b": two, "a": one}, {"a": one}, {"a": one, "c": two}]  # the first grant that a person has applies
    others += [both | {"a": one | {"roles": ["read"]}}, both | {"a": one | {"tenant": "other"}}]
    settings = ({"claim": "roles"}, {"client_id": "y"}, {"issuer": "https://other.example.com"})
    digests = {granted(both), *map(granted, others), *(granted(both, **each) for each in settings)}
    assert len(digests) == 1 + len(others) + len(settings)
    assert granted(both, scopes="openid groups") == granted(both)


def test_the_operator_ends_sessions_of_people(served: Gateway, provider: Provider) -> None:
    member, officer, stranger = browser(served), browser(served), browser(served)
    signed_on(member, provider)
    provider.claims = {"sub": "b", "groups": ["officers"]}
    signed_on(officer, provider)
    key = served.admin.post("/admin/tenants/other/keys", json={}).json()["key"]
    stranger.post("/dashboard/session", headers={"Authorization": f"Bearer {key}"})
    assert served.admin.post("/admin/tenants/acme/sessions/end").status_code == 204
    assert [each.get("/dashboard/session").status_code for each in (member, officer, stranger)] == [401, 200, 200]
    assert served.admin.post("/admin/sessions/end").status_code == 204
    assert [each.get("/dashboard/session").status_code for each in (member, officer, stranger)] == [401, 401, 200]
    logged = [(entry["action"], entry["target"]) for entry in served.admin_log()]
    assert logged[-2:] == [("sessions.end", "acme"), ("operator.sessions.end", "operator")]

    def signs_in_again() -> bool:
        provider.claims = {"sub": "anna", "groups": ["search-team"]}
        signed_on(member, provider)
        return member.get("/dashboard/session").status_code == 200

    until(signs_in_again)


def test_the_sign_in_page_offers_the_provider(served: Gateway) -> None:
    assert 'href="/dashboard/sign-on?view=journal"' in browser(served).get("/dashboard/journal").text
    assert 'href="/dashboard/sign-on"' in browser(served).get("/dashboard/%22%3E%3Cscript%3E").text


def test_the_first_grant_that_a_person_has_applies(served: Gateway, provider: Provider) -> None:
    provider.claims = {"sub": "b", "groups": ["readers", "officers"]}
    client = browser(served)
    assert signed_on(client, provider).status_code == 200
    assert client.get("/dashboard/session").json()["operator"]
    assert client.get("/admin/tenants").status_code == 200


def test_a_person_without_a_grant_gets_no_session(served: Gateway, provider: Provider) -> None:
    for groups in ([], None, "nothing", ["acme"], {"search-team": 1}, [["search-team"]], 7):
        provider.claims = {"sub": "c", "groups": groups}
        client = browser(served)
        refused = signed_on(client, provider)
        assert refused.status_code == 403, groups
        assert "grants you nothing" in refused.text
        assert client.get("/budget").status_code == 401


def test_a_token_that_is_not_for_this_request_signs_nobody_in(served: Gateway, provider: Provider) -> None:
    for wrong in (
        {"aud": "another-client"}, {"iss": "https://evil.example"}, {"nonce": "another"},
        {"exp": int(time.time()) - 3600}, {"azp": "another-client"}, {"sub": 7}, {"nonce": None},
    ):  # fmt: skip
        provider.wrong = wrong
        client = browser(served)
        refused = signed_on(client, provider)
        assert (refused.status_code, "not valid" in refused.text) == (403, True), wrong
        assert client.get("/budget").status_code == 401


def test_a_token_of_another_key_signs_nobody_in(served: Gateway, provider: Provider) -> None:
    provider.key = RSAKey.generate_key(2048, {"kid": "1"})
    client = browser(served)
    assert signed_on(client, provider).status_code == 403
    provider.published = [provider.key]  # a provider may change its keys
    assert signed_on(client, provider).status_code == 200


def test_an_answer_belongs_to_the_browser_that_asked(served: Gateway, provider: Provider) -> None:
    victim, attacker = browser(served), browser(served)
    begun = attacker.get("/dashboard/sign-on")
    answer = provider.approve(begun.headers["location"])
    assert victim.get(answer).status_code == 403  # no request of this browser
    victim.get("/dashboard/sign-on")
    assert victim.get(answer).status_code == 403  # another request of this browser
    assert victim.get("/budget").status_code == 401
    assert attacker.get(answer).status_code == 200
    assert attacker.get(answer).status_code == 403  # a code is used once


def test_an_altered_cookie_signs_nobody_in(served: Gateway, provider: Provider) -> None:
    for carried in (b"", b"x", b"AAAA" * 40, b"\xe9"):
        client = browser(served)
        answer = provider.approve(client.get("/dashboard/sign-on").headers["location"])
        client.cookies.clear()
        assert client.get(answer, headers={b"Cookie": b"pgw_sign_on=" + carried}).status_code == 403


def test_a_provider_that_does_not_answer_signs_nobody_in(tmp_path: Path) -> None:
    with Provider() as provider, gateway_of(provider, tmp_path, x={"operator": True}) as gateway:
        provider.is_down = True
        assert "cannot be reached" in browser(gateway).get("/dashboard/sign-on").text
        provider.is_down = False
        refused = browser(gateway).get("/dashboard/sign-on/done", params={"error": "access_denied", "state": "x"})
        assert "refused to sign you in" in refused.text


def test_without_a_provider_there_is_no_such_route(gateway: Gateway) -> None:
    client = browser(gateway)
    assert client.get("/dashboard/sign-on").status_code == 404
    assert client.get("/dashboard/sign-on/done").status_code == 404


def test_a_wrong_setting_stops_the_start(tmp_path: Path) -> None:
    one = '{"issuer": "https://id.example.com", "client_id": "x", "grants": {%s}}'
    for setting in (
        (one % '"a": {"operator": true}').replace("https", "http"), one % "", one % '"a": {}',
        one % '"a": {"tenant": "b", "operator": true}', one % '"a": {"tenant": "b", "roles": ["jobs"]}',
        (one % '"a": {"tenant": "b"}').replace('"grants"', '"key_env": "NONE", "grants"'), "{",
    ):  # fmt: skip
        assert "sign_on" in refused_settings(tmp_path / "data", {"PRIVACY_GATEWAY_SIGN_ON": setting}).lower()
