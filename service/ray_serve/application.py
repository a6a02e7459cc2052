"""The application of Ray Serve that runs worker servers and job runners: one deployment for each role, and a directory.

Guarantee: no payload passes through Ray. A replica is a worker server (`gpu_workers.engine.remote.server`) or a job
runner (`gpu_workers.job_runners.server`), to which gateways connect directly. Ray places, starts, checks, restarts and
drains the replicas, and carries their addresses. So a gateway is no part of the Ray cluster, and text is in no object
store, queue or log of Ray.

The settings of the workers and the token come from the environment of the Ray nodes.
"""

from __future__ import annotations

import asyncio
import hmac
import random
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, Literal

import ray
from pydantic import BaseModel, ConfigDict, Field
from ray import serve
from ray.serve.schema import LoggingConfig
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gpu_workers.engine.protocol import Role
from gpu_workers.engine.remote.directory import TOKEN_HEADER
from gpu_workers.engine.remote.process import Server
from service.config.job_runner_options import JOBS, job_runner
from service.config.settings import Settings
from service.config.worker_options import access, worker_server

DIRECTORY = "Directory"
REGISTER_S = 2.0
REGISTERED_S = 8.0  # a worker that has not registered again for this time is not listed
START_S_MAX = 900.0
_POLL_S = 0.2
_HEALTH_S = 5.0
_LOGGING = LoggingConfig(log_level="WARNING", enable_access_log=False)


class RoleSize(BaseModel):
    """The replicas of a role, and what Ray reserves for each."""

    model_config = ConfigDict(extra="forbid")

    replicas: int = Field(1, ge=0, le=1000)
    cpus: float = Field(1, ge=0)
    gpus: float = Field(0, ge=0)


RoleName = Literal["embed", "sanitize", "fill", "jobs"]
_ROLES: dict[RoleName, RoleSize] = {"embed": RoleSize(), "sanitize": RoleSize()}


class Arguments(BaseModel):
    """Of the application. A worker listens on a port from `port_first` to `port_last`. `server`: what makes a worker
    server from a role and an address, as MODULE:FUNCTION."""

    model_config = ConfigDict(extra="forbid")

    port_first: int = Field(9600, ge=1, le=65535)
    port_last: int = Field(9699, ge=1, le=65535)
    roles: dict[RoleName, RoleSize] = Field(default_factory=lambda: dict(_ROLES))
    drain_s: float = Field(120.0, gt=0)
    server: str = "service.ray_serve.application:settings_server"


def settings_server(role: str, listen: str) -> Server:
    """A worker server or a job runner by the settings in the environment of the node."""
    return job_runner(Settings(), listen) if role == JOBS else worker_server(Settings(), Role(role), listen)


class Worker:
    """A replica: a worker server or a job runner, which registers with the directory."""

    async def __init__(self, role: str, arguments: dict[str, Any]) -> None:  # type: ignore[misc]  # Ray awaits it
        """Return once the models are loaded. Raises RuntimeError with a public reason if they cannot be."""
        own = Arguments(**arguments)
        module, _, name = own.server.partition(":")
        make = getattr(import_module(module), name)
        host = str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]
        self._drain_s = own.drain_s
        self._server, self._address = _listening(make, role, host, own)
        await self._server.start()
        await self._ready()
        self._registering = asyncio.create_task(self._register_regularly())

    async def _ready(self) -> None:
        deadline = time.monotonic() + START_S_MAX
        while not self._server.state.ready:
            if self._server.state.failure or time.monotonic() > deadline:
                reason = self._server.state.failure or "it took too long"
                await self._server.stop()
                raise RuntimeError(f"the worker cannot start: {reason}")
            await asyncio.sleep(_POLL_S)

    async def _register_regularly(self) -> None:
        application = serve.get_replica_context().app_name
        directory = serve.get_deployment_handle(DIRECTORY, application)
        while True:
            if not self._server.state.draining:
                with suppress(Exception):  # the directory is being started
                    await directory.register.remote(str(self._server.role), self._address)
            await asyncio.sleep(REGISTER_S)

    async def check_health(self) -> None:
        """Draws no noise. A handler that died is started again by its server; one that cannot load fails the check."""
        if self._server.state.failure:
            raise RuntimeError("the worker cannot start again")

    async def address(self) -> str:
        return self._address

    async def __del__(self) -> None:
        """Ray Serve calls this before it ends a replica."""
        self._registering.cancel()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._server.drain(), self._drain_s)
        await self._server.stop()


def _listening(make: Any, role: str, host: str, own: Arguments) -> tuple[Server, str]:
    """A server on a free port of the range. Raises OSError if there is none."""
    ports = list(range(own.port_first, own.port_last + 1))
    random.shuffle(ports)  # replicas of a node start at once
    for port in ports:
        address = f"{host}:{port}"
        try:
            return make(role, address), address
        except OSError:
            continue
    raise OSError("no port is free for the worker")


class Directory:
    """Lists the worker servers that have registered. The page needs the token."""

    def __init__(self, workers: list[Any]) -> None:
        """`workers`: their handles, so that Ray Serve deploys them; nothing is sent over these."""
        del workers
        self._token = access(Settings()).token
        self._seen: dict[tuple[str, str], float] = {}

    async def register(self, role: str, address: str) -> None:
        """List a worker from now on."""
        self._seen[role, address] = time.monotonic()

    async def __call__(self, request: Request) -> Response:
        given = request.headers.get(TOKEN_HEADER, "")
        if not hmac.compare_digest(given.encode(), self._token.encode()):
            return Response(status_code=401)
        earliest = time.monotonic() - REGISTERED_S
        self._seen = {worker: at for worker, at in self._seen.items() if at > earliest}
        return JSONResponse({"workers": [{"role": role, "address": address} for role, address in sorted(self._seen)]})


def build(arguments: Mapping[str, Any]) -> serve.Application:
    """The application. Ray Serve calls this with the arguments of its configuration."""
    own = Arguments(**arguments)
    shared = own.model_dump(mode="json", exclude={"roles"})  # a change of it would restart every replica
    deployment: Any = serve.deployment
    workers = [
        deployment(
            Worker,
            name=f"worker-{role}",
            num_replicas=size.replicas,
            ray_actor_options={"num_cpus": size.cpus, "num_gpus": size.gpus},
            max_ongoing_requests=16,
            health_check_period_s=_HEALTH_S,
            health_check_timeout_s=30,
            graceful_shutdown_wait_loop_s=1,
            graceful_shutdown_timeout_s=own.drain_s + 10,
            logging_config=_LOGGING,
        ).bind(role, shared)
        for role, size in own.roles.items()
    ]
    directory = deployment(
        Directory,
        name=DIRECTORY,
        num_replicas=1,
        ray_actor_options={"num_cpus": 0},
        max_ongoing_requests=1000,
        logging_config=_LOGGING,
    )
    application: serve.Application = directory.bind(workers)
    return application
