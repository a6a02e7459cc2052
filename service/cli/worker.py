"""`privacy-gateway worker`: a worker that gateways on other machines use."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import typer

from service.cli.common import DataDir, load_settings


def worker(
    role: Annotated[str, typer.Option(help="embed, sanitize, fill or jobs.")],
    listen: Annotated[str, typer.Option(help="Address to listen on: HOST:PORT, or unix:PATH.")],
    device: Annotated[
        str | None, typer.Option(help="Device of the model, such as cuda:0.  [default: as the settings say]")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Of the role jobs: jobs at once.  [default: as the settings say]")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Run a worker for gateways with ENGINE=remote or JOBS=remote; stays in the foreground.

    SIGTERM lets it finish the batches that it has; jobs leave it, and continue elsewhere from their checkpoints.
    """
    from gpu_workers.engine.protocol import Role
    from gpu_workers.engine.remote.process import Server, serve_until_signal
    from gpu_workers.environment import drop_other_variables
    from service.config.job_runner_options import JOBS, job_runner
    from service.config.worker_options import worker_server

    if role not in {*Role, JOBS}:
        raise typer.BadParameter(f"the roles are {', '.join((*Role, JOBS))}")
    if jobs is not None and role != JOBS:
        raise typer.BadParameter("--jobs is for the role jobs")
    settings = load_settings(data_dir)
    drop_other_variables()

    def make() -> Server:
        if role == JOBS:
            return job_runner(settings, listen, device=device, places=jobs)
        return worker_server(settings, Role(role), listen, device=device)

    async def serve() -> int:
        return await serve_until_signal(make, drain_s=settings.worker_drain_s)

    sys.exit(asyncio.run(serve()))
