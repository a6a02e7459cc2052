"""`/v1` by the unmodified `openai` SDK, over HTTP: what it gets, what it costs, what it raises."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import openai
import pytest
from gateway_kit import DOCUMENT, Gateway, Tenant
from stub_kit import Request, StubServer, body_of, headers_of
from stub_kit import answer as write_answer
from wait_kit import until

from service.config.settings import Settings, SettingsRefused
from service.openai.presets import load_presets

SHIPPED = "minilm-sentdp-eps10"
SECRET = "zq-secret-9137"


class Client(openai.OpenAI):
    """The SDK; `sent` counts its HTTP requests, retries included."""

    def __init__(self, gateway: Gateway, key: str) -> None:
        self.sent = 0
        http = httpx2.Client(event_hooks={"request": [self._count]})
        super().__init__(base_url=f"{gateway.url}/v1", api_key=key, max_retries=2, http_client=http)

    def _count(self, _: httpx2.Request) -> None:
        self.sent += 1

    def embed(self, text: Any = DOCUMENT, *, model: str = SHIPPED, **fields: Any) -> Any:
        return self.embeddings.create(model=model, input=text, **fields)


@pytest.fixture
def client(real_gateway: Gateway, real_tenant: Tenant) -> Iterator[Client]:
    with Client(real_gateway, real_tenant.key) as client:
        yield client


def refusal(error: openai.APIStatusError) -> dict[str, Any]:
    """OpenAI's error object; every refusal has its four fields."""
    assert isinstance(error.body, dict)
    assert {"message", "type", "param", "code"} <= set(error.body)
    assert error.response.headers["content-type"] == "application/json"
    assert set(error.response.json()) == {"error"}
    return error.body


def test_a_text_and_a_list_of_texts(client: Client, real_tenant: Tenant) -> None:
    one = client.embed()
    assert one.object == "list"
    assert one.model == SHIPPED
    assert one.data[0].object == "embedding"
    assert len(one.data[0].embedding) == 384
    assert all(isinstance(value, float) for value in one.data[0].embedding), "the SDK's base64, decoded"
    assert (one.usage.prompt_tokens, one.usage.total_tokens) == (0, 0)
    assert one.privacy["guarantee"] == "pure-dp"
    assert one.privacy["epsilon"] == 10.0
    assert one.budget["committed"]["epsilon"] == 10.0

    two = client.embed([DOCUMENT, "Alone."], encoding_format="float", dimensions=384)
    assert [row.index for row in two.data] == [0, 1]
    assert np.isfinite([row.embedding for row in two.data]).all()
    assert real_tenant.committed() == 30.0


def test_the_presets_are_the_models(client: Client) -> None:
    listed = client.models.list().data
    assert [model.id for model in listed] == [SHIPPED, "reviews", "words", "opinions", "text-embedding-3-small"]
    assert listed[0].preset == {
        "endpoint": "sentdp", "mechanism": "sentence_codes", "epsilon": 10.0, "domain": "general",
        "segmentation": "sentences", "window_words": 12, "subject": "user",
    }  # fmt: skip
    assert client.models.retrieve("reviews") == listed[1]
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve(SECRET)
    assert refusal(caught.value)["code"] == "unknown-model"
    assert SECRET not in caught.value.response.text


def test_an_operators_preset_fixes_mechanism_and_price(client: Client, real_tenant: Tenant) -> None:
    answer = client.embed([DOCUMENT, DOCUMENT], model="text-embedding-3-small", user="whoever")
    assert answer.privacy["mechanism"] == "document_selection"
    assert answer.privacy["unit"] == "document"
    assert real_tenant.committed() == 25.0


def test_a_preset_by_windows_of_words(client: Client, real_tenant: Tenant) -> None:
    answer = client.embed(DOCUMENT, model="words")
    assert answer.privacy["units"] == ["token"]
    assert answer.privacy["window_words"] == 12
    assert answer.data[0].windows == -(-len(DOCUMENT.split()) // 12)
    assert (real_tenant.committed("token"), real_tenant.committed("sentence")) == (10.0, 0.0)


def test_a_preset_of_private_vectors(client: Client, real_tenant: Tenant) -> None:
    one = client.embed("a short query", model="opinions")

    assert len(one.data[0].embedding) == 384
    assert np.isfinite(one.data[0].embedding).all()
    assert one.model == "opinions"
    assert one.privacy["guarantee"] == "pure-dp"
    assert one.privacy["mechanism"] == "codebook"
    assert one.privacy["epsilon"] == 8.0
    assert (one.usage.prompt_tokens, one.usage.total_tokens) == (0, 0)
    assert real_tenant.committed() == 8.0
    two = client.embed(["one", "two"], model="opinions", dimensions=384, encoding_format="float")
    assert [row.index for row in two.data] == [0, 1]
    assert real_tenant.committed() == 24.0

    with pytest.raises(openai.BadRequestError, match="384") as caught:
        client.embed(model="opinions", dimensions=64)
    assert refusal(caught.value)["param"] == "dimensions"
    for text in ("", [SECRET, " "], [1, 2]):
        with pytest.raises(openai.BadRequestError) as caught:
            client.embed(text, model="opinions")
        assert refusal(caught.value)["param"] == "input"
        assert SECRET not in caught.value.response.text
    assert real_tenant.committed() == 24.0


def test_the_user_is_the_subject_as_the_preset_says(real_gateway: Gateway, real_tenant: Tenant) -> None:
    people = real_gateway.tenant(subject_epsilon=20)
    with Client(real_gateway, people.key) as client:
        assert client.embed(user="ann").budget["remaining"]["epsilon"] == 10.0
        assert client.embed(user="ann", model="reviews").budget["remaining"]["epsilon"] == 6.0
        assert client.embed(user="bob").budget["remaining"]["epsilon"] == 10.0
        for fields in ({}, {"model": "reviews"}, {"model": "text-embedding-3-small", "user": "ann"}):
            with pytest.raises(openai.BadRequestError) as caught:
                client.embed(**fields)
            assert refusal(caught.value)["param"] == "user"
    with Client(real_gateway, real_tenant.key) as client:
        with pytest.raises(openai.BadRequestError) as caught:
            client.embed(user=SECRET)
        assert refusal(caught.value)["code"] == "subject-not-allowed"
        assert SECRET not in caught.value.response.text
    assert real_tenant.committed() == 0.0


def test_a_call_of_openais_own_size_is_one_release_and_others_have_turns(
    real_gateway: Gateway, real_tenant: Tenant
) -> None:
    tenant = real_gateway.tenant(epsilon=30_000)
    with Client(real_gateway, tenant.key) as client, ThreadPoolExecutor(1) as pool:
        large = pool.submit(client.embed, ["The room was clean. The staff was kind."] * 2048)
        until(lambda: tenant.account()["reserved"]["epsilon"] == 20_480, "the large call is not in work")
        assert real_tenant.http.post("/v1/embeddings", json={"model": SHIPPED, "input": DOCUMENT}).status_code == 200
        assert not large.done()
        answer = large.result()
    assert [row.index for row in answer.data] == list(range(2048))
    assert client.sent == 1
    assert tenant.committed() == 20_480


class CuttingProxy(StubServer):
    """Passes requests on to a gateway, and closes the connection in the place of the first answers."""

    def __init__(self, gateway: Gateway, *, cuts: int) -> None:
        self.url, self.cuts = gateway.url, cuts
        super().__init__()

    def serve(self, request: Request) -> None:
        body = body_of(request)
        headers = {name: value for name, value in headers_of(request).items() if name not in ("host", "connection")}
        answered = httpx2.post(self.url + request.path, content=body, headers=headers, timeout=300)
        if self.cuts:
            self.cuts -= 1
            request.close_connection = True
            return
        shown = {"content-type": "application/json"}
        write_answer(request, answered.content, status=answered.status_code, headers=shown)


def test_an_answer_that_was_lost_is_delivered_to_the_retry_and_paid_once(
    real_gateway: Gateway, real_tenant: Tenant
) -> None:
    with (
        CuttingProxy(real_gateway, cuts=2) as proxy,
        openai.OpenAI(base_url=f"{proxy.origin}/v1", api_key=real_tenant.key) as client,
    ):
        found = client.embeddings.create(model=SHIPPED, input=[DOCUMENT] * 3)
    assert len(found.data) == 3
    assert proxy.cuts == 0
    assert real_tenant.committed() == 30.0


def test_documents_with_a_short_time_out_are_paid_once(real_gateway: Gateway, real_tenant: Tenant) -> None:
    documents = [f"{DOCUMENT} Number {number} was late." * 8 for number in range(60)]
    url = f"{real_gateway.url}/v1"
    with openai.OpenAI(base_url=url, api_key=real_tenant.key, max_retries=20, timeout=0.5) as client:
        assert len(client.embeddings.create(model=SHIPPED, input=documents).data) == 60
    assert real_tenant.committed() == 600.0


BAD: list[tuple[dict[str, Any], str | None, str]] = [
    ({"input": [1, 2, 3]}, "input", "send text"), ({"input": [[1, 2], [3]]}, "input", "ctx_length=False"),
    ({"input": ""}, "input", ""), ({"input": []}, "input", ""), ({"input": [SECRET, " "]}, "input", "input.1: "),
    ({"input": ["a", SECRET * 100_000]}, "input", "input.1: at most"), ({"input": ["a"] * 100_000}, "input", "2048"),
    ({"input": [SECRET, 7]}, "input", ""), ({"input": None}, "input", ""),
    ({"dimensions": 256}, "dimensions", "384"), ({"dimensions": "384"}, "dimensions", ""),
    ({"encoding_format": SECRET}, "encoding_format", ""), ({"extra_body": {SECRET: SECRET}}, None, ""),
]  # fmt: skip


def test_a_bad_request_is_refused_uncharged_and_not_repeated(client: Client, real_tenant: Tenant) -> None:
    for number, (fields, param, named) in enumerate(BAD, 1):
        with pytest.raises(openai.BadRequestError, match=named or None) as caught:
            client.embeddings.create(**{"model": SHIPPED, "input": DOCUMENT} | fields)
        said = refusal(caught.value)
        assert (said["param"], said["type"], said["code"]) == (param, "invalid_request_error", "invalid-input")
        assert SECRET not in caught.value.response.text
        assert client.sent == number
    assert real_tenant.committed() == 0.0


def test_a_wrong_key_and_the_operators_key(real_gateway: Gateway) -> None:
    with Client(real_gateway, SECRET) as client:
        for call in (client.embed, client.models.list):
            with pytest.raises(openai.AuthenticationError) as caught:
                call()
            assert refusal(caught.value)["code"] == "unauthorized"
            assert caught.value.response.headers["www-authenticate"] == "Bearer"
        assert client.sent == 2
    with Client(real_gateway, real_gateway.admin.headers["Authorization"].split()[1]) as client:
        with pytest.raises(openai.PermissionDeniedError) as caught:
            client.embed()
        assert refusal(caught.value)["code"] == "wrong-scope"


def test_an_exhausted_budget_is_said_once(real_gateway: Gateway) -> None:
    tenant = real_gateway.tenant(epsilon=25)
    with Client(real_gateway, tenant.key) as client:
        client.embed([DOCUMENT, DOCUMENT])
        with pytest.raises(openai.PermissionDeniedError) as caught:
            client.embed()
        assert client.sent == 2
    said = refusal(caught.value)
    assert said["code"] == "budget-exhausted"
    assert said["type"] == "permission_error"
    assert said["requested"] == {"epsilon": 10.0, "delta": 0.0}
    assert said["remaining"] == {"epsilon": 5.0, "delta": 0.0}


def test_every_error_under_v1_has_openais_shape(real_gateway: Gateway, real_tenant: Tenant) -> None:
    post, json = real_tenant.http.post, {"Content-Type": "application/json"}
    for answer, status, code in (
        (post("/v1/embeddings", content=b"{", headers=json), 400, "malformed"),
        (post("/v1/embeddings", content=b"[]", headers=json), 400, "invalid-input"),
        (post("/v1/embeddings", content=b"x" * 9_000_000, headers=json), 413, "body-too-large"),
        (post("/v1/embeddings", content=b"{}", headers={"Content-Type": "text/plain"}), 415, "unsupported-media-type"),
        (real_tenant.http.get("/v1/embeddings"), 405, "method-not-allowed"),
        (post(f"/v1/{SECRET}", content=b"{}", headers=json), 404, "not-found"),
    ):
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/json"
        assert set(answer.json()) == {"error"}
        assert answer.json()["error"]["code"] == code
        assert SECRET not in answer.text


SENTDP = '[presets.a]\nendpoint = "sentdp"\nmechanism = "sentence_codes"\n'
VECTOR = '[presets.a]\nendpoint = "vector"\nmechanism = "privemb"\nepsilon = 1\n'
MISSPELT = SENTDP + 'epsilon = 1\nsubjekt = "none"\n'
WRONG_FILES = [
    ("[presets.a\n", "presets.toml"),
    (SENTDP.replace("sentence_codes", "magic") + "epsilon = 1\n", "presets.a.sentdp.mechanism"),
    (SENTDP, "presets.a.sentdp.epsilon"),
    (SENTDP + "epsilon = 1001\n", "EPSILON_MAX"),
    (
        SENTDP.replace("sentence_codes", "deep_candidate") + 'epsilon = 1\ndomain = "auto"\n',
        "preset a: the domain auto",
    ),
    ('[presets.a]\nendpoint = "sanitize"\nepsilon = 1\n', "presets.a"),
    (VECTOR + "dimension = 385\n", "preset a: dimension"),
    (VECTOR + "delta = 1e-6\n", "preset a: delta"),
    (MISSPELT, "subjekt"),
]


def test_a_wrong_presets_file_is_refused_with_the_place_that_is_wrong(tmp_path: Path) -> None:
    for content, named in WRONG_FILES:
        with pytest.raises(SettingsRefused, match=named):
            load_presets(Settings(presets_file=written(tmp_path, content)))


def test_a_file_replaces_the_shipped_preset_in_its_place(tmp_path: Path) -> None:
    other = '[presets.a]\nendpoint = "sentdp"\nmechanism = "clipped_cosine"\nepsilon = 1\n'
    path = written(tmp_path, other + other.replace("[presets.a]", f"[presets.{SHIPPED}]"))
    presets = load_presets(Settings(presets_file=path))
    assert list(presets) == [SHIPPED, "a"]
    assert presets[SHIPPED].epsilon == 1


def written(folder: Path, content: str) -> Path:
    path = folder / "presets.toml"
    path.write_text(content)
    return path
