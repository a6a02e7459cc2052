"""A language model for tests: it answers in each wire format from what it was asked, whole or as a stream."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = Callable[[dict[str, Any]], str]


def last_text(body: dict[str, Any]) -> str:
    """The text of the last message of a request."""
    messages = body.get("messages", body.get("input"))
    content = messages if isinstance(messages, str) else messages[-1]["content"]
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


class ModelServer:
    """Says `reply(body)`, by default what the last message says, and keeps what it was sent. `piece`: characters of a
    delta."""

    def __init__(self, reply: Reply = last_text, *, piece: int = 3) -> None:
        self.reply, self.piece = reply, piece
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.status = 200
        self.response_id = "r1"  # of an answer in the format of OpenAI's Responses
        kit = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                kit._serve(self)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.origin = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self) -> ModelServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def setting(self) -> str:
        """The setting `UPSTREAMS` for this server, in both formats."""
        return json.dumps(
            {
                "stub": {"base_url": f"{self.origin}/v1", "kind": "openai", "models": ["stub-gpt"]},
                "other": {"base_url": self.origin, "kind": "anthropic", "models": ["stub-claude"]},
            }
        )

    @property
    def seen(self) -> str:
        """Everything that the model was sent."""
        return json.dumps(self.bodies, ensure_ascii=False)

    def _serve(self, request: BaseHTTPRequestHandler) -> None:
        body = json.loads(request.rfile.read(int(request.headers["content-length"])))
        self.bodies.append(body)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        said = self.reply(body)
        if self.status != 200:
            _send(request, json.dumps({"error": {"message": said, "type": "invalid_request_error"}}), self.status)
        elif body.get("stream"):
            _send(request, "".join(self._events(request.path, said)), 200, "text/event-stream")
        else:
            _send(request, json.dumps(self._whole(request.path, said, body)), 200)

    def _whole(self, path: str, said: str, body: dict[str, Any]) -> dict[str, Any]:
        whole = _whole(path, said)
        if not path.endswith("/responses"):
            return whole
        echoed = {name: body[name] for name in ("user", "safety_identifier", "instructions") if name in body}
        return whole | {"id": self.response_id} | echoed

    def _events(self, path: str, said: str) -> Iterator[str]:
        return (event.replace('"id": "r1"', f'"id": "{self.response_id}"') for event in _events(path, said, self.piece))


def _send(request: BaseHTTPRequestHandler, text: str, status: int, media_type: str = "application/json") -> None:
    raw = text.encode()
    request.send_response(status)
    request.send_header("content-type", media_type)
    request.send_header("content-length", str(len(raw)))
    request.end_headers()
    request.wfile.write(raw)


def _whole(path: str, said: str) -> dict[str, Any]:
    if path.endswith("/chat/completions"):
        message = {"role": "assistant", "content": said}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return {"id": "c1", "object": "chat.completion", "created": 1, "model": "stub", "choices": [choice]}
    if path.endswith("/responses"):
        return _response(said)
    return _message([{"type": "text", "text": said}], "end_turn")


def _message(content: list[dict[str, Any]], reason: str | None) -> dict[str, Any]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    return {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "model": "stub",
        "content": content,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": usage,
    }


def _response(said: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": said, "annotations": []}
    item = {"id": "i1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    return {
        "id": "r1",
        "object": "response",
        "created_at": 1,
        "model": "stub",
        "status": "completed",
        "output": [item],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def _events(path: str, said: str, piece: int) -> Iterator[str]:
    parts = [said[at : at + piece] for at in range(0, len(said), piece)]
    if path.endswith("/chat/completions"):
        base = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "stub"}
        for part in parts:
            yield _data(base | {"choices": [{"index": 0, "delta": {"content": part}, "finish_reason": None}]})
        yield _data(base | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        yield "data: [DONE]\n\n"
    elif path.endswith("/responses"):
        yield from _response_events(said, parts)
    else:
        yield _event("message_start", {"message": _message([], None)})
        yield _event("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}})
        for part in parts:
            yield _event("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": part}})
        yield _event("content_block_stop", {"index": 0})
        delta = {"stop_reason": "end_turn", "stop_sequence": None}
        yield _event("message_delta", {"delta": delta, "usage": {"output_tokens": 1}})
        yield _event("message_stop", {})


def _response_events(said: str, parts: list[str]) -> Iterator[str]:
    whole = _response(said)
    place = {"item_id": "i1", "output_index": 0, "content_index": 0}
    part = whole["output"][0]["content"][0]
    number = iter(range(10_000))
    yield _event("response.created", {"sequence_number": next(number), "response": whole | {"output": []}})
    item = whole["output"][0] | {"content": [], "status": "in_progress"}
    yield _event("response.output_item.added", {"sequence_number": next(number), "output_index": 0, "item": item})
    empty = part | {"text": ""}
    yield _event("response.content_part.added", place | {"sequence_number": next(number), "part": empty})
    for delta in parts:
        facts = {"sequence_number": next(number), "delta": delta, "logprobs": []}
        yield _event("response.output_text.delta", place | facts)
    done = {"sequence_number": next(number), "text": said, "logprobs": []}
    yield _event("response.output_text.done", place | done)
    yield _event("response.content_part.done", place | {"sequence_number": next(number), "part": part})
    item = whole["output"][0]
    yield _event("response.output_item.done", {"sequence_number": next(number), "output_index": 0, "item": item})
    yield _event("response.completed", {"sequence_number": next(number), "response": whole})


def _data(value: Any) -> str:
    return f"data: {json.dumps(value)}\n\n"


def _event(name: str, members: dict[str, Any]) -> str:
    return f"event: {name}\n{_data({'type': name} | members)}"
