"""What the processes of jobs on a Ray cluster call, on a port of its own (`RAY_PORT`).

Each request has the credential of its attempt in `Authorization`, which is checked before the body is read.
"""

from typing import Annotated, TypeVar

from fastapi import APIRouter, Depends, Request, Response
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from core.errors import InvalidInput
from gpu_workers.jobs.protocol import Wire
from gpu_workers.remote import wire
from service.capability import Capability
from service.config.settings import Settings
from service.http.body import check_json
from service.jobs.remote import RemoteStart
from service.parts import Part, Parts
from service.ray.attempts import RayAttempt, RayJobs, SessionRefused

Model = TypeVar("Model", bound=Wire)

router = APIRouter(prefix=f"{wire.PREFIX}/{{job_id}}", include_in_schema=False)


async def _attempt(job_id: str, jobs: Part[RayJobs]) -> RayAttempt:
    return jobs.attempt(job_id)


async def _credential(request: Request) -> str:
    scheme, _, credential = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        raise SessionRefused
    return credential


AttemptDep = Annotated[RayAttempt, Depends(_attempt)]
CredentialDep = Annotated[str, Depends(_credential)]


@router.post("/order")
async def get_order(attempt: AttemptDep, token: CredentialDep) -> Response:
    """Exchange a token for the order and a session."""
    return Response(attempt.redeem(token), media_type="application/octet-stream")


@router.post("/messages")
async def exchange(attempt: AttemptDep, secret: CredentialDep, request: Request) -> Response:
    """Take messages, and answer with answers to earlier ones."""
    attempt.session(secret)
    sent = await _body(request, wire.Exchanged)
    answers = await attempt.exchange(attempt.session(secret), sent)
    return Response(wire.ANSWERS.dump_json(answers), media_type="application/json")


@router.post("/checkpoint")
async def take_checkpoint(attempt: AttemptDep, secret: CredentialDep, request: Request) -> Response:
    """Make files that are in the blob store the job's checkpoint."""
    attempt.main_session(secret)
    await attempt.checkpoint(await _body(request, wire.CheckpointReport))
    return Response()


@router.post("/tokens")
async def make_token(attempt: AttemptDep, secret: CredentialDep) -> Response:
    """Make a token for a process that draws shards."""
    attempt.main_session(secret)
    return Response(attempt.new_token(), media_type="text/plain")


async def _body(request: Request, model: type[Model]) -> Model:
    """Raises HTTPException 413 and as `check_json`; InvalidInput."""
    content = b""
    async for chunk in request.stream():
        content += chunk
        if len(content) > wire.BODY_BYTES_MAX:
            raise HTTPException(413)
    check_json(content, request.app.state.json_limits)
    try:
        return model.model_validate_json(content)
    except ValidationError:
        raise InvalidInput("The body has not the form that this path takes.", field="body") from None


def _jobs(parts: Parts) -> RayJobs | None:
    settings = parts[Settings]
    return RayJobs(settings) if settings.jobs_on == "ray" else None


async def _close(parts: Parts) -> None:
    jobs = parts.find(RayJobs)
    if jobs is not None:
        await jobs.client.close()


CAPABILITY = Capability(
    name="ray",
    cluster_routers=[router],
    services={RayJobs: _jobs, RemoteStart: lambda parts: parts.find(RayJobs)},
    leave=_close,
)
