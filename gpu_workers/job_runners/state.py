"""What a job runner tells gateways about itself. All of it is public and holds nothing of a job."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_workers.engine.remote.frames import BadFrame, frame
from gpu_workers.job_runners.frames import Kind, read


@dataclass(frozen=True)
class RunnerState:
    """`schema`: `Codec.schema` of the runner. `instance` changes when it is started again. `fingerprint`: of the schema
    and of the models and lists that decide what jobs make. `draining`: it grants no place and its jobs leave it.
    `places`: how many jobs it runs at once; `free`: how many more it takes now. `stage`: for people."""

    schema: str
    instance: str
    fingerprint: str
    stage: str
    draining: bool
    places: int
    free: int

    ready = True  # a runner loads no model before it has a job
    failure = ""

    @property
    def shown(self) -> str:
        return "draining" if self.draining else self.stage

    def message(self) -> bytes:
        return frame(Kind.STATE, vars(self))

    @classmethod
    def read(cls, message: bytes) -> RunnerState:
        """Raises BadFrame for anything else than the message of a state."""
        kind, body = read(message)
        if kind is not Kind.STATE or not isinstance(body, dict):
            raise BadFrame("not a state")
        try:
            schema, instance, fingerprint, stage = (
                str(body[name])[:500] for name in ("schema", "instance", "fingerprint", "stage")
            )
            draining, places, free = bool(body["draining"]), int(body["places"]), int(body["free"])
            return cls(schema, instance, fingerprint, stage, draining, places, free)
        except (KeyError, TypeError, ValueError):
            raise BadFrame("not a state") from None
