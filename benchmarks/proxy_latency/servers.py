"""The servers beside the gateway: a model that answers at once, and Presidio with the gateway's tagger.

python -m benchmarks.proxy_latency.servers stub PORT
python -m benchmarks.proxy_latency.servers presidio PORT DTYPE
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

PIECES = 40  # of a streamed answer


class Stub(asyncio.Protocol):
    """Chat completions over HTTP/1.1: the answer is the last message, whole or in `PIECES` pieces."""

    def connection_made(self, transport: Any) -> None:
        self._transport, self._raw = transport, b""

    def data_received(self, data: bytes) -> None:
        self._raw += data
        while b"\r\n\r\n" in self._raw:
            head, _, rest = self._raw.partition(b"\r\n\r\n")
            fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
            size = int(fields.get(b"content-length", b"0"))
            if len(rest) < size:
                return
            body, self._raw = rest[:size], rest[size:]
            self._transport.write(_answer(json.loads(body)) if size else _http(b"{}"))


def _answer(body: dict[str, Any]) -> bytes:
    content = body["messages"][-1]["content"]
    said = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
    base = {"id": "c1", "created": 1, "model": "stub"}
    if not body.get("stream"):
        choice = {"index": 0, "message": {"role": "assistant", "content": said}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        whole = base | {"object": "chat.completion", "choices": [choice], "usage": usage}
        return _http(json.dumps(whole).encode())
    size = len(said) // PIECES + 1
    deltas = [{"content": said[at : at + size]} for at in range(0, len(said), size)]
    events = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    events.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    lines = [json.dumps(base | {"object": "chat.completion.chunk", "choices": [event]}) for event in events]
    return _http("".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"]).encode(), "text/event-stream")


def _http(body: bytes, media_type: str = "application/json") -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n%s" % (
        media_type.encode(),
        len(body),
        body,
    )


async def stub(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Stub, "127.0.0.1", port)
    await server.serve_forever()


def presidio(port: int, dtype: str) -> None:
    """`/analyze` and `/anonymize` as Presidio's services have them, in one process."""
    import torch
    import uvicorn
    from presidio_anonymizer import AnonymizerEngine
    from presidio_anonymizer.services.app_entities_convertor import AppEntitiesConvertor
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    from benchmarks.pii import presidio as engine_of
    from benchmarks.pii import tagger_of

    analyzer, anonymizer = engine_of(tagger_of(getattr(torch, dtype))), AnonymizerEngine()

    async def analyze(request: Request) -> JSONResponse:
        body = await request.json()
        found = await asyncio.to_thread(analyzer.analyze, text=body["text"], language=body["language"])
        return JSONResponse(
            [
                {"entity_type": each.entity_type, "start": each.start, "end": each.end, "score": each.score}
                for each in found
            ]
        )

    async def anonymize(request: Request) -> Response:
        body = await request.json()
        result = anonymizer.anonymize(
            text=body["text"],
            analyzer_results=AppEntitiesConvertor.analyzer_results_from_json(body["analyzer_results"]),
            operators=AppEntitiesConvertor.operators_config_from_json(body.get("anonymizers")),
        )
        return Response(result.to_json(), media_type="application/json")

    routes = [Route("/analyze", analyze, methods=["POST"]), Route("/anonymize", anonymize, methods=["POST"])]
    uvicorn.run(Starlette(routes=routes), host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    if sys.argv[1] == "stub":
        asyncio.run(stub(int(sys.argv[2])))
    else:
        presidio(int(sys.argv[2]), sys.argv[3])
