"""What the front end and the engine exchange: roles, tasks and the state of workers. It imports no torch.

The front end uses these, `gpu_workers.engine.task_queue.Engine` and the errors of `core.errors`. Processes and devices
are details of the implementation, `gpu_workers.engine.local_engine`. Tests have another one, which runs in their
process.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from gpu_workers.facts import WorkerFacts


class Role(StrEnum):
    """The kind of worker that runs a task.

    `FILL` sanitises with the fills of a language model, `SANITIZE` with all others. The roles are separate so that the
    other fills do not wait for a model that takes minutes or for a remote model that does not answer.
    """

    EMBED = "embed"
    SANITIZE = "sanitize"
    FILL = "fill"


NOT_SERVED = "This gateway has no worker for the request; nothing was charged."

# The tenant of work that the gateway does for itself, such as a probe. No tenant's name holds a space.
GATEWAY = "the gateway"


@dataclass(frozen=True)
class Task:
    """The work for one document. `payload` is the input of the role's handler. `weight` is its estimated size in
    tokens, which counts towards a batch's token budget and towards its tenant's share.

    A payload with the attribute `interruptible = True` is prepared on text alone: no model runs, and no other task
    changes what it uses. A worker may suspend that work at any moment and run other batches of the same role meanwhile.
    With `interruptible_draw = True`, it may do so in the draw as well, and cut it: nothing is drawn under a guarantee.
    A payload with `pauses = True` is prepared in steps, and the worker may run other batches between two of them.

    A task whose payload is `Divisible` may be run in pieces. It always is, whatever its weight, if it is `stepwise`:
    the amount of its work depends on the payload's content and is known only once part of it has been done."""

    payload: Any
    weight: int
    stepwise: bool = False


@dataclass(frozen=True)
class Joined:
    """The result of a task whose pieces leave nothing more to do."""

    result: Any


@dataclass(frozen=True)
class Divided:
    """A large task as smaller tasks of the same role, between which the tasks of other tenants run.

    `tasks` run first, in any order and in any batches. `join` gets their results in order and returns the task that
    completes the work, which may again be divisible, or `Joined`. It runs on the event loop, so it only puts results
    together. If a piece fails, the whole task fails with its error, and `join` is not called.

    What the pieces may do: the distribution of the task's result must not depend on how it was divided. Either the
    pieces draw no noise (they encode or recognise) and the task that `join` returns draws all of it, or each piece
    draws for units of its own, with fresh randomness that is independent of everything else, given what earlier pieces
    have released. No unit is drawn twice. The whole task has started once one piece has.
    """

    tasks: Sequence[Task]
    join: Callable[[list[Any]], Task | Joined]


@runtime_checkable
class Divisible(Protocol):
    """A payload that can be run in pieces. One with the attribute `only_pieces = True` always is, because no handler
    runs it as it is.

    Equal workers on two devices may compute results that differ in their last bits. So pieces run where a role has one
    worker, unless the payload has `any_worker = True`: no guarantee of its result then relies on these bits of another
    piece.
    """

    def pieces(self, weight_max: int) -> Divided | None:
        """Divide the work into pieces of a weight of about `weight_max` at most; None if it cannot be divided."""
        ...


@dataclass(frozen=True)
class RoleStatus:
    """What `/readyz` and `/models` show for a role. `facts`: what its worker reported, None until one was ready. They
    are public and hold no request data."""

    ready: bool
    stage: str
    queued: int
    facts: WorkerFacts | None
