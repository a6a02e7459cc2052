# Written by `make client` from asynchronous/budget.py. Do not edit.
"""Budgets: accounts, journals, estimates and reports. None of these calls charges.

A report is the JSON object that the gateway's OpenAPI document describes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from privacy_gateway_client.answers import Account, Estimate
from privacy_gateway_client.generated.connection import Group
from privacy_gateway_client.errors import line_problem
from privacy_gateway_client.wire import get, parsed_json, post


class Budget(Group):
    """Budget queries; none of them charges."""

    def accounts(self, *, limit: int | None = None) -> Iterator[Account]:
        """Every account of the tenant: its own, then its subjects'. `limit`: accounts of one page."""
        return self._connection.pages("/budget", "accounts", Account, limit=limit)

    def account(self, account: str) -> Account:
        """One account, such as `acme/sentence`."""
        return self._connection.model(Account, get(f"/budget/{account}"))

    def headroom(self, account: str, *, epsilon: float | None = None) -> dict[str, Any]:
        """How many more requests of each preset and mechanism an account admits. `epsilon`: of one document."""
        return self._connection.json(get(f"/budget/{account}/headroom", epsilon=epsilon))

    def remaining(self, mechanism: str, *, epsilon: float, account: str | None = None) -> int:
        """How many more requests of one document by a mechanism at `epsilon` are admitted if nothing else is reserved.

        account: one of those that it debits; by default an own account of the tenant, whichever the mechanism debits.
        Raises LookupError if the gateway prices no such mechanism now.
        """
        if account is not None:
            accounts = [account]
        else:
            tenant = self._connection.tenant_name()
            accounts = [f"{tenant}/{unit}" for unit in ("sentence", "token", "vector", "record")]
        for one in accounts:
            requests = (self.headroom(one, epsilon=epsilon))["requests"]
            fits = [row["fits"] for row in requests if row["preset"] is None and row["mechanism"] == mechanism]
            if fits:
                return int(min(fits))
        raise LookupError(mechanism)

    def journal(
        self,
        account: str,
        *,
        limit: int | None = None,
        from_ms: int | None = None,
        to_ms: int | None = None,
        transition: str | None = None,
        mechanism: str | None = None,
        route: str | None = None,
        key_id: str | None = None,
        subject: str | None = None,
        order: str | None = None,
    ) -> Iterator[dict[str, Any]]:
        """The entries of an account's journal. `limit`: of one page; the others choose entries and their order."""
        filters = {"transition": transition, "mechanism": mechanism, "route": route, "key_id": key_id}
        filters |= {"subject": subject, "order": order}
        times = {"from": from_ms, "to": to_ms}
        return self._connection.pages(f"/budget/{account}/journal", "entries", None, limit=limit, **times, **filters)

    def export_journal(
        self, /, account: str, *, from_ms: int | None = None, to_ms: int | None = None, **filters: str | None
    ) -> Iterator[dict[str, Any]]:
        """The journal of an account, row by row. `filters`: `transition`, `mechanism`, `route`, `key_id`, `subject`."""
        params = {"from": from_ms, "to": to_ms, "format": "jsonl", **filters}
        with self._connection.stream(get(f"/budget/{account}/journal/export", **params)) as answer:
            for row in answer.json_lines():
                yield row

    def subjects(self, account: str, *, near: float | None = None, limit: int | None = None) -> Iterator[Account]:
        """The subjects' accounts of the unit, the least remaining first.

        near: only those with less than this epsilon. limit: of one page.
        """
        return self._connection.pages(f"/budget/{account}/subjects", "subjects", Account, near=near, limit=limit)

    def series(
        self,
        *,
        from_ms: int | None = None,
        to_ms: int | None = None,
        step: int | None = None,
        unit: str | None = None,
        mechanism: str | None = None,
        subject_class: str | None = None,
    ) -> dict[str, Any]:
        """What was committed and reserved over time. `step`: 60, 600, 3600, 21600 or 86400 seconds."""
        params = {"from": from_ms, "to": to_ms, "class": subject_class}
        return self._connection.json(get("/budget/series", step=step, unit=unit, mechanism=mechanism, **params))

    def estimate(self, request: Mapping[str, Any]) -> Estimate:
        """What a charging request would cost, by the members of any of them. Texts are counted, not read."""
        return self._connection.model(Estimate, post("/budget/estimate", request))

    def forecast(self, account: str) -> dict[str, Any]:
        """When the account runs out: an estimate, with a band."""
        return self._connection.json(get(f"/budget/{account}/forecast"))

    def bounds(self, account: str) -> dict[str, Any]:
        """What is proven of an account, and what is an estimate."""
        return self._connection.json(get(f"/budget/{account}/bounds"))

    def spending(
        self,
        account: str,
        *,
        by: str | None = None,
        bucket: str | None = None,
        from_ms: int | None = None,
        to_ms: int | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> dict[str, Any]:
        """Who spent: by mechanism, route, key or subject, over time. One page."""
        times = {"from": from_ms, "to": to_ms}
        path = f"/budget/{account}/spending"
        return self._connection.json(get(path, by=by, bucket=bucket, cursor=cursor, limit=limit, **times))

    def integrity(self) -> dict[str, Any]:
        """Seals, open holds, epsilon spent without output, and the last audit."""
        return self._connection.json(get("/budget/integrity"))

    def events(self) -> Iterator[dict[str, Any]]:
        """An item for each event that says that the tenant's budget has changed, until the stream ends.

        Raises Unauthorized when the key is revoked or expires.
        """
        with self._connection.stream(get("/budget/events")) as answer:
            for event in answer.events():
                if event.name == "problem":
                    raise line_problem(parsed_json(event.data))
                yield parsed_json(event.data)
