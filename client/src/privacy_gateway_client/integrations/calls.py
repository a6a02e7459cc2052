"""What the integrations share: charging calls whose releases are reported, facts of releases, and columns of tables.

Errors of the client pass through. What was paid before an error is reported as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from privacy_gateway_client import Gateway
from privacy_gateway_client.answers import Embeddings, Release, Sanitized
from privacy_gateway_client.errors import GatewayError
from privacy_gateway_client.inputs import checked, listed, numbered
from privacy_gateway_client.options import DocumentOptions, VectorOptions

OnRelease: TypeAlias = Callable[[Release], None]
Endpoint: TypeAlias = Literal["sentdp", "vector"]
Facts: TypeAlias = dict[str, str | float]
_FACTS = ("guarantee", "unit", "epsilon", "delta", "mechanism", "release_id")


@dataclass(frozen=True)
class TextEmbedder:
    """How texts become private vectors; each text costs `epsilon`.

    endpoint: `sentdp` protects one sentence of each text (`embed_documents`), `vector` each text (`embed_texts`).
    options: further keyword arguments of that call. on_release: is called with every release that was received.
    """

    epsilon: float
    endpoint: Endpoint = "sentdp"
    options: Mapping[str, Any] = field(default_factory=dict)
    on_release: OnRelease | None = None

    def __post_init__(self) -> None:
        if self.endpoint not in ("sentdp", "vector"):
            raise ValueError("endpoint is `sentdp` or `vector`")
        checked(DocumentOptions if self.endpoint == "sentdp" else VectorOptions, self.options)

    def embed(self, gateway: Gateway, texts: Sequence[str], *, idempotency_key: str | None = None) -> Embeddings:
        call: Callable[..., Embeddings] = gateway.embed_documents if self.endpoint == "sentdp" else gateway.embed_texts
        with reporting(self.on_release) as report:
            result = call(texts, epsilon=self.epsilon, idempotency_key=idempotency_key, **self.options)
            report(result)
        return result


class Cleaned(NamedTuple):
    """A sanitised text and the facts of its release; a blank text is not sent and has none."""

    text: str
    facts: Facts


def sanitize(
    gateway: Gateway, texts: Sequence[str], options: Mapping[str, Any], on_release: OnRelease | None = None
) -> list[Cleaned]:
    """Sanitised texts, in the order of the input."""
    texts = listed("texts", texts, str)
    filled = [place for place, text in enumerate(texts) if text.strip()]
    with reporting(on_release) as report, numbered(filled):
        result = gateway.sanitize([texts[place] for place in filled], **options)
        report(result)
    sent = map(Cleaned, result.texts, facts_of(result))
    return [next(sent) if text.strip() else Cleaned(text, {}) for text in texts]


@contextmanager
def reporting(on_release: OnRelease | None) -> Iterator[Callable[[Embeddings | Sanitized], None]]:
    """Reports the releases of a result, and of what an error brings that was paid before it."""

    def report(result: Embeddings | Sanitized) -> None:
        if on_release is not None:
            for release in result.releases:
                on_release(release)

    try:
        yield report
    except GatewayError as error:
        paid = getattr(error.partial, "result", None)
        if paid is not None:
            report(paid)
        raise


def facts_of(result: Embeddings | Sanitized) -> list[Facts]:
    """For each input of a call, what its release guarantees and costs: flat, as metadata of a document."""
    found: dict[int, Facts] = {}
    for release in result.releases:
        facts = release_facts(release)
        found.update((index, facts) for index in release.inputs)
    return [dict(facts) for _, facts in sorted(found.items())]


def release_facts(release: Release) -> Facts:
    """`privacy_guarantee` and others, as far as the answer has them."""
    members = ((name, getattr(release.privacy, name)) for name in _FACTS)
    return {f"privacy_{name}": member for name, member in members if member is not None}


def lists_of(result: Embeddings) -> list[list[float]]:
    """The vectors as lists of numbers."""
    vectors: Any = result.vectors
    rows: list[list[float]] = vectors.tolist() if hasattr(vectors, "tolist") else [list(row) for row in vectors]
    return rows


@dataclass(frozen=True)
class Column:
    """The texts of a column that are not missing, and their places in it."""

    texts: list[str]
    places: list[int]
    size: int

    @classmethod
    def of(cls, values: Iterable[Any], *, missing: Iterable[bool]) -> Column:
        """Raises TypeError for a value that is no text."""
        texts, places, size = [], [], 0
        for place, (value, is_missing) in enumerate(zip(values, missing, strict=True)):
            size += 1
            if is_missing:
                continue
            if not isinstance(value, str):
                raise TypeError(f"the value in row {place} is no text but of the type {type(value).__name__}")
            texts.append(value)
            places.append(place)
        return cls(texts, places, size)

    def cleaned(self, cleaned: Sequence[Cleaned], missing: Any) -> list[Any]:
        """The sanitised texts in their places."""
        whole = [missing] * self.size
        for place, one in zip(self.places, cleaned, strict=True):
            whole[place] = one.text
        return whole


def facts_of_releases(releases: Iterable[Release]) -> list[dict[str, Any]]:
    """What the answers say of the privacy of each release, and how many texts it has."""
    return [
        {
            **release.privacy.model_dump(exclude_none=True, exclude_unset=True),
            "inputs": len(release.inputs),
            "cached": release.cached,
        }
        for release in releases
    ]
