# Written by `make client` from asynchronous/client.py. Do not edit.
"""The client: its groups of methods, and the connection that they share."""

from __future__ import annotations

from types import TracebackType

from typing_extensions import Self, Unpack

from privacy_gateway_client.generated.administration import Admin, Alerts, Keys
from privacy_gateway_client.generated.budget import Budget
from privacy_gateway_client.generated.catalogue import (
    Accounting,
    Catalogue,
    Domains,
    Health,
    LanguageModels,
    Models,
    Presidio,
    Recognisers,
    Vault,
)
from privacy_gateway_client.generated.connection import Connection
from privacy_gateway_client.generated.embedding import Embedding
from privacy_gateway_client.generated.jobs import Jobs, Submission
from privacy_gateway_client.generated.sanitizing import Sanitizing
from privacy_gateway_client.options import BudgetCap
from privacy_gateway_client.options import Settings


class Gateway(Embedding, Sanitizing, Submission, Catalogue):
    """A client of the gateway at `base_url`, for one API key.

    `Gateway` blocks; several threads may share it. `AsyncGateway` has the same methods for `await`, and `async for`
    where a method yields several things; one event loop uses it. Close the client, or use it by `with` or `async with`.

    settings: see `options.Settings`.
    """

    def __init__(self, base_url: str, api_key: str, **settings: Unpack[Settings]) -> None:
        connection = Connection(base_url, api_key, settings)
        super().__init__(connection)
        self.budget = Budget(connection)
        self.jobs = Jobs(connection)
        self.models = Models(connection)
        self.domains = Domains(connection)
        self.recognisers = Recognisers(connection)
        self.accounting = Accounting(connection)
        self.keys = Keys(connection)
        self.language_models = LanguageModels(connection)
        self.health = Health(connection)
        self.alerts = Alerts(connection)
        self.presidio = Presidio(connection)
        self.vault = Vault(connection)
        self.admin = Admin(connection)

    def budget_cap(self, epsilon: float) -> BudgetCap:
        """A context manager that refuses what would charge more than `epsilon` in its block, before it is sent."""
        return BudgetCap(epsilon)

    def close(self) -> None:
        """Close the connections to the gateway."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._connection.gateway!r})"
