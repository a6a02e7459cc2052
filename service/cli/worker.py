"""`privacy-gateway worker`: a worker that gateways on other machines use."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import typer

from service.cli.common import DataDir, load_settings


def worker(
    role: Annotated[str, typer.Option(help="embed, sanitize or fill.")],
    listen: Annotated[str, typer.Option(help="Address to listen on: HOST:PORT, or unix:PATH.")],
    device: Annotated[
        str | None, typer.Option(help="Device of the model, such as cuda:0.  [default: as the settings say]")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Run a worker for gateways with ENGINE=remote; stays in the foreground. SIGTERM lets it finish what it has."""
    from gpu_workers.engine.protocol import Role
    from gpu_workers.engine.remote.process import serve_until_signal
    from gpu_workers.environment import drop_other_variables
    from service.config.worker_options import worker_server

    if role not in set(Role):
        raise typer.BadParameter(f"the roles are {', '.join(Role)}")
    settings = load_settings(data_dir)
    drop_other_variables()

    async def serve() -> int:
        return await serve_until_signal(
            lambda: worker_server(settings, Role(role), listen, device=device), drain_s=settings.worker_drain_s
        )

    sys.exit(asyncio.run(serve()))
