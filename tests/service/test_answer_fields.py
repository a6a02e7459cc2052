"""Every number of an answer is public, released, or listed as uncovered: the table of `audits/answer_fields.toml`."""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from audits.answer_fields import Field, operations, table, unlisted
from audits.answers_sent import NO_PRICE, Sent, asked, jobs, priced, sent
from audits.bug import Bug, tried
from audits.bugs_answers import BUGS
from finetune_http_kit import tiny_encoder
from gateway_kit import Gateway as RealGateway
from gateway_kit import Tenant
from inprocess_kit import Gateway

DOCS = Path(__file__).parents[2] / "docs"
LIMITATIONS, PROBLEMS = DOCS / "KNOWN_LIMITATIONS.md", DOCS / "reference/problems.md"
# With a budget behind them, or as a record of a job: no row stands for fields that nobody has looked at.
RELEASES = ("POST /embed/sentdp", "POST /embed/vector", "POST /v1/embeddings", "POST /sanitize", "POST /sanitize/batch")


def test_every_operation_of_the_document_has_a_section(gateway: Gateway) -> None:
    document = gateway.app.openapi()["paths"]
    named = {f"{method.upper()} {path}" for path, methods in document.items() for method in methods}
    assert named - operations() == set(), "say what these answers hold"
    assert operations() - named == set(), "these are gone"


def test_typed_answers_of_the_document_hold_no_unlisted_member(gateway: Gateway) -> None:
    """An answer with a schema shows its members there, whether or not a test has seen them."""
    document = gateway.app.openapi()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            name = f"{method.upper()} {path}"
            rows = [*table()[name], *table().get(name + NO_PRICE, ())]
            content = operation["responses"].get("200", {}).get("content", {}).get("application/json", {})
            schema = document["components"]["schemas"].get(content.get("schema", {}).get("$ref", "").split("/")[-1], {})
            for member in schema.get("properties", {}):
                shown = any(row.names(member) or re.split(r"[.\[]", row.path)[0] in ("", member) for row in rows)
                assert shown, f"{name}: {member}"


def test_every_reference_of_the_document_leads_to_a_schema(gateway: Gateway) -> None:
    document = gateway.app.openapi()
    references = set(re.findall(r'"\$ref": "#/([^"]*)"', json.dumps(document)))
    assert any("LabelledRow" in each for each in references)
    for reference in references:
        found = document
        for step in reference.split("/"):
            found = found[step.replace("~1", "/")]
        assert found, reference


def test_every_member_of_a_problem_has_a_row() -> None:
    documented = re.findall(r"^\| \d{3} .*\|([^|]*)\|$", PROBLEMS.read_text(), re.MULTILINE)
    members = set(re.findall(r"`(\w+)`", " ".join(documented)))
    assert {"reason", "account", "line"} <= members
    shown = {re.split(r"[.\[]", row.path)[0] for row in table()["block problem"]}
    assert members - shown == set()


@pytest.mark.parametrize("operation", [*RELEASES, "GET /jobs", "GET /jobs/{job_id}", "GET /jobs/{job_id}/events"])
def test_releases_and_jobs_are_listed_field_by_field(operation: str) -> None:
    wide = [row.path for row in table()[operation] if row.is_everything]
    assert set(wide) <= {"budget.plan.**", "[].summary.budget.plan.**"}


def test_what_is_uncovered_quotes_the_page_of_limitations() -> None:
    page = " ".join(re.sub(r"\*\*", "", LIMITATIONS.read_text()).split())
    rows = {row for section in table().values() for row in section}
    assert not [row for row in rows if row.verdict == "uncovered" and row.reason not in page]
    assert all(row.reason for row in rows)


def test_every_field_of_a_release_has_a_row(gateway: Gateway) -> None:
    tenant = gateway.tenant(vector={"epsilon": 1000.0})
    _check(priced(tenant))
    _check(asked(gateway, tenant, unit="sentence"))


def test_an_operator_sees_nothing_unlisted(gateway: Gateway, tenant: Tenant) -> None:
    paths = ("/admin/service", "/admin/tenants", "/admin/audit", "/admin/integrity", "/metrics")
    _check(sent(f"GET {path}", gateway.admin.get(path)) for path in paths)
    budgets = "/admin/tenants/{tenant}/budgets"
    _check([sent(f"GET {budgets}", gateway.admin.get(budgets.replace("{tenant}", tenant.name)))])


@pytest.mark.slow("training")
def test_every_field_of_a_job_has_a_row(real_gateway: RealGateway) -> None:
    tiny_encoder(real_gateway)
    _check(jobs(real_gateway))


def test_a_field_without_a_row_is_found() -> None:
    row = {"index": 0, "embedding": [0.5], "sentences": 1, "space": "encoder", "token_count": 9}
    headers = {"server-timing": "run;dur=1.0", "release-id": "r"}
    answer = Sent("POST /embed/sentdp", 200, headers, {"data": [row], "took_ms": 3})
    assert unlisted(answer) == ["data[].token_count", "header server-timing", "took_ms"]
    assert Field("data[].*", "public", "a test").names("data[].index")
    assert not Field("data[].*", "public", "a test").names("data[].spans[].start")


def _check(answers: Iterable[Sent]) -> None:
    missing: Iterator[str] = (f"{answer.operation}: {leaf}" for answer in answers for leaf in unlisted(answer))
    assert sorted(set(missing)) == []


@pytest.mark.slow("planted bug")
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_caught(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gateway, "checks_answers", False)  # that would find some of them first
    assert bug.detector.flags() is None
    assert tried(bug) is not None
