"""What makes a CRD served: its names are judged, it is established, and its objects go before it does."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ctrlhost.sandbox import crd_names, times, views
from ctrlhost.sandbox.call import Call, Object
from ctrlhost.sandbox.custom import condition, is_true, kinds_of
from ctrlhost.sandbox.messages import Query
from ctrlhost.sandbox.status import Failure

if TYPE_CHECKING:
    from ctrlhost.sandbox.engine import Engine
    from ctrlhost.sandbox.kinds import Kind

TABLE = "apiextensions.k8s.io/customresourcedefinitions"
FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
_MANAGER = "sandbox-crd"
_log = logging.getLogger(__name__)


def is_established(crd: Object) -> bool:
    """Tell whether the CRD has been established."""
    return is_true(crd, "Established")


def set_condition(crd: Object, name: str, value: str, reason: str, message: str) -> None:
    """Set a status condition; the time moves only when the value does."""
    status = crd.setdefault("status", {})
    conditions = [dict(item) for item in status.get("conditions") or ()]
    entry = {
        "type": name,
        "status": value,
        "lastTransitionTime": times.now(),
        "reason": reason,
        "message": message,
    }
    for index, found in enumerate(conditions):
        if found.get("type") == name:
            if found.get("status") == value:
                entry["lastTransitionTime"] = found.get("lastTransitionTime", entry["lastTransitionTime"])
            conditions[index] = entry
            break
    else:
        conditions.append(entry)
    status["conditions"] = conditions


def begin_deletion(crd: Object) -> None:
    """Mark a CRD whose deletion begins."""
    finalizers = crd["metadata"].setdefault("finalizers", [])
    if FINALIZER not in finalizers:
        finalizers.append(FINALIZER)
    text = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    set_condition(crd, "Terminating", "True", "InstanceDeletionPending", text)


def changed(engine: Engine) -> None:
    """Serve what the stored CRDs say, now, and go on with their life in a moment."""
    serve(engine)
    engine.soon(lambda: advance(engine))


def stored(engine: Engine) -> list[Object]:
    """Give all CRDs."""
    return [snapshot.decode() for snapshot in engine.store.table(TABLE).list()]


def serve(engine: Engine) -> None:
    """Bring the registry in line with the CRDs, and end the watches of what is no longer served alike."""
    before = {(kind.table, kind.version): kind for kind in engine.registry if kind.custom is not None}
    engine.registry.replace_custom(pair for crd in stored(engine) for pair in kinds_of(crd))
    after = {(kind.table, kind.version): kind for kind in engine.registry if kind.custom is not None}
    for watch in list(engine.watches):
        kind = watch.kind
        if kind.custom is None:
            continue
        now = after.get((kind.table, kind.version))
        if now is None or now.custom is None or now.custom.marker != kind.custom.marker:
            watch.end()
    served = {table for table, _ in after}
    for table, _ in before:
        if table not in served and not engine.store.table(table).count:
            engine.store.forget_table(table)


def advance(engine: Engine) -> None:
    """Take every CRD one step on; a step is a write, and a write calls this again."""
    crds = stored(engine)
    for crd in crds:
        try:
            _step(engine, crd, crds)
        except Failure as failure:
            # One CRD that can not be written must not hold up the others.
            _log.warning("the sandbox could not go on with CRD %s: %s", crd["metadata"]["name"], failure.message)


def _step(engine: Engine, crd: Object, crds: list[Object]) -> None:
    if "deletionTimestamp" in crd["metadata"]:
        _clean_up(engine, crd)
        return
    before = (crd.get("status") or {}).get("conditions"), (crd.get("status") or {}).get("acceptedNames")
    if engine.options.crd_conditions == "builtin" and (judgement := crd_names.judged(crd, crds)):
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
    from ctrlhost.sandbox import writes

    writes.update(engine, _call(engine, crd, "status"), crd)


def _call(engine: Engine, crd: Object, subresource: str = "") -> Call:
    kind = engine.registry.find_kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
    assert kind is not None
    return Call("update", kind, "", crd["metadata"]["name"], subresource, Query(), _MANAGER)


def _clean_up(engine: Engine, crd: Object) -> None:
    """Delete the objects of a CRD that is going; let it go once none is left."""
    from ctrlhost.sandbox import deletes, writes

    metadata = crd["metadata"]
    if FINALIZER not in (metadata.get("finalizers") or ()):
        return
    table = engine.store.table(f"{crd['spec']['group']}/{crd['spec']['names']['plural']}")
    kind = next((kind for kind in engine.registry if kind.table == table.name), None)
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


def watch_objects(engine: Engine) -> None:
    """Go on with the deletion of CRDs whenever a custom object goes."""

    def told(table: Any, event: Any) -> None:
        if event.new is None and "." in table.name.partition("/")[0]:
            engine.soon(lambda: advance(engine))

    engine.store.listeners.append(told)


def terminating_kind(kind: Kind) -> bool:
    """Tell whether the kind's CRD is being deleted."""
    return kind.custom is not None and kind.custom.terminating
