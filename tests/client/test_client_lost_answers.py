"""Lost connections, 429 and 503: one charge for each call, and the same bytes."""

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterator
from typing import Any

import httpx
import numpy as np
import pytest
from client_kit import AT_ONCE, Recorder, client_of
from gateway_kit import Gateway, Tenant
from inprocess_kit import Gateway as InProcessGateway

from privacy_gateway_client import (
    ConnectionLost,
    NotStarted,
    ReleaseGone,
    Retry,
    StreamInterrupted,
    WorkFailed,
)
from privacy_gateway_client import Gateway as Client

ANSWER, REQUEST = "answer", "request"


class CuttingProxy:
    """Forwards to a port of this machine. `cut` prepares the next cut; all other bytes pass, and are counted."""

    def __init__(self, target_port: int) -> None:
        self._target = target_port
        self._left: dict[str, int] = {}
        self.cuts = 0
        self.passed = {ANSWER: 0, REQUEST: 0}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._server = self._run(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut(self, side: str, after: int) -> None:
        """Cut the connection when `after` bytes of the next answers (or requests) have passed."""
        self._left = {side: after}

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._server.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        writers = (writer, far_writer)
        with contextlib.suppress(OSError):
            await asyncio.gather(
                self._pump(REQUEST, reader, far_writer, writers), self._pump(ANSWER, far_reader, writer, writers)
            )
        for each in writers:
            each.transport.abort()

    async def _pump(
        self,
        side: str,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        both: tuple[asyncio.StreamWriter, ...],
    ) -> None:
        while chunk := await source.read(65536):
            self.passed[side] += len(chunk)
            left = self._left.get(side)
            if left is not None and len(chunk) > left:
                self._left = {}
                self.cuts += 1
                sink.write(chunk[:left])
                with contextlib.suppress(OSError):
                    await sink.drain()
                await asyncio.sleep(0.001)  # the bytes before the cut leave
                for writer in both:
                    writer.transport.abort()
                return
            if left is not None:
                self._left[side] = left - len(chunk)
            sink.write(chunk)
            await sink.drain()
        with contextlib.suppress(OSError):
            sink.write_eof()


TEXT = "One sentence is here. Another one follows."
CUTS = 20


@pytest.fixture
def proxy(real_gateway: Gateway) -> Iterator[CuttingProxy]:
    running = CuttingProxy(real_gateway.port)
    yield running
    running.close()


@pytest.mark.parametrize("side", [ANSWER, REQUEST])
def test_a_connection_that_is_cut_charges_once(
    real_gateway: Gateway, real_tenant: Tenant, proxy: CuttingProxy, side: str
) -> None:
    """At places of the request or the answer: each call has the bytes of its release."""
    key = real_tenant.key
    with Client(real_gateway.url, key) as direct, Client(proxy.url, key, retry=AT_ONCE) as client:
        client.embed_documents([TEXT], epsilon=0.5)
        length = proxy.passed[side]
        for place in range(CUTS):
            proxy.cut(side, place * length // CUTS)
            result = client.embed_documents([TEXT], epsilon=0.5)
            assert proxy.cuts == place + 1
            if place % 10 == 0:
                again = direct.embed_documents([TEXT], epsilon=0.5, idempotency_key=result.releases[0].idempotency_key)
                assert again.releases[0].replayed
                assert again.vectors.tobytes() == result.vectors.tobytes()
    assert real_tenant.committed() == 0.5 * (CUTS + 1)


def test_files_of_vectors_and_streams_survive_cuts(
    real_gateway: Gateway, real_tenant: Tenant, proxy: CuttingProxy
) -> None:
    with Client(proxy.url, real_tenant.key, retry=AT_ONCE) as client:
        proxy.cut(ANSWER, 100_000)
        result = client.embed_vectors(np.eye(1000, 64, dtype=np.float32), epsilon=0.01)
        assert result.vectors.shape == (1000, 64)
        assert result.releases[0].replayed

        proxy.cut(ANSWER, 2_000)
        texts = [f"Mail number {number} to jane@example.org" for number in range(100)]
        rows: list[Any] = list(client.sanitize_stream(texts, fill={"mode": "class_marker"}))
        assert [row.index for row in rows] == list(range(100))
        assert rows[99].text == "Mail number 99 to [EMAIL_ADDRESS]"
    assert proxy.cuts == 2
    assert real_tenant.committed("vector") == pytest.approx(10)


def test_a_stream_that_always_ends_without_its_summary_is_an_error() -> None:
    empty = Recorder(lambda _: httpx.Response(200))
    with Client("http://gateway", "key", retry=AT_ONCE, transport=empty) as client, pytest.raises(StreamInterrupted):
        list(client.sanitize_stream([TEXT], fill={"mode": "class_marker"}))
    assert len(empty.requests) == AT_ONCE.attempts


def test_a_call_without_an_answer_can_be_repeated_under_its_key(
    real_gateway: Gateway, real_tenant: Tenant, proxy: CuttingProxy
) -> None:
    with Client(proxy.url, real_tenant.key, retry=Retry(attempts=1)) as client:
        proxy.cut(ANSWER, 10)
        with pytest.raises(ConnectionLost) as lost:
            client.embed_documents([TEXT], epsilon=1)
        assert lost.value.idempotency_key is not None
        client.embed_documents([TEXT], epsilon=1, idempotency_key=lost.value.idempotency_key)
    assert real_tenant.committed() == 1


def refusing(gateway: InProcessGateway, *refusals: tuple[int, dict[str, Any], dict[str, str]]) -> Recorder:
    """Executes each request, and answers the first ones with these refusals, as a proxy that fails does."""
    waiting = list(refusals)

    def answer(request: httpx.Request) -> httpx.Response:
        if waiting:
            status, members, headers = waiting.pop(0)
            if status == 502:
                gateway.transport.handle_request(request).read()
            return httpx.Response(status, json=members, headers={"Content-Type": "application/problem+json"} | headers)
        return gateway.transport.handle_request(request)

    return Recorder(answer)


def test_refusals_are_waited_for_and_charge_once(gateway: InProcessGateway, tenant: Tenant) -> None:
    sent = refusing(
        gateway,
        (429, {"code": "rate-limited", "status": 429}, {"Retry-After": "0"}),
        (503, {"code": "queue-full", "status": 503, "released": False}, {"Retry-After": "0.01"}),
        (502, {}, {}),
        (409, {"code": "release-in-flight", "status": 409}, {}),
    )
    with client_of(gateway, tenant, transport=sent) as client:
        result = client.embed_documents([TEXT], epsilon=1)
    assert result.releases[0].replayed
    assert len(sent.requests) == 5
    assert len({request.headers["Idempotency-Key"] for request in sent.requests}) == 1
    assert tenant.committed() == 1


@pytest.mark.parametrize(
    ("status", "members", "headers", "kind"),
    [
        (500, {"code": "task-failed", "charged": True}, {}, WorkFailed),
        (503, {"code": "not-started"}, {"X-Should-Retry": "false"}, NotStarted),
        (410, {"code": "release-gone"}, {}, ReleaseGone),
    ],
)
def test_what_was_charged_is_not_repeated(
    gateway: InProcessGateway, tenant: Tenant, status: int, members: dict[str, Any], headers: dict[str, str], kind: Any
) -> None:
    sent = refusing(gateway, (status, members, headers))
    with client_of(gateway, tenant, transport=sent) as client, pytest.raises(kind):
        client.embed_documents([TEXT], epsilon=1)
    assert len(sent.requests) == 1


def test_a_cap_counts_what_may_have_been_charged(gateway: InProcessGateway, tenant: Tenant) -> None:
    """The answer was lost after the charge, and then the gateway refuses: that is no refund."""
    waiting = ["lose", "refuse"]

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path != "/embed/sentdp":
            return gateway.transport.handle_request(request)
        if waiting.pop(0) == "refuse":
            return httpx.Response(503, headers={"Retry-After": "0"})
        gateway.transport.handle_request(request).read()
        raise httpx.ReadError("lost", request=request)

    settings = {"transport": Recorder(answer), "retry": Retry(attempts=2, first_s=0.01)}
    with client_of(gateway, tenant, **settings) as client, client.budget_cap(epsilon=5) as cap:
        with pytest.raises(NotStarted) as failure:
            client.embed_documents([TEXT], epsilon=1)
        assert failure.value.uncertain
        assert cap.spent == tenant.committed() == 1


def test_a_key_that_may_have_been_made_is_not_made_again(gateway: InProcessGateway, tenant: Tenant) -> None:
    def lost(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadError("lost", request=request)

    sent = Recorder(lost)
    with client_of(gateway, tenant, transport=sent) as client:
        with pytest.raises(ConnectionLost):
            client.keys.create()
        assert len(sent.requests) == 1
