"""API keys, alerts, tenants and the log of administrative actions.

A request that makes a key or a tenant is not repeated after its answer was lost: list the keys to see what happened.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from typing_extensions import Unpack

from privacy_gateway_client.answers import Account, AlertRule, ApiKey, NewTenantAnswer
from privacy_gateway_client.asynchronous.connection import Connection, Group
from privacy_gateway_client.options import KeyOptions, TenantOptions
from privacy_gateway_client.wire import Outgoing, get, given, post, put


class Keys(Group):
    """The tenant's API keys."""

    async def list(self) -> list[ApiKey]:
        """The keys of the tenant. The API key needs the role `admin`, as for the calls below."""
        return await self._connection.rows_as(ApiKey, get("/keys"), "keys")

    async def create(self, **options: Unpack[KeyOptions]) -> ApiKey:
        """Make a key; its `key` is shown this once."""
        return await self._connection.model(ApiKey, post("/keys", given(options), repeatable=False))

    async def rotate(self, key_id: str, *, overlap_s: int, expires_s: int | None = None) -> ApiKey:
        """Make a successor; the old key ends after `overlap_s` seconds."""
        return await self._connection.model(ApiKey, _rotation(f"/keys/{key_id}", overlap_s, expires_s))

    async def revoke(self, key_id: str) -> ApiKey:
        """End a key at once."""
        return await self._connection.model(ApiKey, Outgoing("DELETE", f"/keys/{key_id}"))


class Alerts(Group):
    """Alerts of the tenant, or with the admin key of the operator."""

    def __init__(self, connection: Connection, path: str = "/alerts") -> None:
        super().__init__(connection)
        self._path = path

    def fired(self, *, status: str | None = None, limit: int | None = None) -> AsyncIterator[dict[str, Any]]:
        """The alerts that fired, newest first."""
        return self._connection.pages(self._path, "alerts", None, status=status, limit=limit)

    async def rules(self) -> list[AlertRule]:
        """The rules. The API key needs the role `admin`, as for the calls below."""
        return await self._connection.rows_as(AlertRule, get(f"{self._path}/rules"), "rules")

    async def rule(self, name: str) -> AlertRule:
        """One rule, and its last delivery."""
        return await self._connection.model(AlertRule, get(f"{self._path}/rules/{name}"))

    async def put_rule(self, name: str, rule: Mapping[str, Any]) -> AlertRule:
        """Store a rule. The answer shows the secret of a new webhook once."""
        return await self._connection.model(AlertRule, put(f"{self._path}/rules/{name}", rule, repeatable=False))

    async def delete_rule(self, name: str) -> None:
        """Delete a rule."""
        await self._connection.delete(f"{self._path}/rules/{name}")

    async def send_sample(self, name: str) -> dict[str, str]:
        """Send a sample to the receivers of a rule: the result of each channel."""
        return await self._connection.json(post(f"{self._path}/rules/{name}/test", repeatable=False))


class Admin(Group):
    """Administration, with the admin key."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.alerts = Alerts(connection, "/admin/alerts")

    async def tenants(self) -> list[dict[str, Any]]:
        """Every tenant."""
        return await self._connection.rows(get("/admin/tenants"), "tenants")

    async def create_tenant(self, name: str, *, epsilon: float, **options: Unpack[TenantOptions]) -> NewTenantAnswer:
        """Open a tenant with a budget; its first key is shown this once."""
        members = {"name": name, "epsilon": epsilon, **given(options)}
        return await self._connection.model(NewTenantAnswer, post("/admin/tenants", members, repeatable=False))

    def budgets(self, tenant: str, *, limit: int | None = None) -> AsyncIterator[Account]:
        """The accounts of a tenant."""
        return self._connection.pages(f"/admin/tenants/{tenant}/budgets", "accounts", Account, limit=limit)

    async def set_limit(self, tenant: str, unit: str, *, epsilon: float) -> Account:
        """Raise or lower what the account of a unit may spend, at most the epsilon that it was opened with."""
        request = put(f"/admin/tenants/{tenant}/budgets/{unit}/limit", {"epsilon": epsilon})
        return await self._connection.model(Account, request)

    async def keys(self, tenant: str) -> list[ApiKey]:
        """The keys of a tenant."""
        return await self._connection.rows_as(ApiKey, get(f"/admin/tenants/{tenant}/keys"), "keys")

    async def create_key(self, tenant: str, **options: Unpack[KeyOptions]) -> ApiKey:
        """Make a key of a tenant."""
        request = post(f"/admin/tenants/{tenant}/keys", given(options), repeatable=False)
        return await self._connection.model(ApiKey, request)

    async def rotate_key(self, tenant: str, key_id: str, *, overlap_s: int, expires_s: int | None = None) -> ApiKey:
        """Make a successor of a tenant's key."""
        request = _rotation(f"/admin/tenants/{tenant}/keys/{key_id}", overlap_s, expires_s)
        return await self._connection.model(ApiKey, request)

    async def revoke_key(self, tenant: str, key_id: str) -> ApiKey:
        """End a key of a tenant at once."""
        return await self._connection.model(ApiKey, Outgoing("DELETE", f"/admin/tenants/{tenant}/keys/{key_id}"))

    async def end_sessions(self, tenant: str | None = None) -> None:
        """End every session of the dashboard for a tenant; without one, those of the operator."""
        path = "/admin/sessions/end" if tenant is None else f"/admin/tenants/{tenant}/sessions/end"
        await self._connection.call(post(path))

    def audit(self, *, limit: int | None = None) -> AsyncIterator[dict[str, Any]]:
        """The entries of the log of administrative actions."""
        return self._connection.pages("/admin/audit", "entries", None, limit=limit)

    async def integrity(self, *, cursor: str | None = None, limit: int | None = None) -> dict[str, Any]:
        """The integrity of every tenant, one page."""
        return await self._connection.json(get("/admin/integrity", cursor=cursor, limit=limit))

    async def service(self) -> dict[str, Any]:
        """Workers, queues, throughput, latency and errors since the gateway's start."""
        return await self._connection.json(get("/admin/service"))


def _rotation(key_path: str, overlap_s: int, expires_s: int | None) -> Outgoing:
    return post(f"{key_path}/rotate", given({"overlap_s": overlap_s, "expires_s": expires_s}), repeatable=False)
