"""The life cycle of CRDs: accept names, establish, and delete the objects before the CRD."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ctrlhost.sandbox.apimachinery.objects import condition, is_true
from ctrlhost.sandbox.apimachinery.status import Failure
from ctrlhost.sandbox.crds import names
from ctrlhost.sandbox.crds.conditions import FINALIZER, set_condition
from ctrlhost.sandbox.registry import views
from ctrlhost.sandbox.registry.custom import kinds_of
from ctrlhost.sandbox.registry.operation import Operation
from ctrlhost.sandbox.verbs import deletes, writes

if TYPE_CHECKING:
    from ctrlhost.sandbox.apimachinery.objects import Object
    from ctrlhost.sandbox.context import ServerContext
    from ctrlhost.sandbox.storage.store import Event, Table

TABLE = "apiextensions.k8s.io/customresourcedefinitions"
_MANAGER = "sandbox-crd"
_log = logging.getLogger("ctrlhost.sandbox.crd_lifecycle")


def changed(context: ServerContext, name: str) -> None:
    """Update the served kinds of a CRD now, and enqueue it and the CRDs that wait for its names."""
    snapshot = context.store.table(TABLE).get("", name)
    crd = None if snapshot is None else snapshot.decode()
    _serve(context, name, crd)
    for other in (name, *context.crds.note(name, crd)):
        _enqueue(context, other)


def start(context: ServerContext) -> None:
    """Serve all stored CRDs, and reconcile CRDs from now on."""
    context.crd_changed = lambda name: changed(context, name)
    for snapshot in context.store.table(TABLE).list():
        changed(context, snapshot.name)
    context.store.listeners.append(lambda table, event: _object_gone(context, table, event))


def _object_gone(context: ServerContext, table: Table, event: Event) -> None:
    """Enqueue a CRD when one of its objects is deleted."""
    group, _, plural = table.name.partition("/")
    if event.new is None and "." in group:
        _enqueue(context, f"{plural}.{group}")


def _enqueue(context: ServerContext, name: str) -> None:
    pending = context.crds.pending
    if not pending:
        context.soon(lambda: _process_pending(context))
    pending[name] = None


def _serve(context: ServerContext, name: str, crd: Object | None) -> None:
    """Update the registry for a CRD, and end the watches of changed versions."""
    before = context.registry.custom(name)
    shapes = {kind.custom.marker: kind.custom.shape for kind in before if kind.custom is not None}
    kinds = [] if crd is None else kinds_of(crd, shapes)
    context.registry.serve_custom(name, kinds)
    markers = {kind.custom.marker for kind, _ in kinds if kind.custom is not None}
    ended = {kind.custom.marker for kind in before if kind.custom is not None} - markers
    if ended:
        for watch in list(context.watches):
            custom = watch.kind.custom
            if custom is not None and custom.crd == name and custom.marker in ended:
                watch.end()
    for kind in before:
        if not kinds and not context.store.table(kind.table).count:
            context.store.drop_table(kind.table)


def _process_pending(context: ServerContext) -> None:
    """Reconcile the pending CRDs by one write each; a write enqueues its CRD again."""
    pending = list(context.crds.pending)
    context.crds.pending.clear()
    for name in pending:
        snapshot = context.store.table(TABLE).get("", name)
        if snapshot is None:
            continue
        try:
            _reconcile(context, snapshot.decode())
        except Failure as failure:
            # A CRD that cannot be written must not block the others.
            _log.warning("sandbox: reconciling CRD %s failed: %s", name, failure.message)


def _reconcile(context: ServerContext, crd: Object) -> None:
    if "deletionTimestamp" in crd["metadata"]:
        _clean_up(context, crd)
        return
    before = (crd.get("status") or {}).get("conditions"), (crd.get("status") or {}).get("acceptedNames")
    used = context.crds.used(crd["spec"]["group"])
    if context.options.crd_conditions == "builtin" and (judgement := names.resolve(crd, used)):
        crd["status"]["acceptedNames"], conditions = judgement
        for one in conditions:
            set_condition(crd, *one)
    status = crd.get("status") or {}
    if before != (status.get("conditions"), status.get("acceptedNames")):
        _write_status(context, crd)
    elif is_true(crd, "NamesAccepted") and not is_true(crd, "Established"):
        text = "the initial names have been accepted"
        set_condition(crd, "Established", "True", "InitialNamesAccepted", text)
        _write_status(context, crd)


def _write_status(context: ServerContext, crd: Object) -> None:
    kind = context.registry.builtin("apiextensions.k8s.io", "CustomResourceDefinition")
    operation = Operation("update", kind, "", crd["metadata"]["name"], "status", manager=_MANAGER)
    writes.update(context, operation, crd)


def _clean_up(context: ServerContext, crd: Object) -> None:
    """Delete the objects of a terminating CRD; remove its finalizer once none is left."""
    metadata = crd["metadata"]
    if FINALIZER not in (metadata.get("finalizers") or ()):
        return
    table = context.store.table(f"{crd['spec']['group']}/{crd['spec']['names']['plural']}")
    kind = next(iter(context.registry.custom(metadata["name"])), None)
    if table.count and kind is not None:
        found = condition(crd, "Terminating")
        if found is None or found.get("reason") != "InstanceDeletionInProgress":
            text = "CustomResource deletion is in progress"
            set_condition(crd, "Terminating", "True", "InstanceDeletionInProgress", text)
            _write_status(context, crd)
            return
        for snapshot in table.list():
            if "deletionTimestamp" not in views.load(kind, snapshot)["metadata"]:
                operation = Operation("delete", kind, snapshot.namespace, snapshot.name, manager=_MANAGER)
                deletes.delete(context, operation, deletes.DeleteOptions())
    if table.count:
        return
    reason = "InstanceDeletionCompleted" if kind is not None else "NeverEstablished"
    set_condition(crd, "Terminating", "False", reason, "removed all instances")
    metadata["finalizers"] = [name for name in metadata["finalizers"] if name != FINALIZER]
    # Finalizers are metadata, which a write to /status of a built-in kind may change.
    _write_status(context, crd)
