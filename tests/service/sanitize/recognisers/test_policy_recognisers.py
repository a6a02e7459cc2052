"""Recognisers of the operator's policies, which no request weakens, and the limits of a gateway."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from gateway_kit import Tenant, good
from inprocess_kit import Gateway, module_gateway

from service.config.settings import Settings, SettingsRefused
from service.files.stored import StoredFiles
from service.infill.job_kind import InfillFields, InfillKind
from service.jobs.kind import Outputs
from service.sanitize.policies import Policies, load_policies
from service.sanitize.recognisers.store import RecogniserStore
from service.workers import Workers

PATH = "/sanitize/recognisers"
CODES = {"entity": "PROJECT_CODE", "patterns": [r"PX-\d{4}"]}
TEXT = "PX-1234, Blue Falcon and jo@example.org"
POLICIES = """
[policies.research]
tenants = ["lab", "office"]
default_for = ["lab"]
enforced = true

[policies.research.mask]
entities = ["EMAIL_ADDRESS", "PROJECT_CODE"]
thresholds = { PROJECT_CODE = 0.5 }

[policies.research.recognisers.project-codes]
entity = "PROJECT_CODE"
patterns = ['PX-\\d{4}']
deny = ["Blue Falcon"]
allow = ["PX-0000"]

[policies.plain]
tenants = ["office"]
"""


own = module_gateway(policies=POLICIES, changes={"recognisers_per_tenant_max": 2, "recognisers_per_request_max": 1})


@pytest.fixture(scope="module")
def lab(own: Gateway) -> Tenant:
    """Bound to the policy."""
    return own.tenant("lab")


@pytest.fixture(scope="module")
def office(own: Gateway) -> Tenant:
    """May name the policy."""
    return own.tenant("office")


def sanitize(tenant: Tenant, text: str = TEXT, **fields: Any) -> httpx.Response:
    return tenant.http.post("/sanitize", json={"documents": [{"text": text}]} | fields)


def masked(tenant: Tenant, text: str = TEXT, **fields: Any) -> str:
    return str(good(sanitize(tenant, text, **fields))["data"][0]["text"])


def test_the_recognisers_of_a_policy_run_for_every_request_by_it(lab: Tenant, office: Tenant) -> None:
    expected = "[PROJECT_CODE], [PROJECT_CODE] and [EMAIL_ADDRESS]"
    assert masked(lab) == expected
    assert masked(office, policy="research") == expected
    assert masked(lab, "PX-0000") == "PX-0000", "the allow list of the policy"
    assert masked(office) == TEXT.replace("jo@example.org", "[EMAIL_ADDRESS]")
    assert masked(office, policy="plain") == TEXT.replace("jo@example.org", "[EMAIL_ADDRESS]")


def test_an_enforced_policy_admits_no_recogniser_of_its_tenant(lab: Tenant) -> None:
    weaker = {"allow": ["PX-1234", "jo@example.org"]}
    assert lab.http.put(f"{PATH}/weaker", json=weaker).is_success
    assert lab.http.put(f"{PATH}/project-codes", json=weaker).is_success, "the same name as that of the policy"
    policy = lab.http.get("/policies").json()["policies"][0]["mask"]
    for mask in ({"recognisers": ["weaker"]}, policy | {"recognisers": ["weaker"]}, {"entities": ["PROJECT_CODE"]}):
        refused = sanitize(lab, mask=mask)
        assert (refused.status_code, refused.json()["code"]) == (403, "policy-enforced")
    assert masked(lab).count("[PROJECT_CODE]") == 2
    assert lab.http.delete(f"{PATH}/weaker").is_success
    assert lab.http.delete(f"{PATH}/project-codes").is_success


def test_a_policy_shows_its_recognisers_without_their_terms(office: Tenant) -> None:
    answer = office.http.get("/policies")
    shown = {policy["name"]: policy["recognisers"] for policy in answer.json()["policies"]}
    assert shown["plain"] == []
    (codes,) = shown["research"]
    assert codes == {
        "name": "project-codes", "entity": "PROJECT_CODE", "patterns": 1, "deny": 1, "allow": 1, "context": 0,
    }  # fmt: skip
    assert "Falcon" not in answer.text


def test_the_terms_of_a_policy_are_written_in_encrypted_form_alone(own: Gateway, lab: Tenant) -> None:
    masked(lab)
    folder = own.data_dir / "recognisers" / "policies"
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert [path.name for path in files] == ["project-codes.recogniser"]
    assert all(b"Falcon" not in path.read_bytes() for path in files)


def test_a_corpus_is_masked_by_own_recognisers_and_by_those_of_the_policy(own: Gateway, office: Tenant) -> None:
    office.http.put(f"{PATH}/codes", json=CODES)
    parts = own.service.parts
    kind = InfillKind(
        parts[Settings].model_copy(update={"infill": "bundled"}), policies=parts[Policies],
        recognisers=parts[RecogniserStore], workers=parts[Workers], files=parts[StoredFiles],
    )  # fmt: skip
    outputs = Outputs("office", own.data_dir / "artifact")
    for fields in ({"policy": "research"}, {"mask": {"recognisers": ["codes"]}}):
        resolved = kind.resolve("office", InfillFields.model_validate({"name": "mine"} | fields))
        spec = kind.spec(resolved.model_dump(mode="json"), outputs)
        assert [each.entity for each in spec.policy.own] == ["PROJECT_CODE"]
    resolved = kind.resolve("lab", InfillFields(name="mine"))
    assert [each.name for each in kind.spec(resolved.model_dump(mode="json"), outputs).policy.own] == ["project-codes"]
    office.http.delete(f"{PATH}/codes")


def test_a_policy_whose_recogniser_cannot_be_used_prevents_the_start(tmp_path: Path) -> None:
    file = tmp_path / "policies.toml"
    for recogniser, what in (
        ("entity = 'CODE'\npatterns = ['zworykin(']", "recognisers.own.patterns.0"),
        ("deny = ['zworykin']", "recognisers.own.entity"),
        ("entity = 'CODE'\nzworykin = 1", "recognisers.own"),
        ("entity = 'CODE'\ndeny = ['x1']\n[policies.p.mask]\nrecognisers = ['own']", "in the table `recognisers`"),
        ("entity = 'CODE'\ndeny = ['x1']\n[policies.p.mask]\ntechniques = ['all']", "technique `entity`"),
        ("entity = 'CODE'\ndeny = ['x1']\n[policies.p.mask]\nthresholds = { OTHER = 0.5 }", "thresholds"),
    ):
        file.write_text(f"[policies.p.recognisers.own]\n{recogniser}\n")
        with pytest.raises(SettingsRefused) as refused:
            load_policies(Settings(policies_file=file), lists=["general"])
        assert what in str(refused.value)


def test_the_limits_of_recognisers(own: Gateway) -> None:
    tenant = own.tenant()

    def put(name: str, **members: Any) -> httpx.Response:
        return tenant.http.put(f"{PATH}/{name}", json=members)

    assert put("a", **CODES).status_code == 201
    assert put("b", entity="CODE", deny=["Blue Falcon"]).status_code == 201
    refused = put("c", **CODES)
    assert (refused.status_code, refused.json()["limit"]) == (429, "recognisers_per_tenant_max")
    assert put("b", entity="CODE", deny=["Blue Falcon"]).status_code == 200
    refused = put("b", entity="CODE", deny=["x1"] * 65_000, allow=["x2"] * 65_000)
    assert refused.status_code == 422
    assert "at most 100000" in refused.text
    assert sanitize(tenant, mask={"recognisers": ["a", "b"]}).status_code == 422
    assert masked(tenant, mask={"recognisers": ["a"]}).startswith("[PROJECT_CODE], Blue Falcon")
    assert masked(tenant, mask={"recognisers": ["b"]}).startswith("PX-1234, [CODE]")
    draft = {"recogniser": CODES, "text": "x" * 100_001}
    assert tenant.http.post(f"{PATH}/test", json=draft).status_code == 422
