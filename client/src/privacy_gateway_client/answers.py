"""The results of charging calls, which may consist of several releases, and the progress of jobs.

The models of answers are in `generated/models.py`. Progress bars are drawn by `rich` where it is installed, else there
are none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from privacy_gateway_client.generated import models
from privacy_gateway_client.generated.models import Account, Privacy, SanitizedRow
from privacy_gateway_client.model import Answer

if TYPE_CHECKING:
    from privacy_gateway_client.wire import Matrix


class Job(models.Job):
    @property
    def ended(self) -> bool:
        return self.status in ("succeeded", "failed", "cancelled")


class EmbeddingRow(Answer):
    """What an answer says about a document or text, beside its vector."""

    index: int
    id: str | None = None
    space: str | None = None
    domain: str | None = None
    sentences: int | None = None
    windows: int | None = None
    utility: str | None = None


R = TypeVar("R")


@dataclass(frozen=True)
class Release:
    """One release: which inputs it covers and what it guarantees.

    budget: the account with the least remaining after it; None for what costs nothing or comes from the cache.
    replayed: the answer was bought before, by the same idempotency key.
    cached: the answer is from the cache.
    """

    inputs: tuple[int, ...]
    privacy: Privacy
    budget: Account | None = None
    idempotency_key: str | None = None
    replayed: bool = False
    cached: bool = False


@dataclass(frozen=True)
class Partial(Generic[R]):
    """What a call had received when one of its parts failed, as `error.partial`.

    indices: the inputs that `result` covers, in its order. They are paid; repeat the call with the others.
    result: as the call would have returned it; None if nothing had arrived.
    """

    indices: list[int]
    result: R | None


@dataclass(frozen=True)
class Embeddings:
    """Released vectors, in the order of the input. `len`, iteration and `[]` are those of `vectors`.

    vectors: float32 (or float16) `[n, dimension]`; without NumPy a list of `array.array`.
    rows: what the answer says about each input beside its vector; empty for vectors of the caller.
    """

    vectors: Matrix = field(repr=False)
    dimension: int
    model: str | None
    rows: list[EmbeddingRow]
    releases: list[Release]

    def __len__(self) -> int:
        return len(self.vectors)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.vectors)

    def __getitem__(self, place: Any) -> Any:
        return self.vectors[place]

    @property
    def privacy(self) -> Privacy:
        """Of the first release. All releases of one call have the same guarantee for each of their inputs."""
        return self.releases[0].privacy

    @property
    def budget(self) -> Account | None:
        """The account of the last release that charged."""
        return _last_budget(self.releases)


@dataclass(frozen=True)
class Sanitized:
    """Sanitised documents, in the order of the input. `len`, iteration and `[]` are those of `texts`.

    restore_token: of a reversible call, for `restore`; it is the originals, encrypted for the gateway.
    """

    rows: list[SanitizedRow] = field(repr=False)
    releases: list[Release]
    restore_token: str | None = field(default=None, repr=False)
    restore_until: int | None = None
    policy: str | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    def __getitem__(self, place: Any) -> Any:
        return self.texts[place]

    @property
    def texts(self) -> list[str]:
        """The sanitised texts; empty ones after a dry run."""
        return [row.text or "" for row in self.rows]

    @property
    def privacy(self) -> Privacy:
        return self.releases[0].privacy

    @property
    def budget(self) -> Account | None:
        return _last_budget(self.releases)


def _last_budget(releases: list[Release]) -> Account | None:
    return next((release.budget for release in reversed(releases) if release.budget is not None), None)


# Takes each state of a job. A method `close`, if there is one, is called at the end.
Progress: TypeAlias = Callable[[Job], None]


def bar() -> Progress:
    """A bar on standard error."""
    draw, close = meter(100)

    def show(state: Job) -> None:
        draw(round(100 * state.progress), state.stage or state.status)

    show.close = close  # type: ignore[attr-defined]
    return show


def meter(total: int) -> tuple[Callable[[int, str], None], Callable[[], None]]:
    """How a bar of `total` steps is drawn and closed; silent without `rich`."""
    try:
        from rich.console import Console
        from rich.progress import Progress as Bars
    except ImportError:
        return silent, silent
    bars = Bars(console=Console(stderr=True), transient=True)
    task = bars.add_task("", total=total)
    bars.start()
    return lambda done, text: bars.update(task, completed=done, description=text), bars.stop


def silent(*_: Any) -> None:
    pass
