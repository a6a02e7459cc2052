"""An endpoint as a filler: what is sent to it, what may come back, and what keeps a fill from an answer.

The endpoint is a real server on this machine that says what a test tells it to.
"""

import contextlib
import json
import pickle
import time
from collections.abc import Iterator

import pytest
from endpoint_kit import MODEL, ChatServer, chat

from core.errors import InfillFailed
from core.text.model_fills import Blank
from core.text.policy import MaskPolicy, SanitizeTask
from gpu_workers.engine.handler import run_batch
from gpu_workers.handlers.options import WorkerOptions
from gpu_workers.handlers.sanitiser import Sanitiser
from gpu_workers.models import infill_sources
from gpu_workers.models.infill_sources import RemoteInfill, infill_model
from gpu_workers.models.sources import Endpoint

FEW = MaskPolicy(techniques=("vocabulary",), vocabulary_size=20_000)
KEY = "sk-of-the-operator"
BLANK = Blank("He met ", (" near ", "."))


@pytest.fixture(scope="module")
def server() -> Iterator[ChatServer]:
    running = ChatServer()
    yield running
    running.stop()


@pytest.fixture
def endpoint(server: ChatServer) -> Endpoint:
    server.reset()
    return Endpoint(server.url, MODEL, KEY, timeout_s=60.0)


@pytest.fixture
def infill(endpoint: Endpoint) -> RemoteInfill:
    return infill_model(endpoint, device="cpu")


def failure(infill: RemoteInfill, *, count: int = 1) -> InfillFailed:
    with pytest.raises(InfillFailed) as caught:
        infill.ranked([BLANK], count=count)
    assert caught.value.detail == InfillFailed.title
    return caught.value


@pytest.mark.parametrize("said", ["parcel", " parcel\n", '"parcel".', "**parcel**"])
def test_one_word_is_requested_and_taken(server: ChatServer, infill: RemoteInfill, said: str) -> None:
    server.say(chat(said))
    assert infill.ranked([BLANK], count=1) == [["parcel"]]
    (request,) = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    body = json.loads(request.body)
    assert (body["model"], body["temperature"]) == (MODEL, 0)
    assert body["max_tokens"] <= 16
    (turn,) = body["messages"]
    assert turn["content"].endswith("Text:\nHe met [MASK] near [...].")


def test_what_is_no_single_word_fails_the_fill(server: ChatServer, infill: RemoteInfill) -> None:
    for said in [
        "", "two words", "well-known", "R2D2", "x" * 33, "I'm sorry, but I cannot help with that.",
        "Predict the one word that stands at [MASK] in the text below", "He met parcel near [...].", "<script>",
    ]:  # fmt: skip
        for count in [1, 5]:
            server.say(chat(said, tokens={"I": -0.1, "the": -0.2}))
            assert failure(infill, count=count).reason == "no-word"


@pytest.mark.parametrize("said", ["1987", " 1987.\n", "**1987**"])
def test_a_number_is_requested_and_taken(server: ChatServer, infill: RemoteInfill, said: str) -> None:
    server.say(chat(said, tokens={"19": -0.1, "the": -0.2}))
    assert infill.ranked([Blank("He met ", (" near ", "."), number=True)], count=5) == [["1987"]]
    assert "number" in json.loads(server.requests[0].body)["messages"][0]["content"].partition("Text:")[0]


def test_what_is_no_number_fails_the_place_of_one(server: ChatServer, infill: RemoteInfill) -> None:
    for said in ["parcel", "", "1 2", "R2D2", "-5", "²", "9" * 33]:
        server.say(chat(said, tokens={"19": -0.1}))
        with pytest.raises(InfillFailed):
            infill.ranked([Blank("He met ", ("",), number=True)], count=5)


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (500, b"the parcel broke", "endpoint-status"), (429, b"{}", "endpoint-status"),
        (401, b"{}", "endpoint-status"), (302, b"", "endpoint-status"), (200, b"parcel", "bad-answer"),
        (200, b"\xff\xfe", "bad-answer"), (200, b"[" * 100_000, "bad-answer"), (200, b"[]", "bad-answer"),
        (200, b'{"choices": {"message": 1}}', "bad-answer"),
        (200, b'{"choices": [{"message": {"content": null}}]}', "bad-answer"),
        (200, b'{"choices": [{"text": "parcel"}]}', "bad-answer"), (200, b'{"choices": []}', "no-word"),
        (200, b" " * (infill_sources.ANSWER_BYTES_MAX + 1), "bad-answer"),
    ],
)  # fmt: skip
def test_a_broken_answer_fails_the_fill(
    server: ChatServer, infill: RemoteInfill, status: int, body: bytes, reason: str
) -> None:
    server.say(body, status=status)
    assert failure(infill).reason == reason
    assert len(server.requests) == 1, "neither again nor where a redirect leads"
    server.say(chat("parcel"))
    assert infill.ranked([BLANK], count=1) == [["parcel"]], "the next request is sent as before"


def test_samples_come_first_by_how_often_and_then_known_alternatives(server: ChatServer, infill: RemoteInfill) -> None:
    tokens = {" letter": -0.2, " Zworyk": -0.1, "house": -0.1, ".": -0.3, "parcel": -0.4}
    server.say(chat("parcel", "box", "box", "no word", tokens=tokens))
    assert infill.ranked([BLANK], count=10) == [["box", "parcel", "house", "letter"]]
    assert infill.ranked([BLANK], count=2) == [["box", "parcel"]]
    first, second = (json.loads(request.body) for request in server.requests)
    assert (first["n"], first["top_logprobs"], first["temperature"]) == (10, 20, 1)
    assert second["n"] == 2
    server.say(chat("parcel", "box"))
    assert infill.ranked([BLANK], count=200) == [["parcel", "box"]], "an endpoint without alternatives"
    assert json.loads(server.requests[-1].body)["n"] == infill_sources.SAMPLES_MAX


def test_answers_keep_the_order_of_their_blanks(server: ChatServer, infill: RemoteInfill) -> None:
    words = ["a" * length for length in range(1, 31)]
    server.answer = lambda body: chat(json.loads(body)["messages"][0]["content"].partition("Text:\n")[2].split()[0])
    assert infill.ranked([Blank(f"{word} ", ("",)) for word in words], count=1) == [[word] for word in words]
    assert server.most_at_once <= infill_sources.REQUESTS_MAX


def test_an_endpoint_that_hangs_is_left_alone_for_a_while(
    server: ChatServer, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    infill = RemoteInfill(Endpoint(endpoint.url, MODEL, timeout_s=1.0))
    server.say(chat("parcel"), delay_s=10.0)
    assert failure(infill).reason == "endpoint-timeout"
    server.say(chat("parcel"))
    assert failure(infill).reason == "endpoint-timeout"
    assert len(server.requests) <= 1, "none where a busy machine did not even send it in time"
    now = time.monotonic()
    for times in range(1, 10):  # a busy machine may take longer for an answer than this client waits
        monkeypatch.setattr(time, "monotonic", lambda later=now + times * infill_sources.COOL_DOWN_S: later)
        with contextlib.suppress(InfillFailed):
            assert infill.ranked([BLANK], count=1) == [["parcel"]]
            return
    pytest.fail("it is left alone for ever")


def test_an_answer_that_drips_is_cut_off(server: ChatServer, endpoint: Endpoint) -> None:
    infill = RemoteInfill(Endpoint(endpoint.url, MODEL, timeout_s=0.5))
    server.say(b" " * 100 + chat("parcel"), drip_s=0.1)
    assert failure(infill).reason == "endpoint-timeout"


def test_an_endpoint_that_does_not_run(endpoint: Endpoint) -> None:
    stopped = ChatServer()
    stopped.stop()
    assert failure(RemoteInfill(Endpoint(stopped.url, MODEL))).reason == "endpoint-unreachable"


def test_masked_strings_and_the_key_are_not_sent(server: ChatServer, endpoint: Endpoint) -> None:
    sanitiser = Sanitiser(infill=endpoint, fill_slots_max=50)
    server.say(chat("parcel"))
    facts = sanitiser.warm_up()
    assert facts.fills[-2:] == ("top1", "topk")
    assert facts.as_json()["infill"] == {
        "name": MODEL, "modes": ["top1", "topk"], "candidates": None, "candidates_fingerprint": None,
    }  # fmt: skip
    assert server.requests == [], "nothing is sent before somebody asks"
    one, two = sanitiser.run(
        [
            SanitizeTask("Zworykin met Xylotron near Grubenhagen.", FEW, "top1"),
            SanitizeTask("Why Zworykin, why?", FEW, "topk", k=3),
        ]
    )
    assert (one.text, two.text) == ("parcel met parcel near parcel.", "Why parcel, why?")
    assert len(server.requests) == 4
    for request in server.requests:
        sent = request.body + str({k: v for k, v in request.headers.items() if k != "authorization"}).encode()
        for secret in ("zworykin", "xylotron", "grubenhagen", KEY):
            assert secret.encode() not in sent.lower()
    options = WorkerOptions(infill=endpoint)
    assert KEY not in repr(options) + repr(endpoint) + repr(facts)
    assert pickle.loads(pickle.dumps(options)).infill.api_key == KEY, "it travels to the worker all the same"


def test_one_document_without_a_word_fails_alone(server: ChatServer, endpoint: Endpoint) -> None:
    sanitiser = Sanitiser(infill=endpoint, fill_slots_max=50)
    server.answer = lambda body: chat("no idea" if b"why" in body else "parcel")
    tasks = [SanitizeTask("Why Zworykin, why?", FEW, "top1"), SanitizeTask("He met Zworykin.", FEW, "top1")]
    failed, fine = run_batch(sanitiser, tasks)
    assert isinstance(failed, InfillFailed)
    assert fine.text == "He met parcel."
    assert len(server.requests) <= 2 * len(tasks), "no blank is sent more than twice"


def test_endpoints_that_cannot_be_used() -> None:
    for url, fields in [
        ("http://models.example.org/v1", {}), ("http://8.8.8.8/v1", {}), ("http://0.0.0.0/v1", {}),
        ("http://localhost.example.org/v1", {}), ("ftp://localhost/v1", {}), ("file:///v1", {}), ("https://", {}),
        ("https://user:word@host/v1", {}), ("https://host/v1?key=1", {}), ("https://host:x/v1", {}),
        ("https://host/v1", {"model": ""}),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=r".") as caught:
            Endpoint(**{"url": url, "model": MODEL} | fields)
        assert "example.org" not in str(caught.value)
        assert "word" not in str(caught.value)


def test_endpoints_that_can() -> None:
    for url in ["https://models.example.org/v1", "http://localhost:8000/v1", "http://[::1]/v1", "http://10.0.0.7/v1"]:
        assert Endpoint(url, MODEL).url == url
        assert Endpoint("http://vllm:8000/v1", MODEL, plain_http=True).plain_http
