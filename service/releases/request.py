"""What an endpoint hands to the release pipeline, once a request is authenticated, validated and priced."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from core.accounting.events import PrivacyEvent
from core.errors import InvalidInput
from core.ledger.records import Charge
from gpu_workers.engine.protocol import Role, Task
from service.config.settings import Settings

Buffer = bytes | memoryview
Rendered = dict[str, Any] | list[Buffer]
Render = Callable[[Any, dict[str, Any]], Rendered]

JSON = "application/json"


@dataclass(frozen=True)
class Price:
    """What a request costs. `facts` add to the privacy block of its answer, beside the first charge's event.

    Work without a guarantee has no charges.
    """

    charges: Sequence[Charge] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ReleasePart:
    """One document or text of a release.

    `origin` is everything besides the charges that the distribution of its result depends on: the content, the
    parameters, and the identity of every model and pack.
    """

    charges: Sequence[Charge]
    origin: Sequence[bytes] = field(repr=False)


@dataclass(frozen=True)
class ReleaseParts:
    """How a release divides into parts that are drawn independently, each from its own content.

    `only` makes the release of the parts with these numbers; its `collect` gives one result each, in order. `pack`
    turns a result into bytes and `unpack` turns them back.
    """

    parts: Sequence[ReleasePart]
    only: Callable[[Sequence[int]], ReleaseRequest]
    pack: Callable[[Any], bytes]
    unpack: Callable[[bytes], Any]


@dataclass(frozen=True, kw_only=True)
class Work:
    """Tasks that the engine runs together, and nothing else: no price, and no answer.

    isolate_failures: a task that fails after its start does not fail the others. Its error takes the place of its
        result.
    """

    role: Role
    tasks: Sequence[Task]
    isolate_failures: bool = False


@dataclass(frozen=True, kw_only=True)
class ReleaseRequest(Work):
    """One release: work with its price, and how its answer is made. A task that fails is charged like the others.

    charges: the price; the answer shows the first event. Empty for work without a guarantee.
    collect: makes the results that `render` takes from the results of the tasks.
    render: makes the answer from them and from the common blocks `privacy` and `budget`: a JSON object, or the pieces
        of a file of another `media_type`.
    privacy: adds to the answer's privacy block, or replaces members of it.
    fingerprint: identifies the request's body where the endpoint has not read it as a whole.
    answer_size: estimates the characters of the answer from what `render` takes. A large answer is rendered outside the
        event loop.
    follow: makes a second request of the results, which is run next and answers. Only for work without a guarantee.
    parts: makes the parts that may be answered from earlier releases, one by one; None where nothing may.
    """

    charges: Sequence[Charge]
    render: Render
    privacy: Mapping[str, Any] = field(default_factory=dict)
    media_type: str = JSON
    fingerprint: bytes | None = None
    collect: Callable[[list[Any]], Any] = list
    answer_size: Callable[[Any], int] = lambda _: 0
    follow: Callable[[list[Any]], ReleaseRequest] | None = None
    parts: Callable[[], ReleaseParts] | None = None

    @property
    def event(self) -> PrivacyEvent:
        """The event that the answer shows."""
        return self.charges[0].event


def check_epsilon(epsilon: float, settings: Settings, *, field: str = "epsilon") -> None:
    """Raises InvalidInput for an epsilon outside the operator's range."""
    if not settings.epsilon_min <= epsilon <= settings.epsilon_max:
        raise InvalidInput(
            f"epsilon must be between {settings.epsilon_min:g} and {settings.epsilon_max:g}", field=field
        )
