"""`privacy-gateway workers`: run the workers of gateways on a Ray cluster, by Ray Serve.

These commands connect to the cluster as Ray programs do. Run them without the keys of a gateway in the environment.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.common import AsJson, print_json

if TYPE_CHECKING:
    from types import ModuleType

APPLICATION = "privacy-gateway"
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_AUTO_CONNECT": "0"}

workers_app = typer.Typer(no_args_is_help=True, help="Run workers on a Ray cluster.")
Address = Annotated[str, typer.Option(help="Address of the cluster's head, or auto.")]


@workers_app.command("start")
def start(
    role: Annotated[
        list[str] | None,
        typer.Option(help="ROLE=REPLICAS[,CPUS[,GPUS]], such as embed=2,4,1. May be repeated."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address at which each node serves the directory.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port of the directory.")] = 8000,
    port_first: Annotated[int, typer.Option(help="First port of the workers of a node.")] = 9600,
    port_last: Annotated[int, typer.Option(help="Last port of the workers of a node.")] = 9699,
    server: Annotated[str | None, typer.Option(hidden=True)] = None,
    address: Address = "auto",
) -> None:
    """Start the workers, or change their number, and return once they are ready."""
    serve = _connect(address)
    from service.ray_serve.application import build

    arguments: dict[str, Any] = {"port_first": port_first, "port_last": port_last}
    if role:
        arguments["roles"] = dict(_size(text) for text in role)
    if server is not None:
        arguments["server"] = server
    try:
        serve.start(proxy_location="EveryNode", http_options={"host": host, "port": port})
        serve.run(build(arguments), name=APPLICATION, route_prefix="/")
    except (ValueError, RuntimeError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    typer.echo("the workers are ready")


@workers_app.command("status")
def status(as_json: AsJson = False, address: Address = "auto") -> None:
    """Show the state of the workers of each role."""
    found: Any = _connect(address).status().applications.get(APPLICATION)
    if found is None:
        typer.echo("error: the workers are not started", err=True)
        raise typer.Exit(1)
    roles: dict[str, dict[str, Any]] = {
        name.removeprefix("worker-"): {"status": str(one.status.value), "replicas": dict(one.replica_states)}
        for name, one in found.deployments.items()
    }
    if as_json:
        print_json({"status": str(found.status.value), "roles": roles})
        return
    typer.echo(f"{found.status.value}")
    for name, row in roles.items():
        states = ", ".join(f"{count} {state}" for state, count in row["replicas"].items())
        typer.echo(f"{name}\t{row['status']}\t{states}")


@workers_app.command("stop")
def stop(address: Address = "auto") -> None:
    """Let the workers finish what they have, and end them."""
    _connect(address).delete(APPLICATION)
    typer.echo("the workers have ended")


def _connect(address: str) -> ModuleType:
    os.environ.update(QUIET)
    try:
        import ray
        from ray import serve
    except ImportError:
        typer.echo("error: Ray is not installed: pip install 'privacy-gateway[ray]'", err=True)
        raise typer.Exit(1) from None
    try:
        ray.init(address=address, log_to_driver=False, configure_logging=False, namespace="serve")
    except ConnectionError:
        typer.echo(f"error: there is no Ray cluster at {address}", err=True)
        raise typer.Exit(1) from None
    return serve


def _size(text: str) -> tuple[str, dict[str, float]]:
    role, _, amounts = text.partition("=")
    try:
        numbers = [float(number) for number in amounts.split(",")]
    except ValueError:
        numbers = []
    if not 1 <= len(numbers) <= 3 or numbers[0] != int(numbers[0]):
        raise typer.BadParameter("a role is ROLE=REPLICAS[,CPUS[,GPUS]]")
    return role, dict(zip(("replicas", "cpus", "gpus"), (int(numbers[0]), *numbers[1:]), strict=False))
