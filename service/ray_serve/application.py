"""The application of Ray Serve that runs worker servers and job runners: one deployment for each role, and a directory.

Guarantee: no payload passes through Ray. A replica is a worker server (`gpu_workers.engine.remote.server`) or a job
runner (`gpu_workers.job_runners.server`), to which gateways connect directly. Ray places, starts, checks, restarts and
drains the replicas, and carries their addresses and their load, which is numbers alone. So a gateway is no part of the
Ray cluster, and text is in no object store, queue or log of Ray.

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
from typing import Any, Literal, Self

import ray
from pydantic import BaseModel, ConfigDict, Field, model_validator
from ray import serve
from ray.serve.schema import LoggingConfig
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gpu_workers.engine.protocol import Role
from gpu_workers.engine.remote.directory import TOKEN_HEADER
from gpu_workers.engine.remote.load import Load
from gpu_workers.engine.remote.process import Server
from gpu_workers.engine.remote.server import SLOTS
from service.config.job_runner_options import JOBS, job_runner
from service.config.settings import Settings
from service.config.worker_options import access, worker_server
from service.ray_serve.scaling import IN_USE, WAITING

DIRECTORY = "Directory"
REGISTER_S = 2.0
REGISTERED_S = 8.0  # a worker that has not registered again for this time is not listed
START_S_MAX = 900.0
_POLL_S = 0.2
_HEALTH_S = 5.0
_LOAD_S_MIN = 10.0  # the interval at which replicas report their load, by the default of Ray Serve
_POLICY = "service.ray_serve.scaling:policy"
_LOGGING = LoggingConfig(log_level="WARNING", enable_access_log=False)


class RoleSize(BaseModel):
    """The replicas of a role, and what Ray reserves for each. `replicas_max`: the number follows the load, from
    `replicas` to this; by default it is `replicas`."""

    model_config = ConfigDict(extra="forbid")

    replicas: int = Field(1, ge=0, le=1000)
    replicas_max: int | None = Field(None, ge=1, le=1000)
    cpus: float = Field(1, ge=0)
    gpus: float = Field(0, ge=0)

    @model_validator(mode="after")
    def _bounds(self) -> Self:
        if self.replicas_max is not None and not 1 <= self.replicas <= self.replicas_max:
            raise ValueError("a number of replicas that follows the load is from 1 or more to at least as many")
        return self

    @property
    def most(self) -> int:
        """The largest number of replicas."""
        return self.replicas if self.replicas_max is None else self.replicas_max


RoleName = Literal["embed", "sanitize", "fill", "jobs"]
_ROLES: dict[RoleName, RoleSize] = {"embed": RoleSize(), "sanitize": RoleSize()}


class Arguments(BaseModel):
    """Of the application. A worker listens on a port from `port_first` to `port_last`. `target_load`: batches that a
    worker of a scaled role has, in work or waiting, on average; it takes two at a time. `scale_up_s`, `scale_down_s`:
    how long more or fewer replicas must be needed, seconds. `load_s`: the time over which the load of a replica is
    averaged, seconds. `server`: what makes a worker server from a role and an address, as MODULE:FUNCTION.
    """

    model_config = ConfigDict(extra="forbid")

    port_first: int = Field(9600, ge=1, le=65535)
    port_last: int = Field(9699, ge=1, le=65535)
    roles: dict[RoleName, RoleSize] = Field(default_factory=lambda: dict(_ROLES))
    drain_s: float = Field(120.0, gt=0)
    target_load: float = Field(1.0, gt=0, lt=SLOTS)
    scale_up_s: float = Field(30.0, ge=0, le=86_400)
    scale_down_s: float = Field(600.0, ge=0, le=86_400)
    load_s: float = Field(30.0, gt=_LOAD_S_MIN, le=86_400)
    server: str = "service.ray_serve.application:settings_server"

    @model_validator(mode="after")
    def _jobs_are_fixed(self) -> Self:
        jobs = self.roles.get("jobs")
        if jobs is not None and jobs.most != jobs.replicas:
            raise ValueError("the number of job runners is fixed: a runner does not see the jobs that wait")
        return self


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
        self._load = self._server.load.reader()
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
        read = self._server.load.reader()
        while True:
            if not self._server.state.draining:
                load = read()
                with suppress(Exception):  # the directory is being started
                    await directory.register.remote(
                        str(self._server.role), self._address, in_use=load.in_use, waiting=load.waiting
                    )
            await asyncio.sleep(REGISTER_S)

    async def check_health(self) -> None:
        """Draws no noise. A handler that died is started again by its server; one that cannot load fails the check."""
        if self._server.state.failure:
            raise RuntimeError("the worker cannot start again")

    async def record_autoscaling_stats(self) -> dict[str, float]:
        """The load since the last call. Ray Serve calls this and gives it to the policy of `scaling`."""
        load = self._load()
        return {IN_USE: load.in_use, WAITING: load.waiting}

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
    """Lists the worker servers that have registered, and their load. The page needs the token."""

    def __init__(self, workers: list[Any], bounds: dict[str, tuple[int, int]]) -> None:
        """`workers`: their handles, so that Ray Serve deploys them; nothing is sent over these. `bounds`: the smallest
        and the largest number of replicas of each role."""
        del workers
        self._token = access(Settings()).token
        self._seen: dict[tuple[str, str], tuple[float, Load]] = {}
        self._bounds = bounds

    async def register(self, role: str, address: str, *, in_use: float = 0.0, waiting: float = 0.0) -> None:
        """List a worker from now on. `in_use`, `waiting`: its load since it last registered."""
        self._seen[role, address] = time.monotonic(), Load(in_use, waiting)

    async def scaling(self) -> dict[str, dict[str, Any]]:
        """For each role `replicas_min`, `replicas_max` and `load`: slots in use and requests that wait, for each worker
        on average; None without a worker."""
        loads: dict[str, list[float]] = {}
        for (role, _), (_, load) in self._registered().items():
            loads.setdefault(role, []).append(load.in_use + load.waiting)
        return {
            role: {
                "replicas_min": fewest,
                "replicas_max": most,
                "load": round(sum(loads[role]) / len(loads[role]), 2) if role in loads else None,
            }
            for role, (fewest, most) in self._bounds.items()
        }

    def _registered(self) -> dict[tuple[str, str], tuple[float, Load]]:
        earliest = time.monotonic() - REGISTERED_S
        self._seen = {worker: own for worker, own in self._seen.items() if own[0] > earliest}
        return self._seen

    async def __call__(self, request: Request) -> Response:
        given = request.headers.get(TOKEN_HEADER, "")
        if not hmac.compare_digest(given.encode(), self._token.encode()):
            return Response(status_code=401)
        found = sorted(self._registered())
        return JSONResponse({"workers": [{"role": role, "address": address} for role, address in found]})


def build(arguments: Mapping[str, Any]) -> serve.Application:
    """The application. Ray Serve calls this with the arguments of its configuration."""
    own = Arguments(**arguments)
    shared = own.model_dump(mode="json", exclude={"roles"})
    deployment: Any = serve.deployment
    workers = [
        deployment(
            Worker,
            name=f"worker-{role}",
            **_number(size, own),
            ray_actor_options={"num_cpus": size.cpus, "num_gpus": size.gpus},
            max_ongoing_requests=16,
            health_check_period_s=_HEALTH_S,
            health_check_timeout_s=30,
            graceful_shutdown_wait_loop_s=1,
            graceful_shutdown_timeout_s=own.drain_s + 10,
            logging_config=_LOGGING,
        ).bind(role, shared)
        for role, size in own.roles.items()
        if size.replicas  # Ray Serve has no deployment without a replica
    ]
    directory = deployment(
        Directory,
        name=DIRECTORY,
        num_replicas=1,
        ray_actor_options={"num_cpus": 0},
        max_ongoing_requests=1000,
        logging_config=_LOGGING,
    )
    bounds = {role: (size.replicas, size.most) for role, size in own.roles.items()}
    application: serve.Application = directory.bind(workers, bounds)
    return application


def _number(size: RoleSize, own: Arguments) -> dict[str, Any]:
    """The number of replicas, for Ray Serve."""
    if size.most == size.replicas:
        return {"num_replicas": size.replicas}
    return {
        "autoscaling_config": {
            "min_replicas": size.replicas,
            "max_replicas": size.most,
            "target_ongoing_requests": own.target_load,
            "upscale_delay_s": own.scale_up_s,
            "downscale_delay_s": own.scale_down_s,
            "look_back_period_s": own.load_s,
            "policy": {"policy_function": _POLICY},
        }
    }
