"""The life cycle of CRDs: accept names, establish, and delete the objects before the CRD."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.admission.conversions import Conversion
from ctrlhost_sandbox.apimachinery.objects import condition, is_true
from ctrlhost_sandbox.apimachinery.status import Failure
from ctrlhost_sandbox.controllers.controller import Controller, Key, is_terminating
from ctrlhost_sandbox.crds import approval, names
from ctrlhost_sandbox.crds.conditions import FINALIZER, set_condition
from ctrlhost_sandbox.registry.custom import build_kinds

if TYPE_CHECKING:
    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.storage.store import Event, Table

_FULL = 507
TABLE = "apiextensions.k8s.io/customresourcedefinitions"
_log = logging.getLogger("ctrlhost_sandbox.crd_lifecycle")


class CrdController(Controller):
    """Keys are names of CRDs. The served kinds follow each write of a CRD at once."""

    name = "crd"

    def touched(self, table: Table, event: Event) -> list[Key]:
        """Return a changed CRD and those that wait for its names; the CRD of a deleted object."""
        if table.name == TABLE:
            name = event.latest.name
            crd = None if event.new is None else event.new.decode()
            self._serve(name, crd)
            if event.old is not None and (crd is None or _storage_of(event.old.decode()) != _storage_of(crd)):
                self._end_watches(name)
            return [(affected,) for affected in (name, *self.context.crds.note(name, crd))]
        group, _, plural = table.name.partition("/")
        return [(f"{plural}.{group}",)] if event.new is None and "." in group else []

    def reconcile(self, key: Key) -> None:
        """Take the next step of a CRD by one write, which enqueues it again."""
        snapshot = self.context.store.table(TABLE).get("", key[0])
        if snapshot is None:
            return
        try:
            self._advance(snapshot.decode())
        except Failure as failure:
            if failure.code == _FULL:
                raise
            # It would fail again, so it is not retried.
            _log.warning("sandbox: reconciling CRD %s failed: %s", key[0], failure.message)

    def _serve(self, name: str, crd: Object | None) -> None:
        """Update the registry for a CRD."""
        context = self.context
        before = context.registry.custom(name)
        shapes = {kind.custom.marker: kind.custom.shape for kind in before if kind.custom is not None}
        kinds = [] if crd is None else build_kinds(crd, shapes, self._converter(crd))
        context.registry.serve_custom(name, kinds)
        for kind in before:
            if not kinds and not context.store.table(kind.table).count:
                context.store.drop_table(kind.table)

    def _converter(self, crd: Object) -> Conversion | None:
        conversion = crd["spec"].get("conversion") or {}
        return Conversion(self.context, conversion["webhook"]) if conversion.get("strategy") == "Webhook" else None

    def _end_watches(self, name: str) -> None:
        """End the watches of all versions properly, as a real server does when it replaces the storage of a CRD."""
        for watch in list(self.context.watches):
            if watch.kind.custom is not None and watch.kind.custom.crd == name:
                watch.end()

    def _advance(self, crd: Object) -> None:
        if "deletionTimestamp" in crd["metadata"]:
            self._clean_up(crd)
            return
        before = (crd.get("status") or {}).get("conditions"), (crd.get("status") or {}).get("acceptedNames")
        if self.context.options.crd_conditions == "builtin" and (judgement := names.resolve(crd, self.context.crds)):
            crd["status"]["acceptedNames"], conditions = judgement
            for entry in conditions:
                set_condition(crd, *entry)
        if (verdict := approval.judge(crd)) is not None:
            value = "True" if verdict[0] == approval.APPROVED else "False"
            if (condition(crd, approval.CONDITION) or {}).get("message") != verdict[1]:
                set_condition(crd, approval.CONDITION, value, *verdict)
        status = crd.get("status") or {}
        if before != (status.get("conditions"), status.get("acceptedNames")):
            self._write_status(crd)
        elif is_true(crd, "NamesAccepted") and not is_true(crd, "Established"):
            text = "the initial names have been accepted"
            set_condition(crd, "Established", "True", "InitialNamesAccepted", text)
            self._write_status(crd)

    def _write_status(self, crd: Object) -> None:
        self.update(self.kind("apiextensions.k8s.io", "CustomResourceDefinition"), crd, "status")

    def _clean_up(self, crd: Object) -> None:
        """Delete the objects of a terminating CRD; remove its finalizer once none is left."""
        metadata = crd["metadata"]
        if FINALIZER not in (metadata.get("finalizers") or ()):
            return
        table = self.context.store.table(f"{crd['spec']['group']}/{crd['spec']['names']['plural']}")
        kind = next(iter(self.context.registry.custom(metadata["name"])), None)
        if table.count and kind is not None:
            terminating = condition(crd, "Terminating")
            if terminating is None or terminating.get("reason") != "InstanceDeletionInProgress":
                text = "CustomResource deletion is in progress"
                set_condition(crd, "Terminating", "True", "InstanceDeletionInProgress", text)
                self._write_status(crd)
                return
            for snapshot in table.list():
                if not is_terminating(snapshot):
                    self.delete(kind, snapshot)
        if table.count:
            return
        reason = "InstanceDeletionCompleted" if kind is not None else "NeverEstablished"
        set_condition(crd, "Terminating", "False", reason, "removed all instances")
        metadata["finalizers"] = [name for name in metadata["finalizers"] if name != FINALIZER]
        # Finalizers are metadata, which a write to /status of a built-in kind may change.
        self._write_status(crd)


def _storage_of(crd: Object) -> tuple[Any, Any]:
    """Return the parts of a CRD that its storage is made from."""
    return crd["spec"], (crd.get("status") or {}).get("acceptedNames")
