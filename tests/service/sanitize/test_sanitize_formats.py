"""`POST /sanitize` with a format: the document parses as before, bad ones are refused without a word of theirs."""

import base64
import json
import re
from typing import Any

import httpx
import pytest
from gateway_kit import Tenant
from inprocess_kit import Gateway, module_gateway
from model_kit import left_in

from core.text.formats.builder import FORMATS

MAIL = "jane.roe@acme-corp.com"
DOCUMENTS = {
    "json": f'{{"customer": {{"name": "Maria Keller", "mail": "{MAIL}"}}, "total": 12.50}}',
    "csv": f'customer;mail\r\n"Maria Keller";{MAIL}\r\n',
    "email": f"From: Maria Keller <{MAIL}>\nSubject: Hello\n\n> Maria Keller wrote from {MAIL}\n",
    "markdown": f"# Customers\n\n* Maria **Keller** lives in Lisbon, [mail](mailto:{MAIL})\n",
    "html": f'<p title="{MAIL}">Maria <b>Keller</b> lives in Lisbon &amp; works</p>',
    "log": f'2024-05-03T12:00:00Z INFO user="{MAIL}" Maria Keller logged in from Lisbon\n',
}
EXPECTED = {
    "json": '{"customer": {"name": "[PERSON]", "mail": "[EMAIL_ADDRESS]"}, "total": 12.50}',
    "html": '<p title="[EMAIL_ADDRESS]">[PERSON] <b>[PERSON]</b> lives in [LOCATION] &amp; works</p>',
}


ENFORCED = '[policies.strict]\ndefault_for = ["bound"]\nenforced = true\n'
enforcing = module_gateway({}, policies=ENFORCED)


def ask(tenant: Tenant, *documents: dict[str, Any], **fields: Any) -> httpx.Response:
    return tenant.http.post("/sanitize", json={"documents": list(documents), **fields})


def refused(answer: httpx.Response, *, field: str, code: str = "invalid-input") -> None:
    assert answer.status_code == 422, answer.text
    assert answer.json()["code"] == code
    assert field in answer.text
    assert "acme" not in answer.text


@pytest.mark.parametrize("fill", ["class_marker", "surrogate"])
def test_names_and_patterns_are_masked_in_every_format(tenant: Tenant, fill: str) -> None:
    documents = [{"id": name, "text": text, "format": name} for name, text in DOCUMENTS.items()]
    rows = ask(tenant, *documents, fill={"mode": fill}, return_spans=True).json()["data"]
    assert [row["id"] for row in rows] == list(FORMATS)
    for row in rows:
        assert MAIL not in row["text"]
        without_mail = re.sub(r"[\w.+-]+@[\w.-]+", "", row["text"])  # the surrogate of an address may hold any name
        assert not left_in(without_mail, ("Maria", "Keller"))
        assert 0 < row["masked_tokens"] <= row["tokens"]
        assert row["spans"]
        if fill == "class_marker":
            assert row["text"] == EXPECTED.get(row["id"], row["text"])


def test_a_find_is_explained_by_its_place_in_the_document_as_sent(tenant: Tenant) -> None:
    coded = base64.b64encode(f"Write to {MAIL} today.".encode()).decode()
    mime = f"Subject: Hi\nContent-Type: text/plain\nContent-Transfer-Encoding: base64\n\n{coded}\n"
    texts = {
        **DOCUMENTS,
        "json": f'{{"mail\\u0020of": "caf\\u00e9 {MAIL}", "other": "4111\\u00201111 1111 1111"}}',
        "html": f'<p>caf&eacute; <a href="mailto:{MAIL}">{MAIL}</a></p>',
    }
    documents = [{"text": text, "format": name} for name, text in texts.items()]
    documents.append({"text": mime, "format": "email"})
    for dry_run in (False, True):
        rows = ask(tenant, *documents, return_spans=True, dry_run=dry_run).json()["data"]
        for (name, text), row in zip(texts.items(), rows, strict=False):
            finds = [text[find["original_start"] : find["original_end"]] for find in row["spans"]]
            assert MAIL in finds, name
            assert (name != "json") or "4111\\u00201111 1111 1111" in finds
        (find,) = rows[-1]["spans"]
        assert mime[find["original_start"] : find["original_end"]].strip() == coded


def test_a_large_document_runs_in_windows_and_keeps_its_surrogates(tenant: Tenant) -> None:
    table = [{"mail": MAIL, "n": number, "other": f"person{number}@acme-corp.com"} for number in range(700)]
    answer = ask(
        tenant,
        {"text": json.dumps(table), "format": "json"},
        fill={"mode": "surrogate"},
        mask={"entities": ["EMAIL_ADDRESS"]},
    )
    rows = json.loads(answer.json()["data"][0]["text"])
    assert [row["n"] for row in rows] == list(range(700))
    assert len({row["mail"] for row in rows}) == 1
    assert len({row["other"] for row in rows}) > 650
    assert "acme" not in answer.text


def test_options_of_each_format_apply(tenant: Tenant) -> None:
    options = {
        "json": {"rules": [{"path": "$.a", "action": "keep"}, {"path": "**.b", "type": "PERSON"}]},
        "csv": {"columns": [{"name": "a", "action": "drop"}, {"index": 1, "action": "keep"}], "delimiter": "comma"},
        "html": {"comments": "drop"},
        "email": {"attachments": "pass"},
    }
    texts = {
        "json": f'{{"a": "{MAIL}", "x": {{"b": 5}}}}',
        "csv": f"a,b\n1,{MAIL}\n",
        "html": "<p>a</p><!-- b -->",
        "email": "Subject: a\nContent-Type: image/png\n\nAAAA",
    }
    documents = [{"text": text, "format": name, "format_options": options} for name, text in texts.items()]
    rows = [row["text"] for row in ask(tenant, *documents).json()["data"]]
    assert rows == [
        f'{{"a": "{MAIL}", "x": {{"b": "[PERSON]"}}}}', f'a,b\n"",{MAIL}\n', "<p>a</p><!---->", texts["email"],
    ]  # fmt: skip


def test_a_document_or_option_that_cannot_be_used_is_named_and_not_repeated(tenant: Tenant) -> None:
    def by_rule(**rule: str) -> dict[str, Any]:
        return {"text": "1", "format": "json", "format_options": {"json": {"rules": [rule]}}}

    def by_column(**column: Any) -> dict[str, Any]:
        return {"text": "a\nb", "format": "csv", "format_options": {"csv": {"columns": [column]}}}

    for document, field in [
        ({"text": f'{{"a": "{MAIL}"', "format": "json"}, "documents.1.text"),
        ({"text": f'a,"{MAIL}', "format": "csv"}, "documents.1.text"),
        ({"text": f"{MAIL} is no header", "format": "email"}, "documents.1.text"),
        ({"text": "a", "format": "acme"}, "documents.1.format"),
        ({"text": "a", "format_options": {}}, "documents.1.format_options"),
        (by_rule(path="acme..b"), "documents.1.format_options"),
        (by_rule(path="a", type="ACME"), "documents.1.format_options"),
        (by_column(name="acme"), "documents.1.format_options.csv.columns"),
        (by_column(index=99), "documents.1.format_options.csv.columns"),
        (by_column(action="drop"), "documents.1.format_options.csv.columns.0"),
    ]:
        refused(ask(tenant, {"text": "A text."}, document), field=field)


def test_fills_of_plain_text_are_refused_and_not_charged(tenant: Tenant) -> None:
    for mode in ("metric_dp", "dp"):
        answer = ask(tenant, {"text": DOCUMENTS["json"], "format": "json"}, fill={"mode": mode, "epsilon": 5.0})
        assert answer.status_code == 422
        assert tenant.committed("token") == 0.0


def test_a_document_beyond_the_limits_is_refused(tenant: Tenant) -> None:
    parts = "Content-Type: multipart/mixed; boundary=b\n\n" + "--b\n\nacme\n" * 100 + "--b--\n"
    for name, text in (("json", json.dumps(["a"] * 200_001)), ("json", "[" * 101 + "]" * 101), ("email", parts)):
        refused(ask(tenant, {"text": text, "format": name}), field="documents.0.text")


def test_an_enforced_policy_admits_formats_and_no_option_that_keeps_values(enforcing: Gateway) -> None:
    bound = enforcing.tenant("bound")
    keep = {"json": {"rules": [{"path": "a", "action": "keep"}]}}
    mask = {"json": {"rules": [{"path": "a", "type": "PERSON"}]}}
    text = '{"a": "Bo"}'
    assert ask(bound, {"text": text, "format": "json", "format_options": keep}).json()["code"] == "policy-enforced"
    row = ask(bound, {"text": text, "format": "json", "format_options": mask}).json()["data"][0]
    assert row["text"] == '{"a": "[PERSON]"}'


def test_a_stream_takes_formats_and_a_bad_document_is_the_problem_of_its_line(tenant: Tenant) -> None:
    lines = [{"text": DOCUMENTS["json"], "format": "json"}, {"text": "{", "format": "json"}, {"text": MAIL}]
    first, second, third, summary = map(json.loads, tenant.sanitize_lines(*lines).text.splitlines())
    assert first["text"] == EXPECTED["json"]
    assert second["problem"]["code"] == "invalid-input"
    assert third["text"] == "[EMAIL_ADDRESS]"
    assert summary["summary"]["released"] == 2
