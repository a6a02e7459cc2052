"""Language model services for tests: servers of raw bytes in the loop of the test, and certificates for them."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import ssl
import threading
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from service.outbound import Resolve, system_resolve
from service.proxy.client import ClientLimits, UpstreamClient
from service.proxy.upstreams import Upstream

MIB = 1024 * 1024
PATH = "/chat/completions"
BODY = b'{"model": "m"}'


@dataclass(frozen=True)
class Request:
    head: str
    headers: dict[str, str]
    body: bytes


Script = Callable[[Request, asyncio.StreamWriter], Awaitable[None]]


def answer(body: bytes, *, status: str = "200 OK", content_type: str = "application/json", **headers: str) -> bytes:
    """A whole answer. `headers`: further ones, with _ for -, which replace those that it has."""
    named = {"content-type": content_type, "content-length": str(len(body))}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in named.items() if value)
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode("latin-1") + body


def chunked(*parts: bytes, content_type: str = "text/event-stream", end: bool = True, more: str = "") -> bytes:
    """An answer in chunks."""
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n{more}\r\n".encode()
    return head + b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + (b"0\r\n\r\n" if end else b"")


def sends(*parts: bytes, then: str = "keep") -> Script:
    """Write the parts. `then`: keep the connection, `close` or `abort` it, or `hang` until the client closes it."""

    async def script(_: Request, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0)
        if then == "hang":
            await asyncio.Event().wait()
        elif then == "abort":
            writer.transport.abort()
        elif then == "close":
            writer.close()

    return script


@dataclass
class RawUpstream:
    """`async with` it. Each request runs the next script; the last one also all that follow."""

    scripts: list[Script]
    tls: ssl.SSLContext | None = None
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    ended: asyncio.Event = field(default_factory=asyncio.Event)  # a client has closed its connection

    async def __aenter__(self) -> RawUpstream:
        self._tasks: set[asyncio.Task[None]] = set()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}/v1"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while not writer.is_closing():
                    request = await _read(reader)
                    script = self.scripts[min(len(self.requests), len(self.scripts) - 1)]
                    self.requests.append(request)
                    await self._until_closed(script(request, writer), reader)
        finally:
            writer.close()

    async def _until_closed(self, work: Awaitable[None], reader: asyncio.StreamReader) -> None:
        """Run a script, which ends if the client closes the connection meanwhile."""
        running = asyncio.ensure_future(work)
        watching = asyncio.ensure_future(_closed(reader))
        try:
            await asyncio.wait({running, watching}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done() or running.exception() is not None:
                self.ended.set()
        finally:
            for each in (running, watching):
                each.cancel()
            await asyncio.gather(running, watching, return_exceptions=True)


async def _closed(reader: asyncio.StreamReader) -> None:
    while not reader.at_eof():
        await asyncio.sleep(0.005)


async def _read(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
    return Request(first, headers, await reader.readexactly(int(headers.get("content-length", 0))))


def upstream(url: str, **given: Any) -> Upstream:
    """An upstream at a server of this machine, with generous timeouts."""
    scheme, _, rest = url.partition("://")
    host, _, port = rest.partition("/")[0].partition(":")
    usual: dict[str, Any] = {
        "name": "stub", "kind": "openai", "private_addresses": False, "connect_timeout_s": 120.0,
        "read_timeout_s": 120.0, "total_timeout_s": 300.0,
    }  # fmt: skip
    port_number = int(port) if port else (443 if scheme == "https" else 80)
    return Upstream(base_url=url, host=host, port=port_number, **usual | given)


def limits(**given: Any) -> ClientLimits:
    usual: dict[str, Any] = {
        "answer_bytes_max": MIB, "stream_bytes_max": MIB, "event_bytes_max": 64 * 1024, "calls_max": 8,
        "idle_connections_max": 8, "idle_connection_s": 30.0,
    }  # fmt: skip
    return ClientLimits(**usual | given)


def resolving(*addresses: str) -> Callable[[str, int], Awaitable[list[str]]]:
    """A resolver that answers each name with these addresses."""

    async def resolve(_: str, __: int) -> list[str]:
        return list(addresses)

    return resolve


@dataclass(frozen=True)
class Certificate:
    ca_file: Path
    server: ssl.SSLContext


def certificate(folder: Path, *names: str, expired: bool = False) -> Certificate:
    """A certificate for names and addresses, which is its own authority."""
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - 10 * day)
        .not_valid_after(now + (-5 if expired else 5) * day)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .sign(key, hashes.SHA256())
    )
    ca_file, chain = folder / "ca.pem", folder / "server.pem"
    ca_file.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    chain.write_bytes(key.private_bytes(*form) + ca_file.read_bytes())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    return Certificate(ca_file, context)


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


Use = Callable[[UpstreamClient, Upstream, RawUpstream], Awaitable[Any]]


def with_upstream(
    scripts: list[Script],
    use: Use,
    *,
    given: dict[str, Any] | None = None,
    tls: Certificate | None = None,
    resolve: Resolve | None = None,
    **limit: Any,
) -> Any:
    """What `use` returns, with a client of a server that runs the scripts: of models.example where names resolve."""

    async def run() -> Any:
        async with RawUpstream(scripts, tls=tls and tls.server) as server:
            url = server.url if resolve is None else server.url.replace("127.0.0.1", "models.example")
            called = upstream(url, **given or {})
            client = UpstreamClient([called], limits(**limit), resolve=resolve or system_resolve)
            try:
                return await use(client, called, server)
            finally:
                await client.aclose()

    return asyncio.run(run())


class ServedUpstream:
    """A `RawUpstream` on an event loop of its own, for a gateway that the threads of a test call. `with` it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="upstream", daemon=True)
        self.raw = RawUpstream([sends(then="close")])

    def __enter__(self) -> ServedUpstream:
        self._thread.start()
        self._run(self.raw.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self.raw.__aexit__())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, Any]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def begin(self, *scripts: Script) -> None:
        """Forget the requests so far, and run these scripts, one for each request from now on."""
        self.raw.scripts[:], self.raw.requests[:] = scripts, []
        self.raw.ended.clear()

    @property
    def seen(self) -> bytes:
        """The bodies of all requests since `begin`."""
        return b"\n".join(request.body for request in self.raw.requests)
