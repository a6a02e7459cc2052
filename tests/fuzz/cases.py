"""The requests of the campaign: from the OpenAPI document, hostile bodies, streams, files, events, and raw bytes."""

import json
import random
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import schemathesis
from fuzz.canaries import canary, marked
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import seed as seeded
from schemathesis.generation import GenerationMode

JSON, LINES, FILE = "application/json", "application/x-ndjson", "application/vnd.safetensors"
_LEFT_OUT = ("/metrics", "/livez", "/readyz", "/budget/events")  # probes, and an answer without an end
# lists in requests, and where they may stand
MEMBERS = {
    "documents": ("/embed/sentdp", "/sanitize", "/budget/estimate", "/jobs/domain", "/jobs/infill"),
    "rows": ("/budget/estimate", "/jobs/synthesis"),
    **dict.fromkeys(("vectors", "texts"), ("/embed/vector",)),
    **{"input": ("/v1/embeddings",), "embeddings": ("/jobs/domain",), "private": ("/jobs/finetune",)},
    "mechanism": ("/accounting/compare",),
}
_TEXT = "The patient was seen by Dr. Miller on Monday. "


@dataclass(frozen=True)
class Sent:
    """One request. `raw`: bytes for a socket in its place; `half_closed`: whether the sender closes its side then."""

    kind: str
    method: str = "GET"
    path: str = "/"
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    raw: bytes | None = None
    half_closed: bool = False


@schemathesis.serializer(LINES, FILE)
def _as_bytes(context: Any, value: Any) -> bytes:
    """The body of a stream or of a file, which has no schema but text."""
    return value if isinstance(value, bytes) else str(value).encode(errors="replace")


def of_the_document(document: dict[str, Any], rng: random.Random, per_operation: int) -> Iterator[Sent]:
    """Valid and invalid requests of every operation, as schemathesis generates them."""
    schema = schemathesis.openapi.from_dict(document)
    operations = [found.ok() for found in schema.get_all_operations()]
    modes = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    plans = [(operation, mode) for operation in operations if operation.path not in _LEFT_OUT for mode in modes]
    rng.shuffle(plans)
    for operation, mode in plans:
        yield from _generated(operation, mode, rng, per_operation)


def _generated(operation: Any, mode: GenerationMode, rng: random.Random, count: int) -> list[Sent]:
    made: list[Sent] = []

    @seeded(rng.getrandbits(32))
    @settings(
        max_examples=count, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck), verbosity=Verbosity.quiet,
    )  # fmt: skip
    @given(case=operation.as_strategy(generation_mode=mode))
    def collect(case: Any) -> None:
        made.append(_sent(case, rng))

    try:
        collect()
    except Exception as error:  # an operation without such cases, for instance negative ones of no parameter
        print(f"no {mode.value} case of {operation.label}: {type(error).__name__}", file=sys.stderr)
    return made


def _sent(case: Any, rng: random.Random) -> Sent:
    if isinstance(case.body, dict | list):
        case.body = marked(case.body, rng)
    arguments = case.as_transport_kwargs(base_url="http://gateway")
    headers = {
        str(name): str(value) for name, value in arguments["headers"].items() if str(name).lower() != "authorization"
    }
    body = arguments.get("data")
    if arguments.get("json") is not None:
        body = json.dumps(arguments["json"], default=str).encode(errors="replace")
        headers["Content-Type"] = case.media_type or JSON
    if isinstance(body, str):
        body = body.encode(errors="replace")
    return Sent(
        "document", case.method, _url(arguments["url"], arguments.get("params") or {}), headers,
        body if isinstance(body, bytes) else None,
    )  # fmt: skip


def _url(url: str, query: dict[str, Any]) -> str:
    import httpx

    path = url.removeprefix("http://gateway")
    shown = {str(name): str(value) for name, value in query.items()}
    return path + (f"?{httpx.QueryParams(shown)}" if shown else "")


def hostile(rng: random.Random) -> Sent:
    """A body that is within the limits and made to cost as much as it can."""
    item = rng.choice(["{}", "0", "[]", '""', "null", '{"text":"x"}', f'{{"{canary(rng)}":0}}', "[[[[]]]]", '"x"'])
    size = rng.choice([1_000, 30_000, 300_000, 1_000_000, 4_000_000])
    many = "[" + ",".join([item] * (size // (len(item) + 1))) + "]"
    member = rng.choice(list(MEMBERS))
    path = rng.choice(MEMBERS[member])
    body = f'{{"{member}": {many}, "epsilon": 1.0}}'
    if rng.random() < 0.2:
        body = rng.choice(
            ["[" * size, '{"a":' * size, f'"{canary(rng)}' + '\\"' * size, "1" * size, "\x00" * size, many]
        )
    return Sent("hostile body", "POST", path, {"Content-Type": JSON}, body.encode())


def stream(rng: random.Random) -> Sent:
    lines = [
        rng.choice(
            [
                json.dumps({"text": f"{_TEXT}{canary(rng)}"}), json.dumps({"text": canary(rng), canary(rng): 1}), "",
                canary(rng), "[" * 50,
                json.dumps({"fill": {"mode": rng.choice(["metric_dp", "marker", canary(rng)]), "epsilon": 0.01}}),
            ]
        )
        for _ in range(rng.choice([1, 3, 40]))
    ]  # fmt: skip
    lines += [""] * rng.choice([0, 0, 10_000])
    path = rng.choice(["/sanitize/batch", "/sanitize/batch", "/jobs/domain?name=fuzz"])
    return Sent("stream", "POST", path, {"Content-Type": LINES}, "\n".join(lines).encode())


def file(rng: random.Random) -> Sent:
    """A safetensors file, whole or damaged."""
    rows, dimension = rng.choice([1, 7, 300]), rng.choice([1, 4, 384])
    request = json.dumps({"epsilon": rng.choice([1.0, -1, 1e9]), rng.choice(["subject", canary(rng)]): canary(rng)})
    nbytes = rows * dimension * 4 + rng.choice([0, 0, 0, 1])
    entry = {"dtype": rng.choice(["F32", "F32", "F64"]), "shape": [rows, dimension], "data_offsets": [0, nbytes]}
    header = json.dumps({"__metadata__": {"request": request}, rng.choice(["vectors", "vectors", "x"]): entry}).encode()
    length = rng.choice([len(header)] * 4 + [0, 1 << 63, len(header) + 9])
    body = struct.pack("<Q", length) + header + rng.randbytes(rows * dimension * 4)
    body = body[: rng.choice([len(body)] * 3 + [4, len(body) // 2])]
    return Sent("file", "POST", "/embed/vector/safetensors", {"Content-Type": FILE}, body)


def events(rng: random.Random) -> Sent:
    job = rng.choice([f"{rng.getrandbits(128):032x}", canary(rng), "²", "x" * 5000])
    last = rng.choice(["²", "1", "9" * 5000, canary(rng)]).encode().decode("latin-1")
    path = rng.choice(["events", "artifact", "card", "report", "cancel", ""])
    return Sent("events", "POST" if path == "cancel" else "GET", f"/jobs/{job}/{path}", {"Last-Event-ID": last})


def raw(rng: random.Random) -> Sent:
    """Bytes that a client library would not send."""
    line = b"POST /embed/sentdp HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer KEY\r\nContent-Type: application/json\r\n"
    mark = canary(rng).encode()
    content = rng.choice(
        [
            line + b'Transfer-Encoding: chunked\r\n\r\n5\r\n{"a":\r\n1\r\n1\r\n1\r\n}\r\n0\r\n\r\n',
            line + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n" + mark,
            line + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n" + mark,
            line + b"Transfer-Encoding: chunked\r\n\r\n5;" + mark * 20_000,
            line + b"Transfer-Encoding: gzip, chunked\r\nContent-Length: 3\r\n\r\n" + mark,
            line + b"Content-Length: 10\r\n\r\n{}",
            line + b"Content-Length: -1\r\n\r\n{}",
            line + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
            line + b"Content-Length: " + b"9" * 400 + b"\r\n\r\n{}",
            line + b"Content-Length: 2\r\n\r\n{}" * 1 + (line + b"Content-Length: 2\r\n\r\n{}") * 40,
            b"GET /budget HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer KEY\r\n\r\n" * 40,
            b"GET /" + mark * 30_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
            b"GET /budget HTTP/1.1\r\nHost: x\r\n" + b"A: " + mark * 30_000 + b"\r\n\r\n",
            b"GET /budget HTTP/1.1\r\nHost: x\r\n" + b"".join(b"%s%d: x\r\n" % (mark, n) for n in range(500)) + b"\r\n",
            b"GET /budget HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + mark + b"\x00\r\n\r\n",
            b"GET /%ff%00%0d%0a" + mark + b" HTTP/1.1\r\nHost: x\r\n\r\n",
            b"GET /budget HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n" + mark,
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + mark,
            b"GET /budget HTTP/0.9\r\n\r\n",
            b"GET http://[" + mark + b" HTTP/1.1\r\nHost: x\r\n\r\n",
            b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n" + mark,
            b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
            line + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01" + mark,
            rng.randbytes(2000),
        ]
    )
    return Sent("raw bytes", raw=content, half_closed=rng.random() < 0.5)


SPECIAL: tuple[Callable[[random.Random], Sent], ...] = (hostile, stream, file, events, raw)
