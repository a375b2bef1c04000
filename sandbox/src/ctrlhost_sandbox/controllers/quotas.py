"""The use of resource quotas: counted when a quota changes, and when objects go or change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlhost_sandbox.admission import quotas
from ctrlhost_sandbox.controllers.controller import Controller

if TYPE_CHECKING:
    from ctrlhost_sandbox.controllers.controller import Key
    from ctrlhost_sandbox.storage.store import Event, Table

_CHANGING = ("pods", "services", "persistentvolumeclaims")
"""Tables whose objects may use less after an update."""


class QuotaController(Controller):
    """Keep the status of quotas in step; admission charges what is created."""

    name = "resourcequota"

    def touched(self, table: Table, event: Event) -> list[Key]:
        """Return a changed quota, and the quotas of a namespace in which an object went or changed."""
        if table.name == quotas.TABLE and event.new is not None:
            return [event.new.key]
        if event.new is not None and (event.old is None or table.name not in _CHANGING):
            return []
        there = self.context.store.table(quotas.TABLE).namespaces.get(event.latest.namespace, {})
        return [snapshot.key for snapshot in there.values()]

    def reconcile(self, key: Key) -> None:
        """Count what there is, and store the status if it differs."""
        namespace, name = key
        snapshot = self.context.store.table(quotas.TABLE).get(namespace, name)
        if snapshot is None:
            return
        quota = snapshot.decode()
        status = quotas.recount(self.context, quota)
        if status != (quota.get("status") or {}):
            quotas.write_status(self.context, quota, status, "kube-controller-manager")
