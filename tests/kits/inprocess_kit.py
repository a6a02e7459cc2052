"""A gateway inside the test's process: the application over ASGI, real handlers on the inline engine, a real Redis.

It has the interface of `gateway_kit.Gateway` for tests that need no process of its own. An answer arrives whole: what
needs a true stream, a disconnect, a signal or a log file runs against `gateway_kit.Gateway`.
"""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, MutableMapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import httpx
import pytest
from constants_kit import changed, constants
from declared_answers import DeclaredAnswers
from fastapi import FastAPI
from gateway_kit import DEFAULTS, LEAN, Tenants, clean_environment
from inline_engine import InlineEngine

from gpu_workers.engine.handler import Draw
from gpu_workers.engine.protocol import Role
from gpu_workers.facts import WorkerFacts
from gpu_workers.handlers import entity_tagger
from gpu_workers.handlers.options import WorkerOptions, absent
from gpu_workers.handlers.preload import make_handler
from gpu_workers.models.integer import encoder as integer_encoder
from gpu_workers.models.sources import INFILL_OFF
from service.app import create_app
from service.capabilities import CAPABILITIES
from service.capability import Capability
from service.config.settings import Settings
from service.config.worker_options import handler_factories, queue_limits
from service.gateway import Gateway as ServiceGateway

ANSWER_S_MAX = START_S_MAX = 300.0


class _LoadedOnce:
    """A handler that every gateway of this process shares. Its models are loaded at the first start."""

    def __init__(self, role: Role, options: WorkerOptions) -> None:
        self._role, self._options = role, options
        self._facts: WorkerFacts | None = None
        self.dies = False

    def warm_up(self) -> WorkerFacts:
        with _models_loaded_once():
            if self._facts is None:
                self._handler = make_handler(self._role, self._options)
                self._facts = self._handler.warm_up()
            return self._facts

    def prepare(self, tasks: Sequence[Any]) -> Draw:
        draw = self._handler.prepare(tasks)
        if self.dies:
            self.dies = False
            return _die
        return draw


_loading = threading.Lock()
_tagger = cache(entity_tagger.embedded_tagger)
_encoder = cache(integer_encoder.IntegerEncoder)


@contextmanager
def _models_loaded_once() -> Iterator[None]:
    """The bundled tagger and encoder are those of every handler of this process, whatever else differs."""
    with (
        _loading,
        mock.patch.object(entity_tagger, "embedded_tagger", _tagger),
        mock.patch.object(integer_encoder, "IntegerEncoder", _encoder),
    ):
        yield


def _die() -> Sequence[Any]:
    raise SystemExit  # for the inline engine the death of a worker, after the work has started


@cache
def _handler(role: Role, options: WorkerOptions) -> _LoadedOnce:
    return _LoadedOnce(role, options)


def _factory(role: Role, options: WorkerOptions) -> Callable[[], _LoadedOnce]:
    used = _used(role, options)
    return lambda: _handler(role, used)


def _used(role: Role, options: WorkerOptions) -> WorkerOptions:
    """The options without those that the handler of this role does not use: where only they differ, it is shared."""
    usual = WorkerOptions()
    options = replace(options, measured_dir=None)  # each gateway has its own, and none decides what is loaded
    if role is Role.EMBED:
        own = ("device", "threads", "encoder_path", "encoder_precision", "domain_packs_dir", "packs_loaded_max",
               "finetune_models")  # fmt: skip
        return replace(usual, **{name: getattr(options, name) for name in own})
    others = ("encoder_path", "encoder_precision", "domain_packs_dir", "packs_loaded_max", "finetune_models")
    if role is Role.SANITIZE:
        options = replace(options, infill=INFILL_OFF)
        others += ("fill_slots_max", "infill_models_loaded_max")
    return replace(options, **{name: getattr(usual, name) for name in others})


def inline_engine(settings: Settings) -> InlineEngine:
    """An engine with the real handlers, which every gateway of this process shares."""
    return InlineEngine(
        {role: _factory(role, *factories[0].args[1:]) for role, factories in handler_factories(settings).items()},
        limits=queue_limits(settings),
        lacking=absent,
        array_bytes_max=settings.vectors_memory_bytes_max,
        array_owner_bytes_max=settings.vectors_memory_per_tenant_bytes_max,
    )


class _Chunks(httpx.AsyncByteStream):
    """A request's body, in the chunks that the client sends."""

    def __init__(self, chunks: Sequence[bytes]) -> None:
        self._chunks = chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk


class _LoopTransport(httpx.BaseTransport):
    """Runs each request of a synchronous client on the event loop that owns the application, and may check that the
    answer is as declared."""

    def __init__(self, app: Any, loop: asyncio.AbstractEventLoop, declared: DeclaredAnswers) -> None:
        self._app = app
        self._loop = loop
        self._declared = declared

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        assert isinstance(request.stream, httpx.SyncByteStream)
        body = _Chunks(list(request.stream))
        sent = httpx.Request(
            request.method, request.url, headers=request.headers, stream=body, extensions=request.extensions
        )
        answer, route = asyncio.run_coroutine_threadsafe(self._answer(sent), self._loop).result(ANSWER_S_MAX)
        answer.read()
        if Gateway.checks_answers:
            self._declared.check(answer, method=request.method, route=route)
        return answer

    async def _answer(self, request: httpx.Request) -> tuple[httpx.Response, str | None]:
        """The answer, and the path of the route that gave it."""
        scopes: list[MutableMapping[str, Any]] = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            scopes.append(scope)
            await self._app(scope, receive, send)

        answer = await httpx.ASGITransport(app).handle_async_request(request)
        content = await answer.aread()
        whole = httpx.Response(answer.status_code, headers=answer.headers, stream=httpx.ByteStream(content))
        return whole, getattr(scopes[0].get("route"), "path_format", None)


_of_capabilities: dict[tuple[int, ...], DeclaredAnswers] = {}


def _declared(capabilities: tuple[int, ...], app: FastAPI) -> DeclaredAnswers:
    """What an application with these capabilities declares. Gateways share it: its description takes a second."""
    if capabilities not in _of_capabilities:
        _of_capabilities[capabilities] = DeclaredAnswers(app)
    return _of_capabilities[capabilities]


class Gateway(Tenants):
    """A started `service.gateway.Gateway` with its `app`, on an event loop in a thread of its own."""

    checks_answers: ClassVar[bool] = False  # tests do, and audits do not: they plant bugs in answers

    def __init__(
        self,
        data_dir: Path,
        environment: Mapping[str, str] | None = None,
        capabilities: Sequence[Capability] = CAPABILITIES,
    ) -> None:
        super().__init__(data_dir)
        self._capabilities = capabilities
        with mock.patch.dict(os.environ, clean_environment() | DEFAULTS | dict(environment or {}), clear=True):
            self.settings = Settings(data_dir=data_dir)
        self._constants = ExitStack()
        self._constants.enter_context(changed(environment or {}, self.settings))
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="gateway", daemon=True)
        self._thread.start()
        self.service = self.on_loop(self._start(), within_s=START_S_MAX)
        self.app = create_app(self.service)
        self.transport = _LoopTransport(self.app, self.loop, _declared(tuple(map(id, capabilities)), self.app))

    async def _start(self) -> ServiceGateway:
        gateway = ServiceGateway(self.settings, engine=inline_engine(self.settings), capabilities=self._capabilities)
        await gateway.start()
        for role in gateway.engine.roles:
            status = gateway.engine.status(role)
            assert status.ready, status.stage
        return gateway

    def on_loop(self, work: Coroutine[Any, Any, Any], *, within_s: float = ANSWER_S_MAX) -> Any:
        """Run a coroutine on the gateway's event loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(within_s)

    def kill_worker_at_work(self, role: Role) -> None:
        """The worker of this role dies while it draws its next batch, and is started again."""
        _factory(role, *handler_factories(self.settings)[role][0].args[1:])().dies = True

    def new_client(self, headers: Mapping[str, str]) -> httpx.Client:
        return httpx.Client(transport=self.transport, base_url="http://gateway", headers=headers)

    def stop(self) -> None:
        self.close_clients()
        self.service.end_streams()
        self.on_loop(self.service.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()
        self._constants.close()


@contextmanager
def opened_gateway(
    folder: Path,
    base: Mapping[str, str] = LEAN,
    *,
    policies: str = "",
    changes: Mapping[str, float] | None = None,
    **settings: str,
) -> Iterator[Gateway]:
    """A gateway until the end of the block. `settings`: without their prefix. `policies`: what their file says.
    `changes`: constants (`constants_kit`)."""
    environment = (
        dict(base) | constants(changes or {}) | {f"PRIVACY_GATEWAY_{name}": value for name, value in settings.items()}
    )
    if policies:
        (folder / "policies.toml").write_text(policies)
        environment["PRIVACY_GATEWAY_POLICIES_FILE"] = str(folder / "policies.toml")
    gateway = Gateway(folder / "data", environment)
    try:
        yield gateway
    finally:
        gateway.stop()


def module_gateway(base: Mapping[str, str] = LEAN, **settings: Any) -> Any:
    """A fixture for the tests of a module: what `opened_gateway` opens."""

    @pytest.fixture(scope="module")
    def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
        with opened_gateway(tmp_path_factory.mktemp("gateway"), base, **settings) as running:
            yield running

    return gateway
