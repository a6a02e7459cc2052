"""`POST /sanitize` where an endpoint of the operator's fills: down at first, then up; and settings that are refused."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from command_kit import refused_settings
from endpoint_kit import MODEL, ChatServer, chat
from gateway_kit import Gateway, children, free_port

KEY = "sk-0f-the-0perator"
PORT = free_port()
TEXT = "Dr Zworykin of Xylotron met the buyers on Monday, room 4711."
MASK = {"techniques": ["vocabulary", "entity"], "vocabulary_size": 5000}
HIDDEN = ("Zworykin", "Xylotron", "4711")


@pytest.fixture(scope="module")
def over_there(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder: Path = tmp_path_factory.mktemp("endpoint")
    settings = {
        "INFILL": f"http://127.0.0.1:{PORT}/v1", "INFILL_MODEL": MODEL, "INFILL_API_KEY": KEY,
        "INFILL_TIMEOUT_S": "28",
    }  # fmt: skip
    running = Gateway(
        folder / "data", {f"PRIVACY_GATEWAY_{name}": value for name, value in settings.items()}, forked=False
    )
    yield running
    running.stop()


def others_are_served_while_the_model_does_not_answer(gateway: Gateway, server: ChatServer) -> None:
    body = {"documents": [{"text": TEXT}], "mask": MASK, "fill": {"mode": "top1"}}
    others, answered = gateway.tenant(), threading.Event()
    server.reset()
    server.answer = lambda _: chat("parcel", "17") if answered.wait(25) else chat()
    with ThreadPoolExecutor() as pool:
        stuck = pool.submit(gateway.tenant().http.post, "/sanitize", json=body)
        try:
            while not server.requests:
                time.sleep(0.02)
            masked = others.http.post("/sanitize", json=body | {"fill": {"mode": "class_marker"}})
            ready = gateway.client(None).get("/readyz")
            assert not stuck.done()
        finally:
            answered.set()
        filled = stuck.result()
    assert masked.status_code == ready.status_code == 200
    assert "[PERSON]" in masked.json()["data"][0]["text"]
    assert filled.status_code == 200, filled.text
    assert "parcel" in filled.json()["data"][0]["text"]


@pytest.mark.slow("outage")
def test_a_gateway_whose_endpoint_is_down_masks_and_fills_as_soon_as_it_is_up(over_there: Gateway) -> None:
    tenant = over_there.tenant()

    def sanitize(**fill: Any) -> Any:
        return tenant.http.post("/sanitize", json={"documents": [{"text": TEXT}], "mask": MASK, "fill": fill})

    down = sanitize(mode="top1")
    assert down.status_code == 502, down.text
    assert (down.json()["code"], down.json()["reason"]) == ("infill-failed", "endpoint-unreachable")
    assert not any(word in down.text for word in HIDDEN)
    assert sanitize(mode="marker").status_code == 200, "patterns need no model"
    assert over_there.client(None).get("/readyz").status_code == 200

    server = ChatServer(PORT)
    try:
        server.say(chat("parcel", "box", "17"))
        filled = sanitize(mode="top1")
        assert filled.status_code == 200, filled.text
        assert filled.json()["privacy"]["guarantee"] == "none"
        text = filled.json()["data"][0]["text"]
        assert "parcel" in text
        drawn = sanitize(mode="topk").json()["data"][0]["text"]
        assert {"parcel", "box"} & set(drawn.replace(",", " ").replace(".", " ").split())
        for hidden in HIDDEN:
            assert hidden not in text + drawn
            assert not any(hidden.encode() in request.body for request in server.requests)
        assert {request.headers["authorization"] for request in server.requests} == {f"Bearer {KEY}"}
        others_are_served_while_the_model_does_not_answer(over_there, server)
    finally:
        server.stop()

    refused = sanitize(mode="dp", epsilon=1.0)
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == "fill.mode"
    models = tenant.http.get("/models").text
    assert MODEL in models
    workers = children(over_there.process.pid)
    environments = [Path(f"/proc/{pid}/environ").read_bytes().decode() for pid in workers]
    for seen in (models, over_there.log_path.read_text(), *workers.values(), *environments):
        assert KEY not in seen


def test_an_endpoint_that_cannot_be_used_keeps_the_gateway_from_starting(tmp_path: Path) -> None:
    for infill, model in (
        ("https://host.example.org/v1", ""), ("http://host.example.org/v1", MODEL), ("https://me:pw@host/v1", MODEL),
    ):  # fmt: skip
        settings = {"PRIVACY_GATEWAY_INFILL": infill, "PRIVACY_GATEWAY_INFILL_MODEL": model}
        said = refused_settings(tmp_path / "data", settings)
        assert "endpoint" in said or "https" in said
        assert "host.example.org" not in said
        assert "me:pw" not in said
