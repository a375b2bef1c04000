"""Garbage collection by owner references."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.controllers.controller import Controller, Key, is_terminating
from ctrlhost_sandbox.registry import views
from ctrlhost_sandbox.verbs.deletes import FOREGROUND, ORPHAN

if TYPE_CHECKING:
    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.registry import Kind
    from ctrlhost_sandbox.storage.store import Event, Snapshot, Table


class GarbageCollector(Controller):
    """Keys are uids."""

    name = "gc"

    def __init__(self, context: ServerContext) -> None:
        """Create an empty index of dependents."""
        super().__init__(context)
        self._dependents: dict[str, set[str]] = {}

    def touched(self, table: Table, event: Event) -> list[Key]:
        """Return objects with owners, terminating ones, and the dependents of deleted ones."""
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
            keys += [(dependent,) for dependent in self._dependents.pop(uid, ())]
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
        solid, waits = [], False
        for reference in references:
            owner = self._owner(snapshot, reference)
            if owner is None and not kind.namespaced and reference["uid"] in self.context.store.uids:
                # A cluster-scoped object cannot be owned by a namespaced one; ignore it.
                return
            if owner is not None and _waits_for_dependents(owner):
                waits = True
            elif owner is not None:
                solid.append(reference)
        if solid:
            if len(solid) != len(references):
                obj["metadata"]["ownerReferences"] = solid
                self.update(kind, obj)
            return
        dependents = self._dependents_of(snapshot.uid) if waits else []
        if any(_waits_for_dependents(dependent) for _, dependent in dependents):
            # The owners may form a circle: no member may wait for another.
            for reference in references:
                reference.pop("blockOwnerDeletion", None)
            self.update(kind, obj)
        self.delete(kind, snapshot, "Foreground" if dependents else "Background")

    def _owner(self, dependent: Snapshot, reference: dict[str, Any]) -> Snapshot | None:
        """Find the existing owner: in the dependent's namespace or cluster-wide, with that uid."""
        owner = self.context.store.uids.get(reference["uid"])
        if owner is None:
            return None
        return owner if owner.name == reference["name"] and owner.namespace in ("", dependent.namespace) else None

    def _dependents_of(self, uid: str) -> list[tuple[Kind, Snapshot]]:
        found = []
        for dependent in sorted(self._dependents.get(uid, ())):
            snapshot = self.context.store.uids.get(dependent)
            kind = None if snapshot is None else self.context.registry.of_table(snapshot.table)
            if kind is not None and snapshot is not None:
                found.append((kind, snapshot))
        return found

    def _orphan(self, kind: Kind, obj: Object) -> None:
        uid = obj["metadata"]["uid"]
        for dependent_kind, snapshot in self._dependents_of(uid):
            dependent = views.load(dependent_kind, snapshot)
            references = dependent["metadata"].get("ownerReferences") or []
            dependent["metadata"]["ownerReferences"] = [item for item in references if item["uid"] != uid]
            self.update(dependent_kind, dependent)
        self._finish(kind, obj, ORPHAN)

    def _foreground(self, kind: Kind, obj: Object) -> None:
        uid = obj["metadata"]["uid"]
        blocked = False
        for dependent_kind, snapshot in self._dependents_of(uid):
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
