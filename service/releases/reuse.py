"""Answers repeated documents and texts of a tenant from the release that was charged (`REUSE_RETENTION_S`).

Guarantee: an answer is a function of committed releases and of the pattern of repeats, that is, of which parts of the
tenant's requests are equal. Two histories of the same pattern can be distinguished no better than by their charged
releases. The pattern itself is public. Proof and limits: docs/concepts/reuse.md.

A request with an `Idempotency-Key` always gets a new release, which is not kept for repeats.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from core.amounts import epsilon_of
from core.errors import LedgerError
from core.ledger.reuse import KeptResult, ReuseStore
from core.ledger.transitions import Ledger
from service import metrics
from service.releases.budget_blocks import account_block, least_left
from service.releases.request import ReleaseParts, ReleaseRequest, Rendered

log = logging.getLogger("privacy_gateway.reuse")

Found = Mapping[str, KeptResult]
GATEWAY_VERSION = version("privacy-gateway").encode()


class Reuse:
    """One request: the parts that were released before, and the `fresh` parts, which are not yet released.

    Among equal parts of the request the first is fresh and the others are copies of it.
    """

    def __init__(
        self,
        store: ReuseStore,
        tenant: str,
        whole: ReleaseRequest,
        parts: ReleaseParts,
        tags: Sequence[str],
        found: Found,
    ) -> None:
        self._store = store
        self._tenant = tenant
        self._whole = whole
        self._parts = parts
        self._tags = tags
        self._results = {tag: parts.unpack(kept.content) for tag, kept in found.items()}
        self._release_ids = {tag: kept.release_id for tag, kept in found.items()}
        first = {tag: number for number, tag in reversed(list(enumerate(tags)))}
        self.fresh = sorted(number for tag, number in first.items() if tag not in found)
        self._reused = sorted(set(range(len(tags))) - set(self.fresh))

    @classmethod
    async def of(cls, store: ReuseStore | None, tenant: str, release_request: ReleaseRequest) -> Reuse | None:
        """None where nothing is reused: by setting, or because the release has no parts.

        Raises WorkerCold until the worker that would release the parts has reported its models, LedgerUnavailable.
        """
        if store is None or release_request.parts is None:
            return None
        parts = release_request.parts()
        tags = [store.tag(tenant, part.charges, [GATEWAY_VERSION, *part.origin]) for part in parts.parts]
        with metrics.stage("reuse"):
            found = await store.find(tenant, tags)
        return cls(store, tenant, release_request, parts, tags, found)

    def fresh_release(self) -> ReleaseRequest:
        """The release of the fresh parts. Its answer shows all parts."""
        own = self._parts.only(self.fresh) if self._reused else self._whole
        return replace(own, render=self._render, privacy=self._privacy)

    async def answer(self, ledger: Ledger) -> Rendered:
        """The answer to a request without fresh parts. Charges nothing. Raises as `Ledger.estimate`."""
        event = self._whole.event
        estimate = await ledger.estimate(self._tenant, self._whole.charges)
        budget = account_block(least_left(event, [line.account for line in estimate.lines]))
        rendered = self._render([], {"privacy": {**event.privacy_block(), **self._privacy}, "budget": budget})
        self._count()
        return rendered

    async def keep(self, release_id: str) -> None:
        """Keep the results of the committed release. A failure affects later repeats only."""
        tags = [self._tags[number] for number in self.fresh]
        results = {tag: self._parts.pack(self._results[tag]) for tag in tags}
        try:
            with metrics.stage("keep"):
                await self._store.keep(self._tenant, release_id, results)
        except LedgerError as error:
            log.warning("results-not-kept", extra={"fields": {"release_id": release_id, "code": error.code}})
        self._count()

    @property
    def _privacy(self) -> dict[str, Any]:
        return {**self._whole.privacy, "reused": len(self._reused), "repeats": "public"}

    def _render(self, results: Sequence[Any], common: dict[str, Any]) -> Rendered:
        for number, result in zip(self.fresh, results, strict=True):
            self._results[self._tags[number]] = result
            self._release_ids[self._tags[number]] = common["privacy"]["release_id"]
        rendered = self._whole.render([self._results[tag] for tag in self._tags], common)
        if not isinstance(rendered, dict):
            raise TypeError("an answer in parts is JSON")
        for number in self._reused:
            rendered["data"][number]["reused_from"] = self._release_ids[self._tags[number]]
        return rendered

    def _count(self) -> None:
        for number in self._reused:
            for charge in self._parts.parts[number].charges:
                saved = epsilon_of(charge.event.epsilon_nano) * charge.times
                metrics.REUSED_EPSILON.labels(self._tenant, charge.event.unit.value).inc(saved)
