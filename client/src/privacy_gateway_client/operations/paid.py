"""Charging calls over many items: the cache, the parts, and what is kept when one of them fails."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from privacy_gateway_client.answers import Account, Privacy
from privacy_gateway_client.core import Core, Done, in_parts, ranges
from privacy_gateway_client.effects import Incoming, Op, in_thread
from privacy_gateway_client.errors import GatewayError
from privacy_gateway_client.exchange import KEY, json_of
from privacy_gateway_client.results import Partial, Release

T = TypeVar("T")


@dataclass(frozen=True)
class Item:
    """What was released for one input: its row, its vector as little-endian float32, and facts of the answer."""

    row: Mapping[str, Any]
    privacy: Mapping[str, Any]
    vector: bytes = b""
    model: str | None = None
    dimension: int = 0

    def packed(self) -> bytes:
        vector = base64.b64encode(self.vector).decode()
        return json.dumps([self.row, self.privacy, vector, self.model, self.dimension]).encode()

    @classmethod
    def unpacked(cls, entry: bytes) -> Item:
        row, privacy, vector, model, dimension = json.loads(entry)
        return cls(row, privacy, base64.b64decode(vector), model, dimension)


@dataclass(frozen=True)
class PartAnswer:
    items: list[Item]
    privacy: Mapping[str, Any]
    budget: Mapping[str, Any] | None
    key: str | None
    replayed: bool
    extra: Mapping[str, Any]


@dataclass(frozen=True)
class Found:
    """The items of some inputs, by their index, and the releases that they come from."""

    items: dict[int, Item]
    releases: list[Release]
    extra: Mapping[str, Any]


def part_answer(incoming: Incoming, items: list[Item], members: Mapping[str, Any]) -> PartAnswer:
    return PartAnswer(
        items=items,
        privacy=members["privacy"],
        budget=members.get("budget"),
        key=incoming.headers.get(KEY.lower()),
        replayed=incoming.headers.get("idempotency-replayed") == "true",
        extra=members,
    )


def bought(
    core: Core,
    weights: Sequence[int],
    buy: Callable[[list[int], str], Op[PartAnswer]],
    assemble: Callable[[Found], T],
    *,
    names: Sequence[bytes] | None,
    items_max: int,
    weight_max: int,
    key: str | None,
    members: Sequence[str],
) -> Op[T]:
    """Buy what is not in the cache, in parts, and put all of it together.

    weights: bytes of each input. names: of the inputs in the cache, None without one.
    buy: buys some inputs, by their indices and under a key. assemble: makes the call's result.
    Raises the first part's error, whose `partial` is a `Partial` of the same result.
    """
    cached: dict[bytes, bytes] = {}
    cache = core.cache
    if names is not None and cache is not None:
        cached = yield from in_thread(lambda: cache.get(names))
    wanted = _wanted(len(weights), names, cached)

    def one(part: range, own_key: str) -> Op[PartAnswer]:
        indices = [wanted[place] for place in part]
        answer = yield from buy(indices, own_key)
        if names is not None and cache is not None:
            entries = [(names[index], item.packed()) for index, item in zip(indices, answer.items, strict=True)]
            yield from in_thread(lambda: cache.put(entries))
        return answer

    def found(parts: Sequence[tuple[range, PartAnswer]]) -> Found:
        return _found(parts, wanted, names, cached)

    pieces = ranges([weights[index] for index in wanted], items=items_max, weight=weight_max)
    try:
        parts = yield from in_parts(core, pieces, one, key=key, members=members)
    except GatewayError as error:
        done = error.partial.parts if isinstance(error.partial, Done) else ()
        some = found(done)
        error.partial = Partial(sorted(some.items), assemble(some) if some.items else None)
        raise
    return assemble(found(parts))


def _wanted(count: int, names: Sequence[bytes] | None, cached: Mapping[bytes, bytes]) -> list[int]:
    """The inputs to buy: with a cache, those that it lacks, and of equal ones the first."""
    if names is None:
        return list(range(count))
    first: dict[bytes, int] = {}
    for index, name in enumerate(names):
        if name not in cached:
            first.setdefault(name, index)
    return list(first.values())


def _found(
    parts: Sequence[tuple[range, PartAnswer]],
    wanted: Sequence[int],
    names: Sequence[bytes] | None,
    cached: Mapping[bytes, bytes],
) -> Found:
    items: dict[int, Item] = {}
    releases: list[Release] = []
    extra: Mapping[str, Any] = {}
    bought_names: dict[bytes, Item] = {}
    for part, answer in parts:
        indices = [wanted[place] for place in part]
        items.update(zip(indices, answer.items, strict=True))
        releases.append(release_of(indices, answer))
        extra = extra or answer.extra
        if names is not None:
            bought_names.update((names[index], item) for index, item in zip(indices, answer.items, strict=True))
    for index, name in enumerate(names or ()):
        if index in items:
            continue
        if name in cached:
            items[index] = Item.unpacked(cached[name])
        elif name in bought_names:
            items[index] = bought_names[name]
        else:
            continue
        privacy = Privacy.model_validate(items[index].privacy)
        releases.append(Release((index,), privacy, cached=True))
    return Found(dict(sorted(items.items())), releases, extra)


def release_of(indices: list[int], answer: PartAnswer) -> Release:
    return Release(
        inputs=tuple(indices),
        privacy=Privacy.model_validate(answer.privacy),
        budget=None if answer.budget is None else Account.model_validate(answer.budget),
        idempotency_key=answer.key,
        replayed=answer.replayed,
    )


def cache_names(
    core: Core, path: str, parameters: Mapping[str, Any], contents: Callable[[], Sequence[bytes]], *, domain: str | None
) -> Op[list[bytes] | None]:
    """The names of the inputs in the cache; None without a cache."""
    cache = core.cache
    if cache is None:
        return None
    tenant = yield from core.tenant_name()
    models = yield from core.models(domain)
    scope = {"gateway": core.gateway, "tenant": tenant, "models": models, "path": path, "parameters": parameters}
    names = yield from in_thread(lambda: [cache.name(scope, content) for content in contents()])
    return names


def members_of(document: str | Mapping[str, Any]) -> dict[str, Any]:
    """The members of a document that may be a text alone."""
    return {"text": document} if isinstance(document, str) else dict(document)


def contents_of(documents: Sequence[Mapping[str, Any]]) -> list[bytes]:
    """What the names of documents in the cache depend on: not their ids."""
    return [json_of({name: one for name, one in document.items() if name != "id"}) for document in documents]
