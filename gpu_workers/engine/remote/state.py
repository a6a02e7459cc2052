"""What a worker server tells gateways about itself. All of it is public and holds nothing of a request."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import msgpack

from gpu_workers.engine.protocol import Role
from gpu_workers.engine.remote.codec import Codec
from gpu_workers.engine.remote.frames import BadFrame, Kind, frame, read
from gpu_workers.facts import EmbedderFacts, SanitiserFacts, WorkerFacts


@dataclass(frozen=True)
class WorkerState:
    """`schema`: `Codec.schema` of the worker. `instance` changes when the server is started again. `fingerprint`: of
    the models, packs and lists that the worker has loaded; empty until it was ready. `draining`: it finishes what it
    has and grants no slot. `waiting`: how many requests for a slot wait, over all gateways. `pid`: of the handler's
    process, for operators."""

    role: Role
    schema: str
    instance: str
    ready: bool
    stage: str
    failure: str
    fingerprint: str
    facts: WorkerFacts | None
    draining: bool
    deaths: int
    waiting: int
    pid: int

    @property
    def shown(self) -> str:
        """The stage, with the reason of the last failure."""
        stage = "draining" if self.draining else self.stage
        return f"{stage}; the last start failed: {self.failure}" if self.failure else stage

    def message(self, codec: Codec) -> bytes:
        own = dict(vars(self))
        own["role"], own["facts"] = self.role.value, None if self.facts is None else codec.encode(self.facts)
        return frame(Kind.STATE, own)

    @classmethod
    def read(cls, message: bytes, codec: Codec) -> WorkerState:
        """Raises BadFrame for anything else than the message of a state, and Undecodable for its facts."""
        kind, body = read(message)
        if kind is not Kind.STATE or not isinstance(body, dict):
            raise BadFrame("not a state")
        facts = None if body.get("facts") is None else codec.decode(body["facts"])
        if not (facts is None or isinstance(facts, EmbedderFacts | SanitiserFacts)):
            raise BadFrame("no facts of a worker")
        try:
            return cls(**_typed(body) | {"facts": facts})
        except (KeyError, TypeError, ValueError):
            raise BadFrame("not a state") from None


def _typed(body: dict[Any, Any]) -> dict[str, Any]:
    texts = {name: str(body[name])[:500] for name in ("schema", "instance", "stage", "failure", "fingerprint")}
    flags = {name: bool(body[name]) for name in ("ready", "draining")}
    numbers = {name: int(body[name]) for name in ("deaths", "waiting", "pid")}
    return texts | flags | numbers | {"role": Role(body["role"])}


def fingerprint(facts: WorkerFacts, codec: Codec, content: str) -> str:
    """A digest of what decides a worker's results: the facts but for the name and speed of the device, the classes that
    are sent, and `content`, a digest of the operator's own packs and lists."""
    if isinstance(facts, EmbedderFacts):
        facts = replace(facts, encoder=replace(facts.encoder, device=_kind(facts.encoder.device), tokens_per_s=0))
    elif facts.tagger is not None:
        facts = replace(facts, tagger=replace(facts.tagger, device=_kind(facts.tagger.device)))
    whole = [codec.schema, content, repr(facts)]
    return hashlib.sha256(msgpack.packb(whole)).hexdigest()


def _kind(device: str) -> str:
    return device.partition(":")[0]
