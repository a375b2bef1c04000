"""Garbage collection by owner references."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.controllers.controller import Controller, Key, is_terminating
from ctrlhost_sandbox.controllers.crds import TABLE as CRDS
from ctrlhost_sandbox.registry import views
from ctrlhost_sandbox.verbs.deletes import FOREGROUND, ORPHAN

if TYPE_CHECKING:
    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.registry import Kind
    from ctrlhost_sandbox.storage.store import Event, Snapshot, Table

_MOST_ABSENT = 500


class GarbageCollector(Controller):
    """Keys are uids."""

    name = "gc"

    def __init__(self, context: ServerContext) -> None:
        """Create an empty index of dependents."""
        super().__init__(context)
        self._dependents: dict[str, set[str]] = {}
        #: The objects with an owner whose kind is not served: nobody knows whether it exists.
        self._unresolved: set[str] = set()
        #: The last deleted owners, by kind, name, namespace and uid, also if their kind is no longer served.
        self._absent: dict[tuple[str, str, str, str], None] = {}
        #: The objects about whose owner in another namespace there is an Event, with that owner.
        self._reported: set[tuple[str, str]] = set()

    def touched(self, table: Table, event: Event) -> list[Key]:
        """Return objects with owners, terminating ones, and the dependents of deleted ones."""
        if table.name == CRDS:
            # The owners of these may be served now.
            waiting, self._unresolved = self._unresolved, set()
            return [(uid,) for uid in waiting]
        old, new = event.old, event.new
        keys: list[Key] = []
        before = set(old.owners) if old else set()
        after = set(new.owners) if new else set()
        uid = event.latest.uid
        for owner in before - after:
            self._dependents.get(owner, set()).discard(uid)
            keys.append((owner,))
        for owner in after - before:
            self._dependents.setdefault(owner, set()).add(uid)
        if new is None:
            self._unresolved.discard(uid)
            self._reported = {pair for pair in self._reported if uid not in pair}
            dependents = self._dependents.pop(uid, ())
            if dependents:
                self._note_absent(event.latest)
            keys += [(dependent,) for dependent in dependents]
        elif after or b'"deletionTimestamp"' in new.raw:
            keys.append((uid,))
        return keys

    def reconcile(self, key: Key) -> None:
        """Delete an object without existing owners; finish one that waits for its dependents."""
        snapshot = self.context.store.uids.get(key[0])
        kind = None if snapshot is None else self.context.registry.of_table(snapshot.table)
        if snapshot is None or kind is None:
            return
        obj = views.load(kind, snapshot)
        metadata = obj["metadata"]
        if "deletionTimestamp" in metadata:
            finalizers = metadata.get("finalizers") or []
            if ORPHAN in finalizers:
                self._orphan(kind, obj)
            elif FOREGROUND in finalizers:
                self._foreground(kind, obj)
            return
        if metadata.get("ownerReferences"):
            self._check_owners(kind, snapshot, obj)

    def _check_owners(self, kind: Kind, snapshot: Snapshot, obj: Object) -> None:
        references = obj["metadata"]["ownerReferences"]
        self._report(obj, references)
        solid, waits = [], False
        for reference in references:
            place = (reference["kind"], reference["name"])
            if any((*place, where, reference["uid"]) in self._absent for where in ("", snapshot.namespace)):
                continue
            owner_kind = self._find_kind(reference)
            if owner_kind is None:
                self._unresolved.add(snapshot.uid)
                return
            if owner_kind.namespaced and not kind.namespaced:
                # A namespaced object cannot own it, so the garbage collector does not touch it.
                return
            owner = self._owner(owner_kind, snapshot, reference)
            if owner is not None and _waits_for_dependents(owner):
                waits = True
            elif owner is not None:
                solid.append(reference)
        if solid:
            if len(solid) != len(references):
                obj["metadata"]["ownerReferences"] = solid
                self.update(kind, obj)
            return
        dependents = self._find_dependents(snapshot.uid) if waits else []
        if any(_waits_for_dependents(dependent) for _, dependent in dependents):
            # The owners may form a circle: no member may wait for another.
            for reference in references:
                reference.pop("blockOwnerDeletion", None)
            self.update(kind, obj)
        self.delete(kind, snapshot, "Foreground" if dependents else "Background")

    def _note_absent(self, owner: Snapshot) -> None:
        self._absent[owner.decode()["kind"], owner.name, owner.namespace, owner.uid] = None
        if len(self._absent) > _MOST_ABSENT:
            del self._absent[next(iter(self._absent))]

    def _find_kind(self, reference: dict[str, Any]) -> Kind | None:
        """Return the kind that a reference names; None if it is not served in that version."""
        group, _, version = reference["apiVersion"].rpartition("/")
        kind = self.context.registry.find_kind(group, version, reference["kind"])
        return None if kind is None or kind.virtual else kind

    def _owner(self, kind: Kind, dependent: Snapshot, reference: dict[str, Any]) -> Snapshot | None:
        """Find the existing owner: of that kind and name, in the dependent's namespace or cluster-wide."""
        namespace = dependent.namespace if kind.namespaced else ""
        owner = self.context.store.table(kind.table).get(namespace, reference["name"])
        return owner if owner is not None and owner.uid == reference["uid"] else None

    def _report(self, obj: Object, references: list[dict[str, Any]]) -> None:
        """Record an Event about an owner that exists in another namespace, once."""
        metadata = obj["metadata"]
        namespace = metadata.get("namespace", "")
        for reference in references:
            owner = self.context.store.uids.get(reference["uid"])
            if owner is None or owner.namespace in ("", namespace) or (metadata["uid"], owner.uid) in self._reported:
                continue
            self._reported.add((metadata["uid"], owner.uid))
            named = f"{reference['apiVersion']}/{reference['kind']}, namespace: {namespace}, name: {reference['name']}"
            text = f'ownerRef [{named}, uid: {owner.uid}] does not exist in namespace "{namespace}"'
            self.event(obj, "OwnerRefInvalidNamespace", text, "garbage-collector-controller", warning=True)
            return

    def _find_dependents(self, uid: str) -> list[tuple[Kind, Snapshot]]:
        dependents = []
        for dependent in sorted(self._dependents.get(uid, ())):
            snapshot = self.context.store.uids.get(dependent)
            kind = None if snapshot is None else self.context.registry.of_table(snapshot.table)
            if kind is not None and snapshot is not None:
                dependents.append((kind, snapshot))
        return dependents

    def _orphan(self, kind: Kind, obj: Object) -> None:
        uid = obj["metadata"]["uid"]
        for dependent_kind, snapshot in self._find_dependents(uid):
            dependent = views.load(dependent_kind, snapshot)
            references = dependent["metadata"].get("ownerReferences") or []
            dependent["metadata"]["ownerReferences"] = [item for item in references if item["uid"] != uid]
            self.update(dependent_kind, dependent)
        self._finish(kind, obj, ORPHAN)

    def _foreground(self, kind: Kind, obj: Object) -> None:
        uid = obj["metadata"]["uid"]
        blocked = False
        for dependent_kind, snapshot in self._find_dependents(uid):
            references = views.load(dependent_kind, snapshot)["metadata"].get("ownerReferences") or []
            blocked = blocked or any(item["uid"] == uid and item.get("blockOwnerDeletion") for item in references)
            self.add((snapshot.uid,))
        if not blocked:
            self._finish(kind, obj, FOREGROUND)

    def _finish(self, kind: Kind, obj: Object, finalizer: str) -> None:
        metadata = obj["metadata"]
        metadata["finalizers"] = [name for name in metadata["finalizers"] if name != finalizer]
        self.update(kind, obj)


def _waits_for_dependents(snapshot: Snapshot) -> bool:
    """Return whether the object is being deleted in the foreground."""
    return b'"foregroundDeletion"' in snapshot.raw and is_terminating(snapshot)
