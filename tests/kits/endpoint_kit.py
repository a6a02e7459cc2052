"""A server on this machine that speaks the OpenAI shape and says what a test tells it to."""

import contextlib
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from stub_kit import Request, StubServer, body_of, headers_of

MODEL = "tiny-chat"


def chat(*words: str, tokens: dict[str, float] | None = None) -> bytes:
    """The body of a chat completion with a choice a word; `tokens`: alternatives to the first token."""
    top = [{"token": token, "logprob": chance} for token, chance in (tokens or {}).items()]
    extra = {"logprobs": {"content": [{"token": "x", "logprob": 0.0, "top_logprobs": top}]}} if tokens else {}
    choices = [{"index": at, "message": {"role": "assistant", "content": word}} for at, word in enumerate(words)]
    return json.dumps({"choices": [choice | extra for choice in choices]}).encode()


@dataclass(frozen=True)
class Received:
    path: str
    headers: dict[str, str]
    body: bytes


class ChatServer(StubServer):
    """Records every request. `answer`: from the body of a request to that of its answer. `port` 0 picks a free one."""

    protocol_version = "HTTP/1.1"

    def __init__(self, port: int = 0) -> None:
        self.reset()
        super().__init__(port)
        self.url = f"{self.origin}/v1"

    def reset(self) -> None:
        self.requests: list[Received] = []
        self.most_at_once = self._at_once = 0
        self._lock = threading.Lock()
        self.say(chat("word"))

    def say(self, body: bytes, *, status: int = 200, delay_s: float = 0.0, drip_s: float = 0.0) -> None:
        self.answer: Callable[[bytes], bytes] = lambda _: body
        self._status, self._delay_s, self._drip_s = status, delay_s, drip_s

    def serve(self, request: Request) -> None:
        body = body_of(request)
        with self._lock:
            self.requests.append(Received(request.path, headers_of(request), body))
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        time.sleep(self._delay_s)
        answer, drip_s = self.answer(body), self._drip_s
        with self._lock:
            self._at_once -= 1
        with contextlib.suppress(OSError):  # the client may have disconnected
            request.send_response(self._status)
            request.send_header("Location", "/v1/elsewhere")
            request.send_header("Content-Length", str(len(answer)))
            request.end_headers()
            for part in [answer[at : at + 1] for at in range(len(answer))] if drip_s else [answer]:
                request.wfile.write(part)
                time.sleep(drip_s)
