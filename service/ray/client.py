"""The HTTP interface of a Ray cluster by which jobs are submitted. The gateway uses no other port of the cluster.

Every answer is JSON of a known form and bounded length; no part of it is shown or logged.
"""

import ssl
from typing import Any

import httpx
from pydantic import BaseModel, TypeAdapter

from gpu_workers.remote.wire import checked_address
from service.config.settings import Settings

_TIMEOUT_S = 20.0
_ANSWER_BYTES_MAX = 16 * 1024 * 1024  # a list of thousands of jobs
ENDED = frozenset({"STOPPED", "SUCCEEDED", "FAILED"})


class RayUnavailable(Exception):
    """The cluster cannot be reached, or its answer cannot be used."""


class RayJob(BaseModel):
    """What Ray says of a job that was submitted."""

    submission_id: str | None = None
    status: str


_JOBS = TypeAdapter(list[RayJob])


class RayClient:
    """Every method raises RayUnavailable."""

    def __init__(self, settings: Settings) -> None:
        """Opens no connection. Raises ValueError, OSError for an address or a CA that cannot be used."""
        token = settings.ray_token.get_secret_value() if settings.ray_token else ""
        address = checked_address(settings.ray_url, "RAY_URL", plain_http=settings.ray_plain_http)
        self._client = httpx.AsyncClient(
            base_url=f"{address}/api/jobs/",
            headers={"Authorization": f"Bearer {token}", "Accept-Encoding": "identity"},
            timeout=_TIMEOUT_S,
            trust_env=False,
            follow_redirects=False,
            verify=ssl.create_default_context(cafile=settings.ray_ca_file),
        )

    async def submit(
        self, submission_id: str, command: str, environment: dict[str, str], *, cpus: int, gpus: int
    ) -> None:
        """Start a command on the cluster, once for each id."""
        body = {
            "submission_id": submission_id,
            "entrypoint": command,
            "runtime_env": {"env_vars": environment},
            "entrypoint_num_cpus": cpus,
            "entrypoint_num_gpus": gpus,
        }
        try:
            await self._answer("POST", "", body)
        except RayUnavailable:
            if await self.status(submission_id) is None:  # else an earlier request, whose answer was lost
                raise

    async def status(self, submission_id: str) -> str | None:
        """None for a job that the cluster does not know."""
        content = await self._answer("GET", submission_id)
        try:
            return None if content is None else RayJob.model_validate_json(content).status
        except ValueError:
            raise RayUnavailable from None

    async def running(self, prefix: str) -> list[str]:
        """The submission ids that begin so, of jobs that have not ended."""
        try:
            jobs = _JOBS.validate_json(await self._answer("GET", "") or b"[]")
        except ValueError:
            raise RayUnavailable from None
        ids = [job.submission_id for job in jobs if job.status not in ENDED and job.submission_id is not None]
        return [each for each in ids if each.startswith(prefix)]

    async def stop(self, submission_id: str) -> None:
        await self._answer("POST", f"{submission_id}/stop")

    async def close(self) -> None:
        await self._client.aclose()

    async def _answer(self, method: str, path: str, body: dict[str, Any] | None = None) -> bytes | None:
        """None for 404."""
        content = b""
        try:
            async with self._client.stream(method, path, json=body) as answer:
                if answer.status_code == httpx.codes.NOT_FOUND:
                    return None
                if answer.status_code != httpx.codes.OK:
                    raise RayUnavailable
                async for chunk in answer.aiter_raw():
                    content += chunk
                    if len(content) > _ANSWER_BYTES_MAX:
                        raise RayUnavailable
        except httpx.HTTPError:
            raise RayUnavailable from None
        return content
