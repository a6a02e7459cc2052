"""The schema of a ledger: the form of its keys and records, and which versions of the gateway may serve on it.

Guarantee: a gateway serves only on a ledger of its own schema, or where one of the two was declared compatible with the
other. An interrupted migration is visible, and no gateway serves until it is completed.

The key VERSION_KEY has one of these texts. Every version of the gateway rejects a text that it does not know.

    N              schema N; only gateways of schema N may serve, and newer ones whose migrations permit it
    N MIN          schema N; older gateways may serve, too, from schema MIN on
    N MIN from O   a migration from schema O to N was interrupted, or is running
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from core.errors import LedgerUnavailable
from core.ledger import names
from core.ledger.client import LedgerClient
from core.ledger.presence import Presences

Call = Callable[..., Awaitable[Any]]  # one Redis command
Apply = Callable[[LedgerClient], Awaitable[int]]

_TEXT = re.compile(r"(\d{1,6})(?: (\d{1,6}))?(?: from (\d{1,6}))?")
_HOW = "see docs/operating/upgrades.md"


@dataclass(frozen=True)
class Migration:
    """The step to schema `number`. `apply` converts the ledger and may be repeated and interrupted.

    `old_may_serve`: gateways of the schema before may serve on a ledger after this step. `new_may_serve`: gateways of
    this schema may serve on a ledger before it.
    """

    number: int
    apply: Apply | None = None
    old_may_serve: bool = False
    new_may_serve: bool = False


@dataclass(frozen=True)
class SchemaState:
    """What VERSION_KEY says. 0 is a ledger without this key."""

    number: int
    oldest: int
    migrating_from: int | None = None

    @classmethod
    def parse(cls, text: bytes | None) -> SchemaState | None:
        """Return the state, or None for a text of a version that this one does not know."""
        if text is None:
            return cls(0, 0)
        found = _TEXT.fullmatch(text.decode("ascii", "replace"))
        if found is None:
            return None
        number, oldest, source = (None if part is None else int(part) for part in found.groups())
        return cls(number or 0, number or 0 if oldest is None else oldest, source)

    def text(self) -> bytes:
        source = "" if self.migrating_from is None else f" from {self.migrating_from}"
        oldest = f" {self.oldest}" if self.oldest != self.number or source else ""
        return f"{self.number}{oldest}{source}".encode()


class Schema:
    """The schema of this version of the gateway: its migrations in order."""

    def __init__(self, migrations: Sequence[Migration]) -> None:
        self._migrations = tuple(migrations)
        self.number = migrations[-1].number

    async def check(self, call: Call) -> None:
        """Refuse a ledger on which this version may not begin to serve. Makes one read. Raises LedgerUnavailable."""
        text = await call("GET", names.VERSION_KEY)
        state = SchemaState.parse(text)
        if state is not None and state.migrating_from is not None:
            raise LedgerUnavailable(
                f"A migration of the ledger to schema {state.number} was not completed: run "
                f"`privacy-gateway ledger migrate` of the version with that schema; {_HOW}."
            )
        self.check_text(text)

    def check_text(self, text: bytes | None) -> None:
        """Refuse a ledger on which this version may not continue to serve, by the text of VERSION_KEY."""
        self.refuse_newer(text)
        state = SchemaState.parse(text)
        number = state.number if state else 0
        if number < self.number and not all(step.new_may_serve for step in self._after(number)):
            raise LedgerUnavailable(
                f"The ledger has schema {number}, and this version of the gateway needs {self.number}: run "
                f"`privacy-gateway ledger migrate`; {_HOW}."
            )

    def refuse_newer(self, text: bytes | None) -> None:
        """Refuse only a ledger of a newer schema that does not permit this version. Raises LedgerUnavailable."""
        state = SchemaState.parse(text)
        if state is None or (state.number > self.number and state.oldest > self.number):
            shown = "one that this version does not know" if state is None else str(state.number)
            raise LedgerUnavailable(
                f"A newer version of the gateway has migrated this ledger. Its schema is {shown}, and this version has "
                f"schema {self.number}; {_HOW}."
            )

    async def begin(self, client: LedgerClient) -> None:
        """Give a ledger without any tenant this schema. Others are left as they are. Raises LedgerUnavailable."""
        if await client.call("GET", names.VERSION_KEY) is None and not await client.call("SMEMBERS", names.TENANTS_KEY):
            await client.call("SET", names.VERSION_KEY, SchemaState(self.number, self.number).text(), "NX")

    async def migrate(self, client: LedgerClient, presences: Presences | None = None) -> int:
        """Bring the ledger to this schema. Returns the number of changed records. May be repeated and interrupted.

        Refuses while gateways of another schema are present, unless each step permits them. From the first step to the
        last, no gateway begins to serve. Raises LedgerUnavailable, also for a ledger of a newer schema.
        """
        found = SchemaState.parse(await client.call("GET", names.VERSION_KEY))
        if found is None or found.number > self.number:
            raise LedgerUnavailable("A newer version of the gateway has migrated this ledger.")
        source = found.number if found.migrating_from is None else found.migrating_from
        steps = self._after(source)
        await self._refuse_others(steps, presences)
        if not steps:
            return 0
        # A gateway writes its presence before it reads the schema. This writes the schema before it reads the presences
        # again. So this finds a gateway that starts now, or that gateway finds the migration and does not serve.
        running = SchemaState(self.number, self._oldest(), migrating_from=source)
        await client.call("SET", names.VERSION_KEY, running.text())
        await self._refuse_others(steps, presences)
        changed = 0
        for step in steps:
            if step.apply is not None:
                changed += await step.apply(client)
        await client.call("SET", names.VERSION_KEY, SchemaState(self.number, self._oldest()).text())
        return changed

    async def _refuse_others(self, steps: Sequence[Migration], presences: Presences | None) -> None:
        if presences is None or all(step.old_may_serve for step in steps):
            return
        others = [one for one in await presences.listed() if one.schema != self.number]
        if others:
            found = ", ".join(f"{one.name} (schema {one.schema})" for one in others[:5])
            raise LedgerUnavailable(
                f"Gateways of another schema serve this ledger: {found}. Stop them, and run the migration again."
            )

    def _after(self, number: int) -> tuple[Migration, ...]:
        return tuple(step for step in self._migrations if step.number > number)

    def _oldest(self) -> int:
        """The oldest schema whose gateways may serve on a ledger of this one."""
        oldest = self.number
        for step in reversed(self._migrations):
            if not step.old_may_serve:
                break
            oldest = step.number - 1
        return oldest
