"""The setting `UPSTREAMS`: what it accepts, who finds which model, and that it shows no key."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from core.errors import UnknownName
from service.config.settings import Settings
from service.proxy.upstreams import Upstreams, load_upstreams

KEY = "sk-canary-5f2c-91d0"
OPEN = {"base_url": "https://models.example/v1", "kind": "openai", "models": ["small"]}


def settings(monkeypatch: pytest.MonkeyPatch, **upstreams: Any) -> Settings:
    monkeypatch.setenv("PRIVACY_GATEWAY_UPSTREAMS", orjson.dumps(upstreams).decode())
    return Settings()


def loaded(monkeypatch: pytest.MonkeyPatch, **upstreams: Any) -> Upstreams:
    return load_upstreams(settings(monkeypatch, **upstreams))


def refusal(monkeypatch: pytest.MonkeyPatch, **upstreams: Any) -> str:
    """What the operator reads: the places and sentences of the error."""
    with pytest.raises(ValidationError) as caught:
        settings(monkeypatch, **upstreams)
    return "; ".join(f"{'.'.join(map(str, entry['loc']))}: {entry['msg']}" for entry in caught.value.errors())


def test_without_the_setting_there_is_no_upstream() -> None:
    found = load_upstreams(Settings())
    assert (found.all, found.visible("a")) == ([], [])
    with pytest.raises(UnknownName):
        found.find("small", "a", "openai")


def test_a_model_is_found_by_its_name_and_has_another_one_upstream(monkeypatch: pytest.MonkeyPatch) -> None:
    models = ["small", {"name": "large", "upstream_model": "gpt-5"}]
    found = loaded(monkeypatch, one=OPEN | {"models": models, "read_timeout_s": 7})
    upstream, name = found.find("large", "anyone", "openai")
    assert (upstream.name, upstream.base_url, name) == ("one", "https://models.example/v1", "gpt-5")
    assert (upstream.host, upstream.port, upstream.read_timeout_s, upstream.total_timeout_s) == (
        "models.example", 443, 7, Settings().upstream_total_timeout_s,
    )  # fmt: skip
    assert found.find("small", "anyone", "openai")[1] == "small"
    assert [model.name for model in found.visible("anyone")] == ["small", "large"]


def test_a_tenant_finds_and_sees_the_models_of_its_upstreams_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    found = loaded(
        monkeypatch, one=OPEN | {"tenants": ["a", "b"]}, two=OPEN | {"tenants": ["c"], "models": ["small", "large"]}
    )
    assert found.find("small", "a", "openai")[0].name == "one"
    assert found.find("small", "c", "openai")[0].name == "two"
    assert [[model.name for model in found.visible(tenant)] for tenant in "abcd"] == [
        ["small"], ["small"], ["small", "large"], [],
    ]  # fmt: skip
    for tenant, model in (("a", "large"), ("d", "small")):
        with pytest.raises(UnknownName) as caught:
            found.find(model, tenant, "openai")
        assert caught.value.detail == UnknownName.further_codes["unknown-model"]


def test_a_model_of_the_other_format_is_not_found_and_the_error_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    found = loaded(monkeypatch, one=OPEN | {"kind": "anthropic"})
    with pytest.raises(UnknownName, match="format of Anthropic"):
        found.find("small", "a", "openai")


@pytest.mark.parametrize("source", ["key_env", "key_file"])
@pytest.mark.parametrize(("kind", "header"), [("openai", "authorization"), ("anthropic", "x-api-key")])
def test_the_key_is_sent_and_shown_nowhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: str, kind: str, header: str
) -> None:
    monkeypatch.setenv("MODELS_KEY", KEY)
    (tmp_path / "key").write_text(f"{KEY}\n")
    where = {"key_env": "MODELS_KEY"} if source == "key_env" else {"key_file": str(tmp_path / "key")}
    secret = {"headers": {"X-Account": KEY}}
    given = settings(monkeypatch, one=OPEN | where | secret | {"kind": kind})
    upstream = load_upstreams(given).all[0]
    assert upstream.own_headers[header].endswith(KEY)
    assert upstream.own_headers["x-account"] == KEY
    shown = [repr(given), repr(upstream), str(given.model_dump()), given.model_dump_json()]
    assert not any(KEY in text for text in shown)


def test_two_upstreams_may_not_serve_a_model_to_one_tenant(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = refusal(monkeypatch, one=OPEN | {"tenants": ["a"]}, two=OPEN)
    assert "one and two serve the same model to the same tenant" in shown


def test_a_mistake_is_named_by_its_member_and_no_secret_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    for member, place in [
        ({"base_url": "ftp://models.example"}, "base_url is https://"),
        ({"base_url": "models.example"}, "base_url is https://"),
        ({"base_url": "https://models.example:x/v1"}, "base_url is https://"),
        ({"base_url": f"https://user:{KEY}@models.example"}, "has no user"),
        ({"base_url": f"https://models.example/v1?key={KEY}"}, "has no user, query"),
        ({"base_url": "https://models.example/a/../b"}, "path of base_url"),
        ({"base_url": "https://models example/"}, "host of base_url"),
        ({"base_url": "http://models.example/v1"}, "http:// is for this machine"),
        ({"base_url": "http://10.0.0.7/v1"}, "http:// is for this machine"),
        ({"kind": "other"}, "upstreams.one.kind"), ({"models": []}, "upstreams.one.models"),
        ({"models": ["small", {"name": "small"}]}, "a model is listed twice"),
        ({"models": [{"name": "sm all"}]}, "upstreams.one.models.0.name"),
        ({"models": [{"nam": "small"}]}, "upstreams.one.models.0.nam"), ({"tenants": []}, "upstreams.one.tenants"),
        ({"tenants": ["A B"]}, "upstreams.one.tenants.0"), ({"key": KEY}, "upstreams.one.key"),
        ({"key_env": "NO_SUCH_VARIABLE"}, "key_env names a variable that is not set"),
        ({"key_env": "BAD_KEY"}, "visible ASCII"), ({"key_env": "EMPTY_KEY"}, "must not be empty"),
        ({"key_env": "SHORT_KEY"}, "the key of an upstream has at least 16 characters"),
        ({"key_env": "SHORT_WORD"}, "the key of an upstream has at least 16 characters"),
        ({"key_file": "/no/such/file"}, "key_file cannot be read"),
        ({"key_env": "BAD_KEY", "key_file": "/no/such/file"}, "either key_env or key_file"),
        ({"ca_file": "/no/such/file"}, "ca_file is no file"),
        ({"headers": {"Host": "elsewhere"}}, "none of those that the gateway sets"),
        ({"headers": {"X-Own": f"{KEY}\r\nX-Other: 1"}}, "visible ASCII"),
        ({"read_timeout_s": 0}, "upstreams.one.read_timeout_s"),
        ({"total_timeout_s": "60"}, "upstreams.one.total_timeout_s"),
        ({"private_addresses": 1}, "upstreams.one.private_addresses"),
    ]:  # fmt: skip
        monkeypatch.setenv("BAD_KEY", f"{KEY} two")
        monkeypatch.setenv("EMPTY_KEY", " ")
        monkeypatch.setenv("SHORT_KEY", "k")
        monkeypatch.setenv("SHORT_WORD", "token-abc123456")

        shown = refusal(monkeypatch, one=OPEN | member)

        assert place in shown
        assert KEY not in shown


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/v1", "http://localhost:9", "http://[::1]:9/v1"])
def test_plain_http_is_for_this_machine(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    assert loaded(monkeypatch, one=OPEN | {"base_url": url}).all[0].port == 9


def test_what_is_no_json_is_named_without_its_content(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVACY_GATEWAY_UPSTREAMS", f'{{"one": "{KEY}')
    with pytest.raises(ValidationError, match="UPSTREAMS is no JSON: line 1") as caught:
        Settings()
    assert KEY not in str(caught.value)
