"""The client against a gateway: results, parts, pages, caps, the cache, and what errors say."""

import asyncio
import base64
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from client_kit import Recorder, async_client_of, client_of, extras
from gateway_kit import DOCUMENT, Tenant
from inprocess_kit import Gateway as InProcessGateway

from core.state.vault import Vault
from privacy_gateway_client import (
    AnswerInvalid,
    BudgetCapReached,
    BudgetExhausted,
    Cache,
    CacheUnusable,
    Gateway,
    GatewayError,
    InvalidRequest,
    Limits,
    Rejected,
    Unauthorized,
    new_cache_key,
)
from privacy_gateway_client.errors import NotFound, RoleMissing

SECRET = "Maria Keller pays 4111 1111 1111 1111"


@pytest.fixture
def client(gateway: InProcessGateway, tenant: Tenant) -> Iterator[Gateway]:
    with client_of(gateway, tenant) as running:
        yield running


def test_documents_are_embedded(client: Gateway, tenant: Tenant) -> None:
    result = client.embed_documents([DOCUMENT, {"id": "b", "sentences": ["One.", "Two."]}], epsilon=3)
    assert result.vectors.shape == (2, result.dimension) == (2, 384)
    assert result.vectors.dtype == np.float32
    assert [row.id for row in result.rows] == [None, "b"]
    assert result.privacy.guarantee == "pure-dp"
    assert result.budget.remaining.epsilon == 1000 - 6
    assert tenant.committed() == 6
    assert not extras(result.rows) | extras(result.releases[0].privacy) | extras(result.budget)


def test_an_input_beyond_the_limits_becomes_several_requests_in_order(
    gateway: InProcessGateway, tenant: Tenant
) -> None:
    sent = Recorder(gateway.transport)
    documents = [{"id": str(number), "text": DOCUMENT} for number in range(7)]
    with client_of(gateway, tenant, transport=sent, limits=Limits(documents=3)) as client:
        result = client.embed_documents(documents, epsilon=1)
    assert [row.id for row in result.rows] == [str(number) for number in range(7)]
    assert [release.inputs for release in result.releases] == [(0, 1, 2), (3, 4, 5), (6,)]
    assert len({request.headers["Idempotency-Key"] for request in sent.to("/embed/sentdp")}) == 3
    assert tenant.committed() == 7


def test_a_part_that_the_gateway_finds_too_large_is_halved(gateway: InProcessGateway, tenant: Tenant) -> None:
    with client_of(gateway, tenant, limits=Limits(documents=1000)) as client:
        result = client.sanitize(["One."] * 257, fill={"mode": "metric_dp", "epsilon": 0.1})
    assert [len(release.inputs) for release in result.releases] == [128, 129]
    assert len(result.texts) == 257


def test_what_was_paid_is_kept_when_the_budget_ends(gateway: InProcessGateway) -> None:
    tenant = gateway.tenant(epsilon=5)
    limits = Limits(documents=2, concurrency=1)
    with client_of(gateway, tenant, limits=limits) as client, pytest.raises(BudgetExhausted) as failure:
        client.embed_documents([SECRET] * 8, epsilon=1, idempotency_key="of-the-caller")  # compares no budget first
    assert failure.value.requested.epsilon == 2
    assert failure.value.remaining.epsilon == 1
    assert failure.value.account == f"{tenant.name}/sentence"
    assert failure.value.partial.indices == [0, 1, 2, 3]
    assert failure.value.partial.result.vectors.shape == (4, 384)
    assert tenant.committed() == 4


def test_a_budget_that_is_too_small_for_all_parts_is_not_spent(gateway: InProcessGateway) -> None:
    tenant = gateway.tenant(epsilon=10, subject_epsilon=3)
    documents = [{"text": DOCUMENT, "subject": f"s{number % 2}"} for number in range(8)]
    limits = Limits(documents=2, vectors=2)
    with client_of(gateway, tenant, limits=limits) as client:
        for refused in (
            lambda: client.embed_documents(documents, epsilon=2),
            lambda: client.embed_documents([DOCUMENT] * 8, epsilon=1, subject="s0"),
            lambda: client.embed_vectors(np.eye(8), epsilon=1, subject="s0"),
        ):
            with pytest.raises(BudgetExhausted) as failure:
                refused()
            assert failure.value.partial.indices == []
        assert tenant.committed() == 0
        made = client.embed_documents([DOCUMENT] * 8, epsilon=1, subject="s0", as_many_as_fit=True)
        assert [row.index for row in made.rows] == [0, 1, 2]
    assert tenant.committed() == 3


def test_vectors_travel_as_files_and_as_json(client: Gateway, tenant: Tenant) -> None:
    vectors = np.eye(6, dtype=np.float32)
    as_file = client.embed_vectors(vectors, epsilon=2, dimension=3)
    as_json = client.embed_vectors(vectors.tolist(), epsilon=2, dimension=3, as_json=True)
    half = client.embed_vectors(vectors.astype(np.float16), epsilon=2, output_dtype="float16")

    assert as_file.vectors.shape == as_json.vectors.shape == (6, 3)
    assert half.vectors.dtype == np.float16
    assert tenant.committed("vector") == 36
    matrix, stretch = client.models.projection("orthonormal", 6, 3)
    assert matrix.shape == (3, 6)
    assert stretch == 1


def test_vectors_come_in_parts_whose_answers_are_stored(gateway: InProcessGateway, tenant: Tenant) -> None:
    limits = Limits(stored_bytes=(1 << 16) + 4 * 8 * 5)
    with client_of(gateway, tenant, limits=limits) as client:
        result = client.embed_vectors(np.eye(8, dtype=np.float32)[[0, 1, 2, 3, 4, 5, 6]], epsilon=50, dimension=8)

    assert [len(release.inputs) for release in result.releases] == [5, 2]
    assert result.vectors.shape == (7, 8)
    assert all(release.replayed is False for release in result.releases)


def test_texts_are_embedded_and_openai_presets_work(client: Gateway) -> None:
    assert client.embed_texts(["a short text", "another"], epsilon=3).vectors.shape == (2, 384)
    preset = client.models.presets()[0]
    assert client.models.preset(preset["id"]) == preset
    assert len(client.openai_embeddings(preset["id"], [DOCUMENT])["data"]) == 1


def test_text_is_sanitised_and_restored(client: Gateway) -> None:
    result = client.sanitize(["Mail jane@example.org today."], fill={"mode": "surrogate"}, reversible=True)
    assert "jane@" not in result.texts[0]
    assert result.restore_token is not None
    assert client.restore(result.texts, result.restore_token) == ["Mail jane@example.org today."]

    shown = client.sanitize(["Mail jane@example.org today."], return_spans=True)
    assert shown.rows[0].spans[0].type == "EMAIL_ADDRESS"
    assert shown.privacy.guarantee == "none"
    assert not extras(shown.rows)


@pytest.mark.parametrize("fill", [{"mode": "marker"}, {"mode": "metric_dp", "epsilon": 2}], ids=["free", "priced"])
def test_a_stream_has_a_row_or_an_error_for_each_document(
    gateway: InProcessGateway, tenant: Tenant, fill: dict[str, Any]
) -> None:
    documents = ["Mail jane@example.org", " ", "Nothing", "Card 4111 1111 1111 1111", "End"]
    with client_of(gateway, tenant, limits=Limits(stream_documents=2)) as client:
        rows = list(client.sanitize_stream(iter(documents), fill=fill))

    assert [isinstance(row, Rejected) for row in rows] == [False, True, False, False, False]
    assert [row.index for row in rows if not isinstance(row, Rejected)] == [0, 2, 3, 4]
    assert tenant.committed("vector") == (0 if fill["mode"] == "marker" else 8)


def test_lists_are_read_page_by_page(client: Gateway, tenant: Tenant) -> None:
    for _ in range(3):
        client.embed_documents(["One. Two."], epsilon=1)

    account = f"{tenant.name}/sentence"
    entries = list(client.budget.journal(account, limit=2))
    assert [entry["transition"] for entry in entries] == ["open"] + ["reserve", "commit"] * 3
    accounts = list(client.budget.accounts(limit=1))
    assert account in [one.account for one in accounts]
    assert client.budget.account(account).committed.epsilon == 3
    assert list(client.budget.subjects(account)) == []
    assert list(client.jobs.list()) == []
    assert not extras(accounts)


def test_what_a_client_states_is_in_the_journal(gateway: InProcessGateway, tenant: Tenant) -> None:
    with client_of(gateway, tenant, purpose="search index", recipient="Team A") as client:
        client.embed_documents(["One. Two."], epsilon=1)
        entry = list(client.budget.journal(f"{tenant.name}/sentence"))[-1]
    assert (entry["purpose"], entry["recipient"]) == ("search index", "Team A")
    with pytest.raises(ValueError, match="up to 64"):
        client_of(gateway, tenant, purpose="a\nb")


def test_the_budget_says_how_many_requests_fit(client: Gateway, tenant: Tenant) -> None:
    client.embed_documents(["One. Two."], epsilon=10)
    assert client.budget.remaining("sentence_codes", epsilon=3) == 330
    estimate = client.budget.estimate({"documents": [{"text": "One."}], "epsilon": 3})
    assert estimate.fits == 330
    assert not extras(estimate)
    assert client.budget.headroom(f"{tenant.name}/sentence", epsilon=3)["account"] == f"{tenant.name}/sentence"
    assert client.budget.series(step=60)["step_s"] == 60
    with pytest.raises(LookupError):
        client.budget.remaining("no_such", epsilon=3)


def test_the_catalogue(client: Gateway, gateway: InProcessGateway) -> None:
    assert "embed" in [row["role"] for row in client.models.list()["models"]]
    assert "general" in [domain["name"] for domain in client.domains.list()]
    assert "EMAIL_ADDRESS" in [entity["name"] for entity in client.entities()["entities"]]
    assert isinstance(client.policies(), list)
    assert client.health.live()
    client.recognisers.put("tickets", {"entity": "TICKET", "patterns": ["T[0-9]{5}"]})
    assert client.recognisers.get("tickets").patterns == ["T[0-9]{5}"]
    assert [one.name for one in client.recognisers.list(limit=1)] == ["tickets"]
    assert client.recognisers.try_out({"entity": "PROJECT", "deny": ["Orion"]}, "Orion is late")["total"] == 1
    client.recognisers.delete("tickets")
    with pytest.raises(NotFound):
        client.recognisers.get("tickets")
    with pytest.raises(RoleMissing) as refused:
        client.keys.list()
    assert refused.value.role == "admin"


def test_administration(gateway: InProcessGateway) -> None:
    with client_of(gateway, gateway.admin_key) as admin:
        made = admin.admin.create_tenant("clinic-of-the-client", epsilon=10, sentence={"epsilon": 5})
        assert made.key not in repr(made)
        assert "clinic-of-the-client" in [tenant["name"] for tenant in admin.admin.tenants()]
        key = admin.admin.create_key("clinic-of-the-client", roles=["admin", "read"], label="b")
        rotated = admin.admin.rotate_key("clinic-of-the-client", key.key_id, overlap_s=10)
        assert admin.admin.revoke_key("clinic-of-the-client", rotated.key_id).revoked_ms is not None
        keys = admin.admin.keys("clinic-of-the-client")
        assert len(keys) == 3
        assert len(list(admin.admin.budgets("clinic-of-the-client"))) >= 3
        entries = list(admin.admin.audit(limit=2))
        assert "tenant.create" in [entry["action"] for entry in entries]
        assert "gateway_" in admin.health.metrics()
        assert not extras(keys)


def test_a_cap_refuses_before_anything_is_sent(client: Gateway, tenant: Tenant) -> None:
    with client.budget_cap(epsilon=5) as cap:
        client.embed_documents(["One. Two."] * 2, epsilon=2)
        with pytest.raises(BudgetCapReached) as refused:
            client.embed_documents([SECRET], epsilon=1.5)
        client.sanitize([SECRET])  # costs nothing
        assert (cap.spent, cap.remaining) == (4, 1)
        assert (refused.value.requested.epsilon, refused.value.remaining.epsilon) == (1.5, 1)
        client.embed_vectors([[1.0, 0.0]], epsilon=0.5)  # 1 in the worst case
        assert cap.remaining == 0
    client.embed_documents(["One. Two."], epsilon=1)
    assert tenant.committed() == 6


def test_a_cap_gives_back_what_was_not_charged_and_caps_nest(gateway: InProcessGateway) -> None:
    tenant = gateway.tenant(epsilon=2)
    with client_of(gateway, tenant) as client, client.budget_cap(epsilon=10) as outer:
        with client.budget_cap(epsilon=4) as inner:
            with pytest.raises(BudgetExhausted):
                client.embed_documents(["One. Two."], epsilon=3)
            assert inner.spent == outer.spent == 0
            with pytest.raises(BudgetCapReached):
                client.embed_documents(["One. Two."], epsilon=5)
        client.openai_embeddings  # noqa: B018 - outside the inner cap
        assert outer.spent == 0


def test_a_cap_holds_for_the_parts_of_a_call_and_for_its_block_alone(gateway: InProcessGateway, tenant: Tenant) -> None:
    limits = Limits(documents=1, concurrency=4)
    with client_of(gateway, tenant, limits=limits) as client:
        with client.budget_cap(epsilon=3), pytest.raises(BudgetCapReached):
            client.embed_documents(["One. Two."] * 8, epsilon=1)
        assert tenant.committed() <= 3

        with client.budget_cap(epsilon=0):
            other = threading.Thread(target=lambda: client.embed_documents(["One. Two."], epsilon=100))
            other.start()
            other.join()
    assert tenant.committed() >= 100


def test_the_asynchronous_client(gateway: InProcessGateway, tenant: Tenant) -> None:
    async def use() -> None:
        async with async_client_of(gateway, tenant, limits=Limits(documents=2)) as client:
            result = await client.embed_documents(["One. Two."] * 5, epsilon=1)
            assert result.vectors.shape == (5, 384)
            assert len(result.releases) == 3
            rows = [row async for row in client.sanitize_stream(["a", "b", "c"], fill={"mode": "marker"})]
            assert len(rows) == 3
            assert [one.unit async for one in client.budget.accounts(limit=1)]

            async def capped(limit: float) -> str:
                with client.budget_cap(epsilon=limit):
                    await asyncio.sleep(0)
                    try:
                        await client.embed_documents(["One. Two."], epsilon=2)
                    except BudgetCapReached:
                        return "refused"
                    return "released"

            assert await asyncio.gather(capped(1), capped(2)) == ["refused", "released"]

    asyncio.run(use())
    assert tenant.committed() == 7


def test_a_paid_answer_is_not_bought_twice(gateway: InProcessGateway, tenant: Tenant, tmp_path: Path) -> None:
    key = new_cache_key(tmp_path / "cache.key")
    with client_of(gateway, tenant, cache=Cache(tmp_path / "cache", key)) as client:
        first = client.embed_documents([SECRET, DOCUMENT, SECRET], epsilon=3)
        texts = client.sanitize([SECRET], mask={"techniques": ["all"]}, fill={"mode": "metric_dp", "epsilon": 1})
        vectors = client.embed_vectors(np.eye(3), epsilon=2)
    with client_of(gateway, tenant, cache=Cache(tmp_path / "cache", key)) as client:
        again = client.embed_documents([{"id": "x", "text": DOCUMENT}, "A new text. It is short.", SECRET], epsilon=3)
        assert (
            client.sanitize([SECRET], mask={"techniques": ["all"]}, fill={"mode": "metric_dp", "epsilon": 1}).texts
            == texts.texts
        )
        assert (client.embed_vectors(np.eye(3), epsilon=2).vectors == vectors.vectors).all()
        client.embed_documents([DOCUMENT], epsilon=2)  # other parameters are another release

    assert (first.vectors[0] == first.vectors[2]).all()
    assert (again.vectors[[0, 2]] == first.vectors[[1, 0]]).all()
    assert [row.id for row in again.rows] == ["x", None, None]
    assert [release.cached for release in again.releases] == [False, True, True]
    assert tenant.committed() == 3 * 3 + 2 + 3 * 4  # vectors count with their worst case
    assert SECRET.encode() not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
    with pytest.raises(CacheUnusable):
        Cache(tmp_path / "cache", bytes(32))


def test_errors_hold_no_text_of_the_request(gateway: InProcessGateway, tenant: Tenant) -> None:
    def echo(request: httpx.Request) -> httpx.Response:
        return httpx.Response(500, content=request.content, headers={"Content-Type": "text/html"})

    def echo_as_problem(request: httpx.Request) -> httpx.Response:
        members = {"code": SECRET, "title": SECRET, "errors": [{"field": SECRET}]}
        return httpx.Response(422, json=members, headers={"Content-Type": "application/problem+json"})

    def break_off(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadError(SECRET, request=request)

    with client_of(gateway, tenant) as client:
        calls = [
            lambda: client.embed_documents([SECRET], epsilon=5000),
            lambda: client.embed_documents([{"text": SECRET, SECRET: SECRET}], epsilon=1),
            lambda: client.embed_documents([SECRET], epsilon=SECRET),  # type: ignore[arg-type]
            lambda: client.sanitize([SECRET], policy=SECRET),
            lambda: client.embed_vectors([[SECRET]], epsilon=1),
            lambda: client.restore([SECRET], SECRET),
        ]
        for call in calls:
            no_text_in(call)
    for answer in (echo, echo_as_problem, break_off, lambda _: httpx.Response(200, json={"data": SECRET})):
        with client_of(gateway, tenant, transport=Recorder(answer)) as client:
            no_text_in(lambda client=client: client.embed_documents([SECRET], epsilon=1))
            no_text_in(lambda client=client: client.restore([SECRET], "token"))
    with client_of(gateway, "pgw_wrong") as client, pytest.raises(Unauthorized):
        client.policies()


def no_text_in(call: Any) -> None:
    with pytest.raises(GatewayError) as failure:
        call()
    error: BaseException | None = failure.value
    shown = "".join(traceback.format_exception(failure.value)[-1:]) + repr(failure.value) + repr(vars(failure.value))
    while error is not None:
        shown += repr(error) + str(error)
        error = error.__cause__ or error.__context__
    assert "Keller" not in shown
    assert "4111 1111" not in shown  # a random identifier may hold four digits of it


def test_the_entries_of_the_vault_are_listed(client: Gateway, gateway: InProcessGateway, tenant: Tenant) -> None:
    vault = gateway.service.parts[Vault]
    for number in range(3):
        gateway.on_loop(vault.put(tenant.name, f"name {number}", b"content", lifetime_s=60 + number))

    found = list(client.vault.entries(limit=2))
    assert {entry["id"] for entry in found} == {vault.entry_id(tenant.name, f"name {number}") for number in range(3)}
    client.vault.delete(found[0]["id"])
    assert list(client.vault.entries()) == found[1:]


def test_a_name_leads_to_no_other_path() -> None:
    sent: list[httpx.Request] = []
    transport = httpx.MockTransport(lambda request: sent.append(request) or httpx.Response(204))
    with Gateway("http://gateway.example", "key", transport=transport) as client:
        for name in ["../vault", "..", ".", "", "a/../../vault", "a?b", "a#b", "%2e%2e", "a b", "a\\b"]:
            for call in (client.domains.delete, client.vault.delete, client.budget.account, client.jobs.get):
                with pytest.raises(InvalidRequest):
                    call(name)
    assert sent == []


def test_an_invalid_request_names_the_place(client: Gateway) -> None:
    with pytest.raises(Rejected) as failure:
        client.embed_documents([DOCUMENT, {"text": DOCUMENT, "id": 5}], epsilon=1)
    assert failure.value.errors[0].field == "body.documents.1.id"

    with pytest.raises(InvalidRequest):
        client.embed_documents([{"text": DOCUMENT, "embeddings": [[float("nan")]]}], epsilon=1)


def test_an_answer_without_its_members_is_an_error_of_the_client_that_names_them() -> None:
    vector = base64.b64encode(np.zeros(2, dtype="<f4").tobytes()).decode()
    body = {"data": [{"index": 0, "embedding": vector}], "model": "m", "dimension": 2}
    body |= {"privacy": {"guarantee": [SECRET]}, "budget": {}}
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=body))
    with Gateway("http://gateway", "key", transport=transport) as client, pytest.raises(AnswerInvalid) as caught:
        client.embed_documents(["a"], epsilon=1)
    assert "guarantee" in str(caught.value)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
