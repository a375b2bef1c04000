"""The life cycle of namespaces: a default account and the CA at creation; contents are deleted before the namespace."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ctrlhost_sandbox.apimachinery import times
from ctrlhost_sandbox.controllers.controller import Controller, Key, is_terminating

if TYPE_CHECKING:
    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.storage.store import Event, Table

TABLE, PODS = "namespaces", "pods"
ROOT_CA = "kube-root-ca.crt"
_DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)
INITIAL = {"serviceaccounts": "default", "configmaps": ROOT_CA}
"""The objects that every namespace has: the table and the name."""
_DELETED = "All content successfully deleted, may be waiting on finalization"
_CONDITIONS = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
    "NamespaceDeletionContentFailure": ("ContentDeleted", _DELETED),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}


class NamespaceController(Controller):
    """Keys are names of namespaces."""

    name = "namespace"

    def touched(self, table: Table, event: Event) -> list[Key]:
        """Return a changed namespace, a terminating one whose contents changed, and one without an initial object."""
        if table.name == TABLE:
            return [(event.new.name,)] if event.new else []
        if INITIAL.get(table.name) == event.latest.name:
            return [(event.latest.namespace,)]
        # Not only deletions: removing one of several finalizers changes the conditions.
        if event.old is None or not event.old.namespace:
            return []
        namespace = self.context.store.table(TABLE).get("", event.old.namespace)
        return [(namespace.name,)] if namespace is not None and is_terminating(namespace) else []

    def reconcile(self, key: Key) -> None:
        """Empty and finalize a terminating namespace; create the initial objects of an active one."""
        kind = self.kind("", "Namespace")
        namespace = self.read(kind, "", key[0])
        if namespace is None:
            return
        if "deletionTimestamp" not in namespace["metadata"]:
            self._account(key[0])
            self._root_ca(key[0])
            return
        if not (namespace.get("spec") or {}).get("finalizers"):
            return
        remaining, finalizers = self._empty(key[0])
        if remaining:
            self._report(namespace, remaining, finalizers)
            return
        namespace["spec"] = {}
        self.update(kind, namespace, "finalize")

    def _account(self, name: str) -> None:
        accounts = self.kind("", "ServiceAccount")
        if self.read(accounts, name, "default") is None:
            account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": name}}
            self.create(accounts, name, account)

    def _root_ca(self, name: str) -> None:
        """Publish the server's CA certificate, and restore it after a change."""
        kind = self.kind("", "ConfigMap")
        stored = self.read(kind, name, ROOT_CA)
        wanted = stored or {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": ROOT_CA, "namespace": name}}
        wanted["data"] = {"ca.crt": self.context.ca}
        wanted["metadata"].setdefault("annotations", {}).setdefault("kubernetes.io/description", _DESCRIPTION)
        if stored is None:
            self.create(kind, name, wanted)
        else:
            self.update(kind, wanted)

    def _empty(self, name: str) -> tuple[Counter[str], Counter[str]]:
        """Delete all contents, the pods first; return the counts of remaining objects and of their finalizers."""
        remaining: Counter[str] = Counter()
        finalizers: Counter[str] = Counter()
        kinds = (kind for kind in self.context.registry.tables().values() if kind.namespaced)
        for kind in sorted(kinds, key=lambda kind: kind.table != PODS):
            if remaining[PODS]:
                break
            table = self.context.store.table(kind.table)
            for snapshot in table.list(name):
                if not is_terminating(snapshot):
                    self.delete(kind, snapshot)
            for snapshot in table.list(name):
                remaining[kind.table if kind.table == PODS else f"{kind.plural}.{kind.group}"] += 1
                finalizers.update(snapshot.decode()["metadata"].get("finalizers") or ())
        return remaining, finalizers

    def _report(self, namespace: Object, remaining: Counter[str], finalizers: Counter[str]) -> None:
        listed = ", ".join(f"{name} has {count} resource instances" for name, count in sorted(remaining.items()))
        remains = {"NamespaceContentRemaining": ("SomeResourcesRemain", f"Some resources are remaining: {listed}")}
        if finalizers:
            held = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(finalizers.items()))
            text = f"Some content in the namespace has finalizers remaining: {held}"
            remains["NamespaceFinalizersRemaining"] = ("SomeFinalizersRemain", text)
        before = {item["type"]: item for item in (namespace.get("status") or {}).get("conditions") or ()}
        conditions = []
        for name, (reason, message) in (_CONDITIONS | remains).items():
            known, value = before.get(name), "True" if name in remains else "False"
            since = known["lastTransitionTime"] if known and known["status"] == value else times.now()
            entry = {"type": name, "status": value, "lastTransitionTime": since}
            conditions.append({**entry, "reason": reason, "message": message})
        namespace["status"] = {"phase": "Terminating", "conditions": conditions}
        self.update(self.kind("", "Namespace"), namespace, "status")
