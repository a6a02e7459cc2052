"""Checks recognisers, and tries drafts of them on a text."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from core.errors import InvalidInput
from core.text.own_recognisers.definition import Definition, Limits
from core.text.own_recognisers.recogniser import DraftFinds, check
from core.text.policy import ENTITIES, OWN_THRESHOLD
from gpu_workers.engine.protocol import Role, Task
from gpu_workers.handlers.own_finder import DraftTask
from service.isolation import IN_LOOP_SIZE_MAX, Isolation
from service.releases.request import ReleaseRequest
from service.sanitize.recognisers.store import DraftBody, RecogniserBody

TEST_CHARS_MAX = 100_000  # of a text that a recogniser is tried on: an answer lists up to 1,000 finds in it


class RecogniserTrials:
    """Checks and tries recognisers. Stores nothing."""

    def __init__(self, isolation: Isolation) -> None:
        self._isolation = isolation

    async def checked(self, tenant: str, body: RecogniserBody) -> Definition:
        """The definition of `body`. Raises InvalidInput, which repeats nothing of it; NotStarted."""
        return (await self._checked(tenant, body))[0]

    async def _checked(self, tenant: str, body: RecogniserBody) -> tuple[Definition, int]:
        """The definition, and the instructions to which its patterns compile. Raises InvalidInput, NotStarted."""
        definition = body.definition()
        # A pattern of a few characters may take a second to compile.
        least = IN_LOOP_SIZE_MAX if not definition.patterns else 0
        size = await self._isolation.run(
            tenant, definition.size, check, definition, Limits(), field="patterns", in_loop_size_max=least
        )
        return definition, size

    async def release_request(self, tenant: str, body: DraftBody) -> ReleaseRequest:
        """The request that tries a draft in a worker. Raises InvalidInput, NotStarted."""
        if len(body.text) > TEST_CHARS_MAX:
            raise InvalidInput(f"at most {TEST_CHARS_MAX} characters", field="text")
        try:
            definition, instructions = await self._checked(tenant, body.recogniser)
        except InvalidInput as error:
            error.field = f"recogniser.{error.field}"
            raise
        entity = definition.entity
        threshold = body.threshold or (ENTITIES[entity].threshold if entity in ENTITIES else OWN_THRESHOLD)
        task = DraftTask(body.text, definition.packed(), threshold, instructions)

        def render(results: list[DraftFinds], _common: dict[str, Any]) -> dict[str, Any]:
            (result,) = results
            finds = [asdict(find) | {"list": "deny" if find.pattern is None else "patterns"} for find in result.finds]
            return {"entity": entity or None, "threshold": threshold, "finds": finds, "total": result.total}

        return ReleaseRequest(charges=(), role=Role.SANITIZE, tasks=[Task(task, task.weight)], render=render)
