"""What makes a CRD served: its names are judged, it is established, and its objects go before it does."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ctrlhost.sandbox.apimachinery.status import Failure
from ctrlhost.sandbox.crds import names
from ctrlhost.sandbox.crds.conditions import FINALIZER, is_established, set_condition
from ctrlhost.sandbox.http.messages import Query
from ctrlhost.sandbox.registry import views
from ctrlhost.sandbox.registry.custom import condition, is_true, kinds_of
from ctrlhost.sandbox.registry.operation import Call
from ctrlhost.sandbox.verbs import deletes, writes

if TYPE_CHECKING:
    from ctrlhost.sandbox.apimachinery.objects import Object
    from ctrlhost.sandbox.context import Engine
    from ctrlhost.sandbox.storage.store import Event, Table

TABLE = "apiextensions.k8s.io/customresourcedefinitions"
_MANAGER = "sandbox-crd"
_log = logging.getLogger("ctrlhost.sandbox.crd_lifecycle")


def changed(engine: Engine, name: str) -> None:
    """Serve what a stored CRD says, now, and go on with its life, and that of others that it holds up, in a moment."""
    snapshot = engine.store.table(TABLE).get("", name)
    crd = None if snapshot is None else snapshot.decode()
    _serve(engine, name, crd)
    for other in (name, *engine.crds.note(name, crd)):
        _go_on(engine, other)


def begin(engine: Engine) -> None:
    """Serve all stored CRDs, and continue their lives from now on."""
    engine.crd_changed = lambda name: changed(engine, name)
    for snapshot in engine.store.table(TABLE).list():
        changed(engine, snapshot.name)
    engine.store.listeners.append(lambda table, event: _object_gone(engine, table, event))


def _object_gone(engine: Engine, table: Table, event: Event) -> None:
    """Go on with the deletion of a CRD whenever one of its objects goes."""
    group, _, plural = table.name.partition("/")
    if event.new is None and "." in group:
        _go_on(engine, f"{plural}.{group}")


def _go_on(engine: Engine, name: str) -> None:
    pending = engine.crds.pending
    if not pending:
        engine.soon(lambda: _advance(engine))
    pending[name] = None


def _serve(engine: Engine, name: str, crd: Object | None) -> None:
    """Bring the registry in line with a CRD, and end the watches of what is no longer served alike."""
    before = engine.registry.custom(name)
    shapes = {kind.custom.marker: kind.custom.shape for kind in before if kind.custom is not None}
    kinds = [] if crd is None else kinds_of(crd, shapes)
    engine.registry.serve_custom(name, kinds)
    markers = {kind.custom.marker for kind, _ in kinds if kind.custom is not None}
    ended = {kind.custom.marker for kind in before if kind.custom is not None} - markers
    if ended:
        for watch in list(engine.watches):
            custom = watch.kind.custom
            if custom is not None and custom.crd == name and custom.marker in ended:
                watch.end()
    for kind in before:
        if not kinds and not engine.store.table(kind.table).count:
            engine.store.forget_table(kind.table)


def _advance(engine: Engine) -> None:
    """Take the CRDs that are due one step on; a step is a write, and a write makes its CRD due again."""
    pending = list(engine.crds.pending)
    engine.crds.pending.clear()
    for name in pending:
        snapshot = engine.store.table(TABLE).get("", name)
        if snapshot is None:
            continue
        try:
            _step(engine, snapshot.decode())
        except Failure as failure:
            # One CRD that can not be written must not hold up the others.
            _log.warning("the sandbox could not go on with CRD %s: %s", name, failure.message)


def _step(engine: Engine, crd: Object) -> None:
    if "deletionTimestamp" in crd["metadata"]:
        _clean_up(engine, crd)
        return
    before = (crd.get("status") or {}).get("conditions"), (crd.get("status") or {}).get("acceptedNames")
    used = engine.crds.used(crd["spec"]["group"])
    if engine.options.crd_conditions == "builtin" and (judgement := names.judged(crd, used)):
        crd["status"]["acceptedNames"], conditions = judgement
        for one in conditions:
            set_condition(crd, *one)
    status = crd.get("status") or {}
    if before != (status.get("conditions"), status.get("acceptedNames")):
        _write_status(engine, crd)
    elif is_true(crd, "NamesAccepted") and not is_established(crd):
        text = "the initial names have been accepted"
        set_condition(crd, "Established", "True", "InitialNamesAccepted", text)
        _write_status(engine, crd)


def _write_status(engine: Engine, crd: Object) -> None:
    writes.update(engine, _call(engine, crd, "status"), crd)


def _call(engine: Engine, crd: Object, subresource: str = "") -> Call:
    kind = engine.registry.find_kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
    assert kind is not None
    return Call("update", kind, "", crd["metadata"]["name"], subresource, Query(), _MANAGER)


def _clean_up(engine: Engine, crd: Object) -> None:
    """Delete the objects of a CRD that is going; let it go once none is left."""
    metadata = crd["metadata"]
    if FINALIZER not in (metadata.get("finalizers") or ()):
        return
    table = engine.store.table(f"{crd['spec']['group']}/{crd['spec']['names']['plural']}")
    kind = next(iter(engine.registry.custom(metadata["name"])), None)
    if table.count and kind is not None:
        found = condition(crd, "Terminating")
        if found is None or found.get("reason") != "InstanceDeletionInProgress":
            text = "CustomResource deletion is in progress"
            set_condition(crd, "Terminating", "True", "InstanceDeletionInProgress", text)
            _write_status(engine, crd)
            return
        for snapshot in table.list():
            if "deletionTimestamp" not in views.load(kind, snapshot)["metadata"]:
                call = Call("delete", kind, snapshot.namespace, snapshot.name, manager=_MANAGER)
                deletes.delete(engine, call, deletes.DeleteOptions())
    if table.count:
        return
    reason = "InstanceDeletionCompleted" if kind is not None else "NeverEstablished"
    set_condition(crd, "Terminating", "False", reason, "removed all instances")
    metadata["finalizers"] = [name for name in metadata["finalizers"] if name != FINALIZER]
    # Finalizers are metadata, which a write to /status of a built-in kind may change.
    writes.update(engine, _call(engine, crd, "status"), crd)
