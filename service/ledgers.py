"""The ledgers of a deployment: the main one, and those that the setting LEDGERS names beside it.

Tenants live on one ledger each (`core.ledger.homes`). `front` sends each command to the right one. What one gateway
does for a ledger, and the commands of the operator, take the parts of that ledger.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from core.errors import LedgerError, LedgerUnavailable
from core.ledger import names
from core.ledger.client import LedgerClient
from core.ledger.embedded import attached
from core.ledger.homes import MAIN, HomeMap
from core.ledger.keys import MasterKey
from core.ledger.routed import RoutedArchive, RoutedClient
from service.config.secrets import load_master_key
from service.config.settings import Settings
from service.ledger import LedgerParts, build_ledger, check_ledger, checked_ledger, stores

LEDGERS_NEED_URL = "LEDGERS needs REDIS_URL: the embedded server cannot be the main one of several ledgers"


@dataclass(frozen=True)
class Ledgers:
    """`front` is `main` itself if there is no other ledger."""

    main: LedgerParts
    named: Mapping[str, LedgerParts]
    homes: HomeMap
    front: LedgerParts

    @property
    def each(self) -> tuple[LedgerParts, ...]:
        return (self.main, *self.named.values())

    async def check_main(self) -> None:
        """Refuse settings that lack a ledger of this deployment. Raises LedgerUnavailable."""
        await self.homes.check()
        if self.named:
            await _check_name(self.main.client, MAIN)
            return
        found = await self.main.client.call("GET", names.LEDGER_NAME_KEY)
        if found is not None and (found != MAIN.encode() or not await self.homes.has_entries()):
            raise LedgerUnavailable(
                "This Redis is one of several ledgers, and the settings have no LEDGERS; see "
                "docs/operating/several-ledgers.md."
            )

    async def check_name(self, name: str) -> None:
        """Refuse a Redis that is another ledger of this or another deployment. Raises LedgerUnavailable."""
        await self.named[name].ledger.check()  # before this ledger is given the name
        await _check_name(self.named[name].client, name)

    async def use_main(self) -> None:
        """Record the homes of the main ledger's tenants, where there are several. Raises LedgerUnavailable."""
        if self.named:
            await self.homes.adopt(self.main.client, MAIN)

    async def use(self, name: str) -> None:
        """Use the ledger from now on: its name, schema and seals were checked. Raises LedgerUnavailable."""
        await self.homes.adopt(self.named[name].client, name)
        self.homes.opened(name)


def build_ledgers(settings: Settings, master_key: MasterKey, *, main: LedgerParts) -> Ledgers:
    """The ledgers of the settings beside `main`. Does not connect yet. Raises ValueError."""
    if settings.ledgers and settings.redis_url is None:
        raise ValueError(LEDGERS_NEED_URL)
    named = {name: build_ledger(settings, master_key, socket=None, name=name) for name in settings.ledgers}
    homes = HomeMap(main.client, named)
    if not named:
        return Ledgers(main, {}, homes, main)
    client = RoutedClient(main.client, {name: parts.client for name, parts in named.items()}, homes)
    archive = RoutedArchive(client, {MAIN: main.archive, **{name: parts.archive for name, parts in named.items()}})
    ledger, keys = stores(settings, client, main.master_key, archive)
    return Ledgers(main, named, homes, replace(main, client=client, archive=archive, ledger=ledger, keys=keys))


async def _check_name(client: LedgerClient, name: str) -> None:
    await client.call("SET", names.LEDGER_NAME_KEY, name, "NX")
    found = await client.call("GET", names.LEDGER_NAME_KEY)
    if found != name.encode():
        raise LedgerUnavailable(
            f"The Redis of the ledger {name} is that of the ledger {found.decode('ascii', 'replace')}: compare LEDGERS "
            "with that of the other gateways."
        )


@asynccontextmanager
async def ledger_access(settings: Settings, *, trusted: bool = True, name: str = MAIN) -> AsyncIterator[LedgerParts]:
    """A ledger for a short command: of the running gateway or the deployment, or a server started for the command.

    With `trusted`, a ledger that does not match its seals is refused. Commands that inspect such a ledger pass False.
    """
    master_key = load_master_key(settings)
    async with (
        _main_socket(settings) as socket,
        checked_ledger(settings, master_key, socket, trusted=trusted, name=name) as parts,
    ):
        yield parts


@asynccontextmanager
async def ledgers_access(settings: Settings, *, left_out: Callable[[str], None]) -> AsyncIterator[Ledgers]:
    """All ledgers for a short command, each checked. Raises LedgerUnavailable if the main one cannot be used.

    `left_out` gets one line for each other one that cannot be used. Its tenants are refused then.
    """
    master_key = load_master_key(settings)
    async with AsyncExitStack() as stack:
        socket = await stack.enter_async_context(_main_socket(settings))
        main = await stack.enter_async_context(checked_ledger(settings, master_key, socket, trusted=True))
        ledgers = build_ledgers(settings, master_key, main=main)
        await ledgers.check_main()
        await ledgers.use_main()
        for name, parts in ledgers.named.items():
            stack.push_async_callback(parts.close)
            try:
                await ledgers.check_name(name)
                await check_ledger(parts)
                await ledgers.use(name)
            except LedgerError as error:
                left_out(f"the ledger {name} is not used: {error}")
        yield ledgers


@asynccontextmanager
async def _main_socket(settings: Settings) -> AsyncIterator[Path | None]:
    """The socket of the embedded server; None for a server at `redis_url`."""
    if settings.redis_url is not None:
        yield None
        return
    async with attached(settings.data_dir, redis_server=settings.redis_server) as socket:
        yield socket


async def home_of(settings: Settings, tenant: str) -> str:
    """The name of the ledger where a tenant lives, for a short command that takes one ledger."""
    if not settings.ledgers:
        return MAIN
    async with ledger_access(settings, trusted=False) as parts:
        return await HomeMap(parts.client, settings.ledgers).recorded(tenant)
