"""The order that a gateway sends to a job runner: what to run, under which limits, and the files that follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from gpu_workers.engine.remote.frames import BadFrame, frame
from gpu_workers.job_runners.frames import FILES_MAX, Kind, Listed, listed, read
from gpu_workers.job_runners.kinds import is_needed, is_output
from gpu_workers.jobs.folder import GATEWAY_ONLY, OUTPUTS, is_plain
from gpu_workers.jobs.messages import Priority

_SECONDS_MAX = 1e9


def is_job_file(name: object) -> bool:
    """Whether a job's process may have written a file of this name, or reads it as its input."""
    return is_plain(name) and name not in GATEWAY_ONLY and name != OUTPUTS


@dataclass(frozen=True)
class Order:
    """`spec`: encoded. `files`: of the job's folder; `needed`: what travels with them. `outputs`: what the job makes,
    by names that `is_output` accepts."""

    entry_point: str
    key: bytes = field(repr=False)
    spec: bytes
    priority: Priority
    memory_bytes_max: int
    seconds_max: float
    files: Sequence[Listed]
    needed: Sequence[Listed]
    outputs: Sequence[str]

    @property
    def size(self) -> int:
        """Of all files that follow."""
        return sum(each.size for each in (*self.files, *self.needed))

    def message(self) -> bytes:
        own: dict[str, Any] = dict(vars(self))
        for name in ("files", "needed"):
            own[name] = [[each.name, each.size] for each in own[name]]
        return frame(Kind.ORDER, own | {"outputs": list(self.outputs)})

    @classmethod
    def of(cls, message: bytes) -> Order:
        """Read an order. Raises BadFrame for anything else, and for names and numbers that a job cannot have."""
        kind, body = read(message)
        if kind is not Kind.ORDER or not isinstance(body, dict):
            raise BadFrame("not an order")
        try:
            files = listed(body["files"], is_job_file)
            needed = listed(body["needed"], is_needed)
            outputs = [str(name) for name in body["outputs"]]
            if len(outputs) > FILES_MAX or not all(map(is_output, outputs)):
                raise BadFrame("not an output of a job")
            if body["priority"] not in get_args(Priority):
                raise BadFrame("not a priority")
            return cls(
                entry_point=str(body["entry_point"]),
                key=bytes(body["key"]),
                spec=bytes(body["spec"]),
                priority=body["priority"],
                memory_bytes_max=max(0, int(body["memory_bytes_max"])),
                seconds_max=min(_SECONDS_MAX, float(body["seconds_max"])),
                files=files,
                needed=needed,
                outputs=outputs,
            )
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, BadFrame):
                raise
            raise BadFrame("not an order") from None
