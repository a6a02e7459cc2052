"""The operator's stores for bulk releases: which tenant may read from which, and write to which.

Guarantee: a tenant finds a store only if the operator lets the tenant use it. A store that a tenant may not use is the
same error as one that does not exist.
"""

from collections.abc import Mapping
from typing import Literal

from core.errors import InvalidInput
from gpu_workers.bulk.stores import StoreAccess
from service.config.settings import Settings
from service.config.stores import BulkStoreSettings

Use = Literal["read", "write"]


class BulkStores:
    """The stores of BULK_STORES_FILE."""

    def __init__(self, stores: Mapping[str, BulkStoreSettings]) -> None:
        self._stores = stores

    @classmethod
    def of_settings(cls, settings: Settings) -> "BulkStores":
        """The stores that the settings name. They were checked when the settings were read."""
        return cls(settings.bulk_stores)

    def names(self, tenant: str, use: Use) -> list[str]:
        """The stores that a tenant may use, in the order of the file."""
        return [name for name, store in self._stores.items() if self._is_for(store, tenant, use)]

    def find(self, name: str, tenant: str, use: Use, *, field: str) -> StoreAccess:
        """The store with its credentials. `field`: the member of the request that names it. Raises InvalidInput."""
        store = self._stores.get(name)
        if store is None or not self._is_for(store, tenant, use):
            names = ", ".join(self.names(tenant, use)) or "none"
            raise InvalidInput(f"no store of this name that you may {use}; there are: {names}", field=field)
        return store.access(name)

    @staticmethod
    def _is_for(store: BulkStoreSettings, tenant: str, use: Use) -> bool:
        is_permitted = store.read if use == "read" else store.write
        return is_permitted and (store.tenants is None or tenant in store.tenants)
