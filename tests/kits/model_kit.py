"""A language model for tests: it answers in each wire format from what it was asked, whole or as a stream."""

import json
import re
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

import httpx
from model_formats_kit import Said, Split, events, whole
from stub_kit import Request, StubServer, answer, body_of, headers_of

from benchmarks.conversations.answers import Heard, heard

Reply = Callable[[dict[str, Any]], str | Said]


def last_text(body: dict[str, Any]) -> str:
    """The text of the last message of a request."""
    messages = body.get("messages", body.get("input"))
    content = messages if isinstance(messages, str) else messages[-1]["content"]
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


def left_in(text: str, originals: Iterable[str]) -> list[str]:
    """The originals that stand in a text as whole words, in upper or lower case: a surrogate such as Marian may hold
    another name in part. The letter of an escape such as `\\n` belongs to no word."""
    before, after = r"(?:(?<![^\W_])|(?<=\\[nrtbf]))", r"(?![^\W_])"
    return [each for each in originals if re.search(before + re.escape(each) + after, text, re.IGNORECASE)]


def heard_in(answer: httpx.Response) -> Heard:
    """What an answer of the gateway says, whole or as a stream."""
    assert answer.status_code == 200, answer.text
    stream = answer.headers["content-type"].startswith("text/event-stream")
    return heard(answer.url.path, answer.text, stream=stream)


COUNTING = ("/messages/count_tokens", "/responses/input_tokens")


def words_in(body: dict[str, Any]) -> int:
    """What the stub counts as the tokens of a request: the words of its texts."""
    return len(json.dumps(body.get("messages", body.get("input"))).split())


def pieces_of(characters: int) -> Split:
    """Splits a text into pieces of so many characters."""
    return lambda text: [text[at : at + characters] for at in range(0, len(text), characters)]


class ModelServer(StubServer):
    """Says `reply(body)`, by default what the last message says, and keeps what it was sent.

    split: a text into the deltas of a stream. chunk_bytes: of each chunk that a stream is sent in; None for one of all.
    """

    protocol_version = "HTTP/1.1"

    def __init__(self, reply: Reply = last_text, *, piece: int = 3) -> None:
        self.reply = reply
        self.split = pieces_of(piece)
        self.chunk_bytes: int | None = None
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.raw: list[tuple[str, tuple[tuple[str, str], ...], bytes]] = []
        self.status = 200
        self.response_id = "r*"  # of an answer in the format of OpenAI's Responses; * is a number of its own
        self.last: Callable[[str], str] = str  # what is sent of the last event of such a stream
        self._numbers = count(1)
        super().__init__()

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

    def serve(self, request: Request) -> None:
        raw = body_of(request)
        body = json.loads(raw)
        self.bodies.append(body)
        self.headers.append(headers_of(request))
        self.raw.append((request.path, tuple(sorted(self.headers[-1].items())), raw))
        reply = self.reply(body)
        said = Said(reply) if isinstance(reply, str) else reply
        if self.status != 200:
            _send(request, json.dumps({"error": {"message": said.text, "type": "invalid_request_error"}}), self.status)
        elif request.path.endswith(COUNTING):
            of_openai = {"object": "response.input_tokens"} if "input" in body else {}
            _send(request, json.dumps({"input_tokens": words_in(body)} | of_openai))
        elif body.get("stream"):
            facts = json.dumps(self._facts(body))[1:-1]
            *written, last = (each.replace('"id": "r1"', facts) for each in events(request.path, said, self.split))
            self._stream(request, [*written, self.last(last)])
        else:
            own = self._facts(body) if request.path.endswith("/responses") else {}
            _send(request, json.dumps(whole(request.path, said) | own))

    def _facts(self, body: dict[str, Any]) -> dict[str, Any]:
        """What a response says of itself, and repeats of its request."""
        echoed = {name: body[name] for name in ("user", "safety_identifier", "instructions") if name in body}
        return {"id": self.response_id.replace("*", str(next(self._numbers)))} | echoed

    def _stream(self, request: Request, written: Iterable[str]) -> None:
        text = "".join(written)
        if self.chunk_bytes is None:
            _send(request, text, media_type="text/event-stream")
            return
        request.send_response(200)
        request.send_header("content-type", "text/event-stream")
        request.send_header("transfer-encoding", "chunked")
        request.end_headers()
        raw, size = text.encode(), self.chunk_bytes
        parts = [raw[at : at + size] for at in range(0, len(raw), size)]
        request.wfile.write(b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (*parts, b"")))


def _send(request: Request, text: str, status: int = 200, *, media_type: str = "application/json") -> None:
    answer(request, text.encode(), status=status, headers={"content-type": media_type})
