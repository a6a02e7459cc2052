"""Shared by the commands that send a job to a running gateway: the client, waiting for the job, its files."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.common import draw_progress, end_progress

if TYPE_CHECKING:
    import httpx

KEY_VARIABLE = "PRIVACY_GATEWAY_API_KEY"
Url = Annotated[str, typer.Option(help="The gateway.")]
KeyFile = Annotated[
    Path | None, typer.Option(help=f"File with the tenant's API key.  [default: the variable {KEY_VARIABLE}]")
]
URL_DEFAULT = "http://127.0.0.1:8000"
_POLL_S = 0.5
_FAILED = ("failed", "cancelled")


@contextmanager
def one_line_errors(*, too_long: str) -> Iterator[None]:
    """End the command with 1 and one line for an expected error. `too_long`: the message where a URL is too long."""
    import httpx

    try:
        yield
    except KeyboardInterrupt:
        typer.echo("stopped watching; the job continues, and the same command finds it", err=True)
        raise typer.Exit(1) from None
    except httpx.InvalidURL:
        typer.echo(f"error: {too_long}", err=True)
        raise typer.Exit(1) from None
    except httpx.HTTPError as error:
        typer.echo(f"error: the gateway does not answer: {type(error).__name__}", err=True)
        raise typer.Exit(1) from None
    except (ValueError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None


@contextmanager
def gateway_client(url: str, key_file: Path | None) -> Iterator[httpx.Client]:
    import httpx

    headers = {"Authorization": f"Bearer {_api_key(key_file)}"}
    with httpx.Client(base_url=url, headers=headers, timeout=httpx.Timeout(30.0, read=600.0)) as client:
        yield client


def _api_key(key_file: Path | None) -> str:
    from core.credentials import api_key
    from core.files.secret_file import read_secret

    if key_file is not None:
        advice = "`privacy-gateway key create TENANT --key-file FILE` writes a new one"
        return read_secret(key_file, lambda content: api_key(content.decode(errors="replace")), advice=advice)
    given = os.environ.get(KEY_VARIABLE, "")
    if not given:
        raise ValueError(f"give the tenant's API key by --key-file or in {KEY_VARIABLE}")
    return api_key(given)


def wait_for(client: httpx.Client, job: dict[str, Any]) -> dict[str, Any]:
    """The job once it has succeeded. Raises ValueError with the reason of its failure."""
    seen = None
    while job["status"] not in ("succeeded", *_FAILED):
        if (job["progress"], job["stage"]) != seen:
            seen = (job["progress"], job["stage"])
            draw_progress(*seen)
        time.sleep(_POLL_S)
        job = checked(client.get(f"/jobs/{job['job_id']}")).json()
    end_progress()
    if job["status"] in _FAILED:
        problem = job.get("problem", {})
        line = f" (line {problem['line']})" if "line" in problem else ""
        spent = job["spent"]["epsilon"]
        why = f"{problem.get('reason', job['status'])}: {problem.get('detail', 'The job was cancelled.')}{line}"
        raise ValueError(f"{why} Spent: epsilon {spent:g}. Use another --name to start over.")
    return job


def save(answer: httpx.Response, path: Path) -> None:
    if answer.is_error:
        answer.read()
    checked(answer)
    with path.open("wb") as file:
        for piece in answer.iter_bytes():
            file.write(piece)


def checked(answer: httpx.Response) -> httpx.Response:
    """`answer`. Raises ValueError with the text of a problem."""
    if not answer.is_error:
        return answer
    try:
        problem = answer.json()
    except ValueError:
        raise ValueError(f"the gateway answered {answer.status_code}") from None
    lines = [f"{problem['code']}: {problem.get('detail', problem['title'])}"]
    lines += [f"{error['field']}: {error.get('message', error.get('kind'))}" for error in problem.get("errors", [])]
    if "remaining" in problem:
        left = problem["remaining"]
        lines.append(f"{problem['account']} has epsilon {left['epsilon']:g}, delta {left['delta']:g} left")
        lines.append("Rerunning returns this result; use another --name to start over.")
    raise ValueError("; ".join(lines))
