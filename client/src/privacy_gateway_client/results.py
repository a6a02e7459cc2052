"""The results of charging calls, which may consist of several releases."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from privacy_gateway_client.answers import Account, EmbeddingRow, Privacy, SanitizedRow

if TYPE_CHECKING:
    from privacy_gateway_client.tensors import Matrix

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
    """Released vectors, in the order of the input.

    vectors: float32 (or float16) `[n, dimension]`; without NumPy a list of `array.array`.
    rows: what the answer says about each input beside its vector; empty for vectors of the caller.
    """

    vectors: Matrix = field(repr=False)
    dimension: int
    model: str | None
    rows: list[EmbeddingRow]
    releases: list[Release]

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
    """Sanitised documents, in the order of the input.

    restore_token: of a reversible call, for `restore`; it is the originals, encrypted for the gateway.
    """

    rows: list[SanitizedRow] = field(repr=False)
    releases: list[Release]
    restore_token: str | None = field(default=None, repr=False)
    restore_until: int | None = None
    policy: str | None = None

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
