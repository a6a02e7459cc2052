# Written by `make client` from asynchronous/paid.py. Do not edit.
"""Charging calls over many inputs: their parts, the cache, and what is kept when one of the parts fails."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import httpx

from privacy_gateway_client.answers import Account, Privacy
from privacy_gateway_client.generated.connection import Connection
from privacy_gateway_client.wire import Function, gather, in_thread
from privacy_gateway_client.errors import GatewayError, Rejected, TooLarge
from privacy_gateway_client.answers import Partial, Release
from privacy_gateway_client.wire import KEY, get, json_of, new_key

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Item:
    """What was released for one input: its row, its vector as little-endian float32, and facts of the answer."""

    row: Mapping[str, Any]
    privacy: Mapping[str, Any]
    vector: bytes = b""
    model: str | None = None
    dimension: int = 0

    def packed(self) -> bytes:
        """The entry of the cache."""
        vector = base64.b64encode(self.vector).decode()
        return json.dumps([self.row, self.privacy, vector, self.model, self.dimension]).encode()

    @classmethod
    def unpacked(cls, entry: bytes) -> Item:
        row, privacy, vector, model, dimension = json.loads(entry)
        return cls(row, privacy, base64.b64decode(vector), model, dimension)


@dataclass(frozen=True)
class PartAnswer:
    """The answer to one request: an item for each of its inputs, and what it says about all of them."""

    items: list[Item]
    privacy: Mapping[str, Any]
    budget: Mapping[str, Any] | None
    key: str | None
    replayed: bool
    members: Mapping[str, Any]

    @classmethod
    def of(cls, answer: httpx.Response, items: list[Item], members: Mapping[str, Any]) -> PartAnswer:
        return cls(
            items=items,
            privacy=members["privacy"],
            budget=members.get("budget"),
            key=answer.headers.get(KEY),
            replayed=answer.headers.get("Idempotency-Replayed") == "true",
            members=members,
        )

    def release(self, indices: Sequence[int]) -> Release:
        return Release(
            inputs=tuple(indices),
            privacy=Privacy.model_validate(self.privacy),
            budget=None if self.budget is None else Account.model_validate(self.budget),
            idempotency_key=self.key,
            replayed=self.replayed,
        )


@dataclass(frozen=True)
class Found:
    """The items of some inputs, by their index, and the releases that they come from.

    members: those of the first answer.
    """

    items: dict[int, Item]
    releases: list[Release]
    members: Mapping[str, Any]


def bought(
    connection: Connection,
    weights: Sequence[int],
    buy: Function[[list[int], str], PartAnswer],
    assemble: Callable[[Found], T],
    *,
    names: Sequence[bytes] | None,
    items_max: int,
    weight_max: int,
    key: str | None,
    members: Sequence[str],
) -> T:
    """Buy what is not in the cache, in parts, and put all of it together.

    weights: bytes of each input. names: of the inputs in the cache, None without one.
    buy: buys some inputs, by their indices and under a key. assemble: makes the call's result.
    members: the members of the request whose refusal says that a part is too large.
    Raises the first part's error, whose `partial` is a `Partial` of the same result.
    """
    cached: dict[bytes, bytes] = {}
    cache = connection.cache
    if names is not None and cache is not None:
        cached = in_thread(partial(cache.get, names))
    wanted = _wanted(len(weights), names, cached)

    def one(part: range, own_key: str) -> PartAnswer:
        indices = [wanted[place] for place in part]
        answer = buy(indices, own_key)
        if names is not None and cache is not None:
            entries = [(names[index], item.packed()) for index, item in zip(indices, answer.items, strict=True)]
            in_thread(partial(cache.put, entries))
        return answer

    pieces = ranges([weights[index] for index in wanted], items=items_max, weight=weight_max)
    try:
        parts = in_parts(connection, pieces, one, key=key, members=members)
    except GatewayError as error:
        some = _found(parts_done(error), wanted, names, cached)
        error.partial = Partial(sorted(some.items), assemble(some) if some.items else None)
        raise
    return assemble(_found(parts, wanted, names, cached))


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
    members: Mapping[str, Any] = {}
    bought_names: dict[bytes, Item] = {}
    for part, answer in parts:
        indices = [wanted[place] for place in part]
        items.update(zip(indices, answer.items, strict=True))
        releases.append(answer.release(indices))
        members = members or answer.members
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
    return Found(dict(sorted(items.items())), releases, members)


def cache_names(
    connection: Connection,
    path: str,
    parameters: Mapping[str, Any],
    contents: Callable[[], Sequence[bytes]],
    *,
    domain: str | None,
) -> list[bytes] | None:
    """The names of the inputs in the cache; None without a cache.

    The models are asked for with each call, since a domain may be built anew under the same name.
    """
    cache = connection.cache
    if cache is None:
        return None
    scope = {
        "gateway": connection.gateway,
        "tenant": connection.tenant_name(),
        "models": _models(connection, domain),
        "path": path,
        "parameters": parameters,
    }
    return in_thread(lambda: [cache.name(scope, content) for content in contents()])


def _models(connection: Connection, domain: str | None) -> dict[str, Any]:
    """What identifies the models behind an answer."""
    models = connection.json(get("/models"))
    facts: dict[str, Any] = {"roles": [_stable(row) for row in models["models"]]}
    if domain is not None:
        rows = (connection.json(get("/domains")))["domains"]
        facts["domain"] = [row for row in rows if row.get("name") == domain or domain == "auto"]
    return facts


def _stable(row: Mapping[str, Any]) -> dict[str, Any]:
    """What changes with the models of a role, and not with its device or its state."""
    kept = {name: value for name, value in row.items() if name in ("role", "vector_pack", "word_vectors", "tagger")}
    encoder = row.get("encoder") or {}
    return kept | {"encoder": encoder.get("fingerprint"), "infill": (row.get("infill") or {}).get("fingerprint")}


@dataclass(frozen=True)
class Done(Generic[R]):
    """The parts of a call that had ended when another one failed."""

    parts: tuple[tuple[range, R], ...]


def parts_done(error: BaseException) -> tuple[tuple[range, Any], ...]:
    """The parts that had ended when this error was raised."""
    kept = getattr(error, "partial", None)
    return kept.parts if isinstance(kept, Done) else ()


def ranges(weights: Sequence[int], *, items: int, weight: int) -> list[range]:
    """Cut a sequence into parts of at most `items` items and, if there are several items, of `weight` in total."""
    parts, start, total = [], 0, 0
    for index, one in enumerate(weights):
        if index > start and (index - start >= items or total + one > weight):
            parts.append(range(start, index))
            start, total = index, 0
        total += one
    if len(weights) > start:
        parts.append(range(start, len(weights)))
    return parts


def in_parts(
    connection: Connection,
    parts: Sequence[range],
    operation: Function[[range, str], R],
    *,
    key: str | None,
    members: Sequence[str],
) -> list[tuple[range, R]]:
    """Run an operation for each part, several at the same time; the results have the order of the input.

    A part that the gateway finds too large is sent as two halves. members: the members whose refusal says so.
    Raises the first part's error with `partial` (`Done`), which holds what was received.
    """
    base = key or new_key()

    def run(part: range) -> list[tuple[range, R]]:
        own = base if len(part) == parts[-1].stop else f"{base}.{part.start}-{part.stop}"
        try:
            return [(part, operation(part, own))]
        except (TooLarge, Rejected) as error:
            if len(part) < 2 or not _too_many(error, members):
                raise
            middle = (part.start + part.stop) // 2
            first = run(range(part.start, middle))
            try:
                second = run(range(middle, part.stop))
            except GatewayError as second_error:
                second_error.partial = Done((*first, *parts_done(second_error)))
                raise
            return first + second

    operations = [partial(run, part) for part in parts]
    outcomes = gather(operations, concurrency=connection.limits.concurrency)
    done: list[tuple[range, R]] = []
    failure: Exception | None = None
    for outcome in outcomes:
        if outcome.error is None:
            done += outcome.value or []
            continue
        failure = failure or outcome.error
        done += parts_done(outcome.error)
    if failure is not None:
        if isinstance(failure, GatewayError):
            failure.partial = Done(tuple(done))
        raise failure
    return done


def _too_many(error: TooLarge | Rejected, members: Sequence[str]) -> bool:
    return isinstance(error, TooLarge) or any(one.field.removeprefix("body.") in members for one in error.errors)


def members_of(document: str | Mapping[str, Any]) -> dict[str, Any]:
    """The members of a document that may be a text alone."""
    return {"text": document} if isinstance(document, str) else dict(document)


def contents_of(documents: Sequence[Mapping[str, Any]]) -> list[bytes]:
    """What the names of documents in the cache depend on: not their ids."""
    return [json_of({name: one for name, one in document.items() if name != "id"}) for document in documents]
