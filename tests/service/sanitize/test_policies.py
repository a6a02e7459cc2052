"""The operator's policies: each tenant's mask and the names that it may use. No tenant learns of another's."""

from pathlib import Path
from typing import Any

import pytest
from gateway_kit import Tenant, documented_policies, refused_start
from inprocess_kit import Gateway
from table_kit import texts
from wait_kit import until

from core.errors import InvalidInput, PolicyEnforced
from service.config.settings import Settings, SettingsRefused
from service.sanitize.policies import Policies, load_policies
from service.sanitize.schemas import SanitizeRequest

TEXT = "the zworykling was seen by the patient dr.roe@acme-corp.com."
MASKED = "the [WORD] was seen by the patient [EMAIL_ADDRESS]."


@pytest.fixture(scope="module")
def clinic(gateway: Gateway) -> Tenant:
    """Bound to the policy `clinical`, which is enforced."""
    return gateway.tenant("clinic-a")


@pytest.fixture(scope="module")
def other_clinic(gateway: Gateway) -> Tenant:
    """May name `clinical`, and is not bound to it."""
    return gateway.tenant("clinic-b")


@pytest.fixture(scope="module")
def press(gateway: Gateway) -> Tenant:
    """Has the default `newsroom`, which is not enforced."""
    return gateway.tenant("press")


def sanitize(tenant: Tenant, **fields: Any) -> Any:
    return tenant.http.post("/sanitize", json={"documents": [{"text": TEXT}]} | fields)


def names(tenant: Tenant) -> list[str]:
    return [policy["name"] for policy in tenant.http.get("/policies").json()["policies"]]


def lists(tenant: Tenant) -> list[str]:
    models = tenant.http.get("/models").json()["models"]
    return next(model["allow_lists"] for model in models if model["role"] == "sanitize")


def test_an_enforced_policy_is_what_its_tenant_gets_and_nothing_else(clinic: Tenant) -> None:
    for fields in ({}, {"policy": "clinical"}, {"fill": {"mode": "class_marker"}}):
        answer = sanitize(clinic, **fields)
        assert answer.status_code == 200, answer.text
        assert answer.json()["data"][0]["text"] == MASKED
        assert answer.json()["policy"] == "clinical"
    for fields in (
        {"mask": {"techniques": ["entity"]}}, {"mask": {}}, {"policy": "newsroom"}, {"policy": "no-such"},
        {"fill": {"mode": "metric_dp", "epsilon": 1000.0}}, {"fill": {"mode": "surrogate"}},
    ):  # fmt: skip
        refused = sanitize(clinic, **fields)
        assert refused.status_code == 403, fields
        assert refused.json()["code"] == "policy-enforced"
        assert "zworykling" not in refused.text
    rows = clinic.http.get
    until(lambda: [(row["requests"], row["refused"]) for row in rows("/masking/counts").json()["rows"]] == [(3, 6)])
    assert names(clinic) == ["clinical"]
    (shown,) = clinic.http.get("/policies").json()["policies"]
    assert shown["enforced"] is shown["default"] is True
    assert shown["mask"]["thresholds"] == {"EMAIL_ADDRESS": 0.6, "PHONE_NUMBER": 0.3}


def test_a_dry_run_follows_the_enforced_policy(clinic: Tenant) -> None:
    body = sanitize(clinic, dry_run=True).json()
    assert body["policy"] == "clinical"
    assert [span["type"] for span in body["data"][0]["spans"]] == ["WORD", "EMAIL_ADDRESS"]
    assert sanitize(clinic, dry_run=True, mask={"techniques": ["entity"]}).status_code == 403


def test_a_policy_that_is_offered_is_there_by_name(other_clinic: Tenant) -> None:
    assert sanitize(other_clinic).json()["data"][0]["text"].startswith("the zworykling was")
    named = sanitize(other_clinic, policy="clinical", fill={"mode": "marker"}).json()
    assert "zworykling" not in named["data"][0]["text"]
    assert "[WORD]" not in named["data"][0]["text"], "the request's own fill"
    both = sanitize(other_clinic, policy="clinical", mask={"techniques": ["entity"]})
    assert (both.status_code, both.json()["code"]) == (422, "invalid-input")
    assert names(other_clinic) == ["clinical", "newsroom", "private-words"]
    assert lists(other_clinic) == ["clinical", "general", "general-5000"]


def test_a_default_gives_way_to_a_mask_of_the_requests_own(press: Tenant) -> None:
    policy = sanitize(press).json()
    assert policy["policy"] == "newsroom"
    assert "acme-corp" not in policy["data"][0]["text"]
    assert "[EMAIL_ADDRESS]" not in policy["data"][0]["text"], "the policy's fill is a surrogate"
    own = sanitize(press, mask={"techniques": ["entity"]}).json()
    assert "policy" not in own
    assert "[EMAIL_ADDRESS]" in own["data"][0]["text"]


def test_another_tenants_policy_and_list_do_not_exist(tenant: Tenant, press: Tenant) -> None:
    for stranger in (tenant, press):
        hidden = sanitize(stranger, policy="clinical")
        missing = sanitize(stranger, policy="no-such")
        assert hidden.status_code == missing.status_code == 422
        assert {**hidden.json(), "request_id": ""} == {**missing.json(), "request_id": ""}
        mask = {"techniques": ["allow_list"], "allow_list": "clinical"}
        hidden = sanitize(stranger, mask=mask)
        missing = sanitize(stranger, mask=mask | {"allow_list": "no-such"})
        assert hidden.status_code == missing.status_code == 422
        assert {**hidden.json(), "request_id": ""} == {**missing.json(), "request_id": ""}
        assert "clinical" not in names(stranger)
        assert lists(stranger) == ["general", "general-5000"]


def test_a_policy_with_a_price_charges_and_can_be_estimated(tenant: Tenant) -> None:
    body = {"documents": [{"text": TEXT}], "policy": "private-words"}
    estimate = tenant.http.post("/budget/estimate", json=body)
    assert estimate.status_code == 200, estimate.text
    assert estimate.json()["privacy"]["epsilon"] == 2.5
    answer = sanitize(tenant, policy="private-words")
    assert answer.json()["privacy"]["guarantee"] == "metric-dp"
    assert tenant.committed("vector") == 2.5


def test_a_bad_threshold_or_language_is_refused_without_echo(tenant: Tenant) -> None:
    for mask in [
        {"thresholds": {"zworykin": 0.5}}, {"thresholds": {"zworykin": "zworykin"}},
        {"thresholds": {"EMAIL_ADDRESS": "zworykin"}}, {"thresholds": {"EMAIL_ADDRESS": None}},
        {"thresholds": {"EMAIL_ADDRESS": 0}}, {"thresholds": {"EMAIL_ADDRESS": 1.01}},
        {"thresholds": {"EMAIL_ADDRESS": -1}}, {"thresholds": ["zworykin"]},
        {"techniques": ["all"], "thresholds": {"EMAIL_ADDRESS": 0.5}}, {"language": "zworykin"},
        {"language": "de", "techniques": ["vocabulary"]}, {"language": "de", "techniques": ["allow_list"]},
        {"unknown_language": "guess"}, {"language": 5},
    ]:  # fmt: skip
        answer = sanitize(tenant, mask=mask)
        assert answer.status_code == 422
        assert answer.json()["code"] == "invalid-input"
        assert "zworykin" not in answer.text


def test_an_empty_list_of_entities_selects_the_default_ones(tenant: Tenant) -> None:
    text = "Write to dr.roe@acme-corp.com."
    shown = sanitize(tenant, documents=[{"text": text}], mask={"entities": []}).json()["data"][0]["text"]
    assert shown == "Write to [EMAIL_ADDRESS]."


def test_a_language_that_is_not_offered_is_answered_by_those_that_are(tenant: Tenant) -> None:
    refused = sanitize(tenant, mask={"language": "fi"}).json()
    assert refused["errors"][0]["field"] == "mask.language"
    assert "en, de, es, fr, it, nl, pl, pt" in refused["errors"][0]["message"]


def loaded(folder: Path, text: str) -> Policies:
    path = folder / "policies.toml"
    path.write_text(text)
    return load_policies(Settings(data_dir=folder, policies_file=path), lists=("clinical", "general", "klinik"))


def request(**fields: Any) -> SanitizeRequest:
    return SanitizeRequest.model_validate({"documents": [{"text": "x"}]} | fields)


def test_a_policy_may_name_a_profile_that_exists(tmp_path: Path) -> None:
    policies = loaded(tmp_path, '[policies.keys]\n[policies.keys.mask]\nprofile = "secrets"\n')
    assert policies.applied(request(policy="keys"), "acme").mask.masking().entities == ("SECRET", "PASSWORD")
    with pytest.raises(SettingsRefused, match=r"mask\.profile"):
        loaded(tmp_path, '[policies.keys]\n[policies.keys.mask]\nprofile = "nosuch"\n')


def test_a_policy_for_everybody_binds_whoever_has_none_of_their_own(tmp_path: Path) -> None:
    policies = loaded(
        tmp_path,
        '[policies.common]\ndefault_for = ["*"]\nenforced = true\n[policies.common.mask]\ntechniques = ["all"]\n'
        '[policies.own]\ndefault_for = ["acme"]\n[policies.own.mask]\ntechniques = ["vocabulary"]\n',
    )
    assert policies.applied(request(), "anybody").mask.techniques == ["all"]
    assert policies.applied(request(mask={"techniques": ["all"]}), "anybody").policy == "common"
    with pytest.raises(PolicyEnforced):
        policies.applied(request(mask={"techniques": ["entity"]}), "anybody")
    assert policies.applied(request(), "acme").mask.techniques == ["vocabulary"]
    assert policies.applied(request(mask={"techniques": ["entity"]}), "acme").policy is None


def test_without_a_file_nothing_changes(tmp_path: Path) -> None:
    none = load_policies(Settings(data_dir=tmp_path), lists=("general",))
    assert none.visible("acme") == []
    assert none.allow_lists("acme") == ("general",)
    assert none.applied(request(), "acme") == request()
    with pytest.raises(InvalidInput):
        none.applied(request(policy="clinical"), "acme")


def test_a_file_that_no_request_could_use_is_refused(tmp_path: Path) -> None:
    for text in texts(r"""
        policies = 3 || [policies.x]\nenforced = true || [policies."no name"]
        [policies.x]\ntenants = ["a"]\ndefault_for = ["b"]
        [policies.x]\ndefault_for = ["a"]\n[policies.y]\ndefault_for = ["a"]
        [policies.x.mask]\nentities = ["SHOE_SIZE"] || [policies.x.mask]\nthresholds = { EMAIL_ADDRESS = 2.0 }
        [policies.x.mask]\nallow_list = "no-such" || [policies.x.mask]\nlanguage = "fi"
        [policies.x.proxy]\nblock = ["SHOE_SIZE"] || [policies.x.proxy]\nblock = ["AGE"]
        [policies.x.mask]\nentities = ["PERSON"]\n[policies.x.proxy]\nblock = ["SECRET"]
        [policies.x.mask]\ntechniques = ["vocabulary"]\n[policies.x.proxy]\nblock = ["SECRET"]
        [policies.x.fill]\nmode = "metric_dp"
        [policies.x.mask]\nunknown_language = "refuse"\n[policies.x.fill]\nmode = "metric_dp"\nepsilon = 2.5
        [policies.x.mask]\nallow_list = "clinical"\n[allow_lists]\nclinical = ["a"]
        [policies.x]\ntenants = ["b"]\n[policies.x.mask]\nallow_list = "klinik"\n[allow_lists]\nklinik = ["a"]
        [allow_lists]\nno-such = ["a"] || [allow_lists]\ngeneral = ["a"]
    """):
        with pytest.raises(SettingsRefused):
            loaded(tmp_path, text)


@pytest.mark.usefixtures("processes")
def test_the_documented_file_loads_and_a_bad_one_keeps_the_gateway_from_starting(tmp_path: Path) -> None:
    assert loaded(tmp_path, documented_policies()).allow_lists("clinic-b") == ("clinical", "general", "klinik")
    (tmp_path / "bad.toml").write_text("[policies.x.mask]\nallow_list = 'no-such'\n")
    refusal = refused_start(tmp_path / "data", {"PRIVACY_GATEWAY_POLICIES_FILE": str(tmp_path / "bad.toml")})
    assert "the policy x: mask.allow_list" in refusal


@pytest.mark.usefixtures("processes")
def test_a_fine_tuning_job_masks_by_the_policy(clinic: Tenant, tenant: Tenant) -> None:
    def ask(of: Tenant, **fields: Any) -> Any:
        return of.http.post("/jobs/infill", json={"name": "own", "documents": [{"text": TEXT}]} | fields)

    assert ask(clinic, mask={"techniques": ["entity"]}).json()["code"] == "policy-enforced"
    assert ask(clinic).status_code == 202
    everything = ask(tenant, policy="private-words")
    assert (everything.status_code, everything.json()["errors"][0]["field"]) == (422, "mask.techniques")
    for fields in ({"policy": "clinical"}, {"policy": "newsroom", "mask": {}}, {"mask": {"allow_list": "clinical"}}):
        assert ask(tenant, **fields).status_code == 422, fields
