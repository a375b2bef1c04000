"""Aggregated ClusterRoles: their rules are those of the ClusterRoles they select."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery.selectors import match_selector
from ctrlhost_sandbox.auth.authorizer import GROUP
from ctrlhost_sandbox.controllers.controller import Controller, Key, is_terminating

if TYPE_CHECKING:
    from ctrlhost_sandbox.storage.store import Event, Snapshot, Table

_TABLE = f"{GROUP}/clusterroles"
_ALL: Key = ("all",)


class AggregationController(Controller):
    """Writes the rules of aggregated ClusterRoles, so that their readers see what they grant."""

    name = "clusterrole-aggregation"

    def touched(self, table: Table, event: Event) -> list[Key]:
        """Any change of a ClusterRole may affect any other."""
        return [_ALL] if table.name == _TABLE else []

    def reconcile(self, key: Key) -> None:
        """Aggregate all aggregated ClusterRoles."""
        assert key == _ALL
        roles = self.context.store.table(_TABLE).list()
        for snapshot in roles:
            if b'"aggregationRule"' in snapshot.raw and not is_terminating(snapshot):
                self._aggregate(snapshot, roles)

    def _aggregate(self, snapshot: Snapshot, roles: list[Snapshot]) -> None:
        role = snapshot.decode()
        wanted = (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
        rules: list[Any] = []
        for selector in wanted:
            for other in roles:
                if other.name != snapshot.name and match_selector(selector, other.labels):
                    rules += [rule for rule in other.decode().get("rules") or () if rule not in rules]
        if wanted and rules != (role.get("rules") or []):
            role["rules"] = rules
            self.update(self.kind(GROUP, "ClusterRole"), role)
