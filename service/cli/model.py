"""`privacy-gateway model`: download checkpoints for settings that name one."""

from __future__ import annotations

from typing import Annotated

import typer

from service.cli.common import DataDir

model_app = typer.Typer(no_args_is_help=True, help="Fetch model checkpoints of a hub.")


@model_app.callback()
def _group() -> None:
    """Typer needs a callback to keep a single command as a subcommand."""


@model_app.command("fetch")
def fetch_checkpoint(
    name: Annotated[str, typer.Argument(metavar="ORG/NAME@COMMIT", help="The commit by its 40 hexadecimal digits.")],
    data_dir: DataDir = None,
) -> None:
    """Download a checkpoint's safetensors weights, tokeniser and configuration into the data directory."""
    from service.config.checkpoints import fetch
    from service.config.settings import Settings

    try:  # the gateway's settings are not loaded: they may name the checkpoint that is to be downloaded
        typer.echo(fetch(data_dir or Settings.model_fields["data_dir"].default, name))
    except (ValueError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
