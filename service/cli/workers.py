"""`privacy-gateway workers`: run the workers of gateways on a Ray cluster, by Ray Serve.

These commands connect to the cluster as Ray programs do. Run them without the keys of a gateway in the environment.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import ValidationError

from service.cli.common import AsJson, print_json

if TYPE_CHECKING:
    from types import ModuleType

APPLICATION = "privacy-gateway"
_ANSWER_S = 10.0
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_AUTO_CONNECT": "0"}

workers_app = typer.Typer(no_args_is_help=True, help="Run workers on a Ray cluster.")
Address = Annotated[str, typer.Option(help="Address of the cluster's head, or auto.")]


@workers_app.command("start")
def start(
    role: Annotated[
        list[str] | None,
        typer.Option(
            help="ROLE=REPLICAS[,CPUS[,GPUS]], such as embed=2,4,1; embed=2-8,4,1 follows the load. Repeatable."
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Address at which each node serves the directory.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port of the directory.")] = 8000,
    port_first: Annotated[int, typer.Option(help="First port of the workers of a node.")] = 9600,
    port_last: Annotated[int, typer.Option(help="Last port of the workers of a node.")] = 9699,
    target_load: Annotated[
        float, typer.Option(help="Batches in work or waiting for each worker of a role with a range; below 2.")
    ] = 1.0,
    scale_up_s: Annotated[float, typer.Option(help="How long more workers must be needed, seconds.")] = 30.0,
    scale_down_s: Annotated[float, typer.Option(help="How long fewer workers must be needed, seconds.")] = 600.0,
    load_s: Annotated[float, typer.Option(help="The time over which the load is averaged, seconds; above 10.")] = 30.0,
    server: Annotated[str | None, typer.Option(hidden=True)] = None,
    address: Address = "auto",
) -> None:
    """Start the workers, or change their number, and return once they are ready."""
    arguments: dict[str, Any] = {
        "port_first": port_first,
        "port_last": port_last,
        "target_load": target_load,
        "scale_up_s": scale_up_s,
        "scale_down_s": scale_down_s,
        "load_s": load_s,
    }
    if role:
        arguments["roles"] = dict(_size(text) for text in role)
    if server is not None:
        arguments["server"] = server
    serve = _connect(address)
    from service.ray_serve.application import build

    try:
        application = build(arguments)
        serve.start(proxy_location="EveryNode", http_options={"host": host, "port": port})
        serve.run(application, name=APPLICATION, route_prefix="/")
    except ValidationError as error:
        typer.echo(f"error: {'; '.join(_stated(each) for each in error.errors())}", err=True)
        raise typer.Exit(1) from None
    except (ValueError, RuntimeError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    typer.echo("the workers are ready")


@workers_app.command("status")
def status(as_json: AsJson = False, address: Address = "auto") -> None:
    """Show the state of the workers of each role, how many there may be, and their load."""
    serve = _connect(address)
    found: Any = serve.status().applications.get(APPLICATION)
    if found is None:
        typer.echo("error: the workers are not started", err=True)
        raise typer.Exit(1)
    roles: dict[str, dict[str, Any]] = {
        name.removeprefix("worker-"): {
            "status": str(one.status.value),
            "replicas": dict(one.replica_states),
            "message": _reason(one.message),
        }
        for name, one in found.deployments.items()
    }
    for name, scaling in _scaling(serve).items():
        if name in roles:
            roles[name] |= scaling
    if as_json:
        print_json({"status": str(found.status.value), "roles": roles})
        return
    typer.echo(f"{found.status.value}")
    for name, row in roles.items():
        states = ", ".join(f"{count} {state}" for state, count in row["replicas"].items())
        typer.echo(f"{name}\t{row['status']}\t{states}{_shown(row)}")
        if row["message"]:
            typer.echo(f"\t{row['message']}")


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


def _scaling(serve: Any) -> dict[str, dict[str, Any]]:
    """The limits and the load of each role, as the directory has them; empty while it does not answer."""
    try:
        found: dict[str, dict[str, Any]] = (
            serve.get_app_handle(APPLICATION).scaling.remote().result(timeout_s=_ANSWER_S)
        )
    except Exception:  # the application is being started or has ended
        return {}
    return found


def _reason(message: str) -> str:
    """What Ray Serve says of a deployment; of an error with its lines of code, the error alone."""
    lines = message.strip().splitlines()
    return lines[-1].strip() if lines else ""


def _shown(row: dict[str, Any]) -> str:
    if "replicas_max" not in row:
        return ""
    fewest, most, load = row["replicas_min"], row["replicas_max"], row["load"]
    number = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    return f"\tof {number}" + ("" if load is None else f"\tload {load}")


def _stated(error: Any) -> str:
    place = ".".join(str(part) for part in error["loc"])
    return f"{place}: {error['msg']}" if place else str(error["msg"])


def _size(text: str) -> tuple[str, dict[str, float]]:
    """A role and its size. Raises typer.BadParameter."""
    role, _, amounts = text.partition("=")
    number, *resources = amounts.split(",")
    fewest, dash, most = number.partition("-")
    try:
        size: dict[str, float] = {"replicas": int(fewest), **({"replicas_max": int(most)} if dash else {})}
        size |= dict(zip(("cpus", "gpus"), map(float, resources), strict=False))
    except ValueError:
        size = {}
    if not size or len(resources) > 2:
        raise typer.BadParameter("a role is ROLE=REPLICAS[,CPUS[,GPUS]], where REPLICAS is a number or MIN-MAX")
    return role, size
