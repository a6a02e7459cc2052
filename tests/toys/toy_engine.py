"""A toy engine: it answers every task at once and by itself, without a model.

It needs no queue, because no task waits. An engine whose tasks wait takes its admission, order, deadlines and
cancellation from `gpu_workers.engine.task_queue`.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np

from core.errors import ClientGone
from core.text.policy import Sanitised, SanitizeTask, Span, Spans
from gpu_workers.engine.arrays import ArrayPool
from gpu_workers.engine.protocol import Role, RoleStatus, Task
from gpu_workers.engine.task_queue import Engine
from gpu_workers.facts import EmbedderFacts, EncoderFacts, SanitiserFacts, WordVectorFacts
from gpu_workers.handlers.tasks import EmbedRelease, EmbedTask

DIMENSION = 384  # of the domain `general`
TEXT = "[TOY]"

_ENCODER = EncoderFacts(
    name="toy", fingerprint="toy", dimension=DIMENSION, tokens_max=8, device="none", dtype="float32", packed=False,
    fixed_batches=False,
)  # fmt: skip
FACTS = {
    Role.EMBED: EmbedderFacts(
        encoder=_ENCODER, domains=("general",), mechanisms=("sentence_codes",), vector_mechanisms=(),
        vector_pack=None, unit="sentence",
    ),
    Role.SANITIZE: SanitiserFacts(
        techniques=("all",), fills=("marker",), infill=None, word_vectors=WordVectorFacts(words=0, dimension=0),
        word_mechanisms=(), tagger=None, entities=(), default_entities=(), thresholds={}, allow_lists=(), versions={},
    ),
}  # fmt: skip


class ToyEngine(Engine):
    """Guarantee of its answers: they are independent of the documents."""

    def __init__(self) -> None:
        super().__init__({})
        self.arrays = ArrayPool()

    @property
    def roles(self) -> Sequence[Role]:
        return tuple(FACTS)

    async def start(self) -> None:
        """Nothing is loaded."""

    async def stop(self) -> None:
        """Nothing is left to end."""

    async def run(
        self,
        role: Role,
        tasks: Sequence[Task],
        *,
        tenant: str,
        timeout_s: float,
        client_disconnected: asyncio.Event,
        isolate_failures: bool = False,
    ) -> list[Any]:
        if client_disconnected.is_set():
            raise ClientGone
        return [self.answer(task.payload) for task in tasks]

    async def wait_for_capacity(self, role: Role, tasks: Sequence[Task], *, tenant: str, timeout_s: float) -> None:
        """There is always capacity."""

    def status(self, role: Role) -> RoleStatus:
        return RoleStatus(ready=True, stage="ready", queued=0, facts=FACTS[role])

    @staticmethod
    def answer(payload: EmbedTask | SanitizeTask) -> EmbedRelease | Sanitised:
        if isinstance(payload, SanitizeTask):
            return Sanitised(TEXT, Spans.of([Span(0, len(TEXT), "WORD", "all")]), masked_tokens=1, tokens=1)
        return EmbedRelease(np.full(DIMENSION, DIMENSION**-0.5, dtype=np.float32), "encoder")
