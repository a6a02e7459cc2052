"""What the operations of a client share: its settings, and facts of the gateway that it has asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from privacy_gateway_client.cache import Cache
from privacy_gateway_client.cap import Nano, Reservation, active_caps, nano
from privacy_gateway_client.effects import Incoming, Op, Outgoing, gather
from privacy_gateway_client.errors import (
    BudgetExhausted,
    ConnectionLost,
    GatewayError,
    PlanMismatch,
    Problem,
    Rejected,
    ReleaseGone,
    TooLarge,
)
from privacy_gateway_client.exchange import Retry, call, get, keyed, new_key, parsed_json, post
from privacy_gateway_client.limits import Limits

R = TypeVar("R")
_FREE = "fill.mode"


@dataclass
class Core:
    """`gateway`: its address. `tenant`: the name in the cache; asked from the gateway if None and a cache is used.

    alerts: the path of the alerts, the tenant's or the operator's.
    """

    gateway: str
    retry: Retry
    limits: Limits
    cache: Cache | None = None
    tenant: str | None = None
    alerts: str = "/alerts"
    prices: dict[bytes, dict[str, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, gateway: str, settings: Mapping[str, Any]) -> Core:
        """From the settings of a client."""
        return cls(
            gateway=gateway.rstrip("/"),
            retry=settings.get("retry") or Retry(),
            limits=settings.get("limits") or Limits(),
            cache=settings.get("cache"),
            tenant=settings.get("tenant"),
        )

    @property
    def capped(self) -> bool:
        """Whether a `budget_cap` is active."""
        return bool(active_caps())

    def charged(
        self, request: Outgoing, key: str | None, stand_in: Mapping[str, Any] | None, count: int
    ) -> Op[Incoming]:
        """Send a request that may charge, under one idempotency key.

        stand_in: the same request with one document without its text, for its price. None: it costs nothing.
        Raises BudgetCapReached before anything is sent, and as `call`.
        """
        caps = active_caps()
        reservation = None
        if caps and stand_in is not None and count:
            price = yield from self._price(stand_in)
            reservation = Reservation(caps, {unit: cost * count for unit, cost in price.items()})
        try:
            answer = yield from call(self.retry, keyed(request, key))
        except (Problem, ConnectionLost) as error:
            if reservation is not None and _charged_nothing(error):
                reservation.cancel()
            raise
        return answer

    def _price(self, stand_in: Mapping[str, Any]) -> Op[Nano]:
        """The epsilon of each unit that one document costs, in units of 1e-9."""
        content = json.dumps(stand_in, sort_keys=True).encode()
        if content not in self.prices:
            try:
                answer = yield from call(self.retry, post("/budget/estimate", stand_in))
            except Rejected as error:
                if not any(one.field == _FREE for one in error.errors):
                    raise
                self.prices[content] = {}
                return {}
            costs: dict[str, int] = {}
            for line in parsed_json(answer.content)["accounts"]:
                costs[line["unit"]] = max(costs.get(line["unit"], 0), nano(line["cost"]["epsilon"]))
            self.prices[content] = costs
        return self.prices[content]

    def tenant_name(self) -> Op[str]:
        """The tenant of the API key, as its accounts show it."""
        if self.tenant is None:
            answer = yield from call(self.retry, get("/budget", limit=1))
            self.tenant = str(parsed_json(answer.content)["accounts"][0]["account"]).split("/")[0]
        return self.tenant

    def models(self, domain: str | None = None) -> Op[dict[str, Any]]:
        """What identifies the models behind an answer, for the names of cached answers. Asked for each call, since a
        domain may be built anew under the same name."""
        answer = yield from call(self.retry, get("/models"))
        facts: dict[str, Any] = {"roles": [_stable(row) for row in parsed_json(answer.content)["models"]]}
        if domain is not None:
            answer = yield from call(self.retry, get("/domains"))
            rows = parsed_json(answer.content)["domains"]
            facts["domain"] = [row for row in rows if row.get("name") == domain or domain == "auto"]
        return facts


def _stable(row: Mapping[str, Any]) -> dict[str, Any]:
    """Of a role: what changes with its models, and not with the device or its state."""
    kept = {name: value for name, value in row.items() if name in ("role", "vector_pack", "word_vectors", "tagger")}
    encoder = row.get("encoder") or {}
    return kept | {"encoder": encoder.get("fingerprint"), "infill": (row.get("infill") or {}).get("fingerprint")}


def _charged_nothing(error: Problem | ConnectionLost) -> bool:
    if isinstance(error, (BudgetExhausted, PlanMismatch, Rejected)):
        return True  # also after a lost attempt: a key that was charged is never refused
    if isinstance(error, ReleaseGone) or error.uncertain:
        return False
    return isinstance(error, ConnectionLost) or error.charged is False or error.may_repeat


@dataclass(frozen=True)
class Done(Generic[R]):
    """The parts of a call that had ended when another one failed."""

    parts: tuple[tuple[range, R], ...]


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
    core: Core,
    parts: Sequence[range],
    operation: Callable[[range, str], Op[R]],
    *,
    key: str | None,
    members: Sequence[str],
) -> Op[list[tuple[range, R]]]:
    """Run an operation for each part, several at the same time; the results have the order of the input.

    A part that the gateway finds too large is sent as two halves. members: the members whose refusal says so.
    Raises the first part's error with `partial` (`Done`), which holds what was received.
    """
    base = key or new_key()

    def run(part: range) -> Op[list[tuple[range, R]]]:
        own = base if len(part) == parts[-1].stop else f"{base}.{part.start}-{part.stop}"
        try:
            result = yield from operation(part, own)
        except (TooLarge, Rejected) as error:
            if len(part) < 2 or not _too_many(error, members):
                raise
            middle = (part.start + part.stop) // 2
            first = yield from run(range(part.start, middle))
            try:
                second = yield from run(range(middle, part.stop))
            except GatewayError as second_error:
                second_error.partial = Done((*first, *_done(second_error)))
                raise
            return first + second
        return [(part, result)]

    outcomes = yield from gather([run(part) for part in parts], concurrency=core.limits.concurrency)
    done: list[tuple[range, R]] = []
    failure: BaseException | None = None
    for outcome in outcomes:
        if outcome.error is None:
            done += outcome.value or []
            continue
        failure = failure or outcome.error
        done += _done(outcome.error)
    if failure is not None:
        if isinstance(failure, GatewayError):
            failure.partial = Done(tuple(done))
        raise failure
    return done


def _done(error: BaseException) -> tuple[tuple[range, Any], ...]:
    partial = getattr(error, "partial", None)
    return partial.parts if isinstance(partial, Done) else ()


def _too_many(error: TooLarge | Rejected, members: Sequence[str]) -> bool:
    return isinstance(error, TooLarge) or any(one.field.removeprefix("body.") in members for one in error.errors)
