"""Delete and deletecollection."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.admission import chain
from ctrlhost_sandbox.admission.request import DELETE
from ctrlhost_sandbox.apimachinery import clock, status, times
from ctrlhost_sandbox.apimachinery.status import bad_request
from ctrlhost_sandbox.kinds import strategy_of
from ctrlhost_sandbox.registry import views
from ctrlhost_sandbox.registry.operation import Operation, bad_option, dry_run_cause
from ctrlhost_sandbox.schema import go_text
from ctrlhost_sandbox.verbs import reads
from ctrlhost_sandbox.verbs.writes import WriteResult, check_current, remove, store

if TYPE_CHECKING:
    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.storage.store import Snapshot

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
_ORPHANS = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)
_POLICIES = ("Foreground", "Background", "Orphan")


@dataclass(slots=True)
class DeleteOptions:
    """Options of a deletion."""

    grace: int | None = None
    policy: str = ""
    uid: str = ""
    version: str = ""
    cascades: bool = False
    """The client sent `orphanDependents: false`, so it learns whether the object is gone."""


def read_options(operation: Operation, body: Any) -> DeleteOptions:
    """Read the options from the body, or from the query if there is none."""
    options = DeleteOptions()
    if body is None:
        options.grace = operation.query.number("gracePeriodSeconds")
        options.policy = operation.query.first("propagationPolicy")
        orphan = operation.query.flag("orphanDependents") if "orphanDependents" in operation.query else None
        values: Any = operation.query.get("dryRun", [])
    else:
        if type(body) is not dict or body.get("kind", "DeleteOptions") != "DeleteOptions":
            raise bad_request("the request body must be a DeleteOptions")
        options.grace = body.get("gracePeriodSeconds")
        options.policy = body.get("propagationPolicy") or ""
        orphan = body.get("orphanDependents")
        preconditions = body.get("preconditions") or {}
        values = body.get("dryRun") or []
        if type(preconditions) is not dict or type(values) is not list or type(options.grace) not in (int, type(None)):
            raise bad_request("malformed DeleteOptions")
        options.uid, options.version = preconditions.get("uid") or "", preconditions.get("resourceVersion") or ""
        if type(orphan) not in (bool, type(None)):
            text = f"cannot unmarshal {go_text.json_kind(orphan)} into Go struct field DeleteOptions.orphanDependents"
            raise bad_request(f"json: {text} of type bool")
    causes = []
    if options.policy and orphan is not None:
        text = "orphanDependents and deletionPropagation cannot be both set"
        causes.append(status.invalid_value("propagationPolicy", options.policy, text))
    if options.policy and options.policy not in _POLICIES:
        causes.append(status.not_supported("propagationPolicy", options.policy, (*_POLICIES, "nil")))
    if wrong := dry_run_cause(values):
        causes.append(wrong)
    if causes:
        raise bad_option("DeleteOptions", *causes)
    operation.dry_run = bool(values)
    if orphan is not None:
        options.policy = "Orphan" if orphan else "Background"
        options.cascades = not orphan
    return options


def delete(context: ServerContext, operation: Operation, options: DeleteOptions) -> WriteResult:
    """Delete one object, or begin its deletion: finalizers and a pod's grace period delay it."""
    snapshot = reads.find(context, operation)
    _check(operation, snapshot, options)
    strategy = strategy_of(operation.kind)
    strategy.check_delete(context, operation)
    old = views.load(operation.kind, snapshot)
    if operation.verb == "delete":
        chain.validate(context, operation, DELETE, None, old)
        check_current(context, operation.kind, snapshot)
    if "deletionTimestamp" in old["metadata"]:
        return _delete_again(context, operation, snapshot, old, options)
    obj = views.load(operation.kind, snapshot)
    strategy.prepare_delete(context, operation, obj)
    _apply_policy(obj, _policy(operation, options))
    grace = strategy.grace_period(obj, options.grace)
    finalizers = obj["metadata"].get("finalizers")
    at_once = not finalizers and not grace and not strategy.holds_deletion(context, obj)
    if at_once and not strategy.graceful:
        remove(context, operation, snapshot, old)
        return _gone(operation, obj)
    metadata = obj["metadata"]
    metadata["deletionTimestamp"] = times.seconds(clock.time() + grace)
    metadata["deletionGracePeriodSeconds"] = grace
    if metadata.get("generation"):
        metadata["generation"] += 1
    strategy.begin_deletion(context, obj)
    if not operation.dry_run:
        snapshot = store(context, operation.kind, obj)
        strategy.stored(context, obj, old)
    return _end(context, operation, snapshot, obj) if at_once else _begun(obj, options)


def _end(context: ServerContext, operation: Operation, snapshot: Snapshot, obj: Object) -> WriteResult:
    """Remove an object whose grace period is over: watches have seen that it ends."""
    remove(context, operation, snapshot, obj)
    if not operation.dry_run:
        obj["metadata"]["resourceVersion"] = str(context.store.revision)
    return _gone(operation, obj)


def _check(operation: Operation, snapshot: Snapshot, options: DeleteOptions) -> None:
    kind = operation.kind
    why = ""
    if options.uid and options.uid != snapshot.uid:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({snapshot.uid}). "
            "The object might have been deleted and then recreated"
        )
    elif options.version and options.version != str(snapshot.revision):
        why = (
            f"the ResourceVersion in the precondition ({options.version}) does not match "
            f"the ResourceVersion in record ({snapshot.revision}). The object might have been modified"
        )
    if why:
        raise status.conflict(kind.kind, kind.group, operation.name, why)


def _delete_again(
    context: ServerContext, operation: Operation, snapshot: Snapshot, old: Object, options: DeleteOptions
) -> WriteResult:
    """Delete an object that is already being deleted: only a pod's grace period may shrink."""
    metadata = old["metadata"]
    grace = strategy_of(operation.kind).grace_period(old, options.grace)
    left = metadata.get("deletionGracePeriodSeconds", 0)
    if grace >= left or options.grace is None:
        return _begun(old, options)
    obj = views.load(operation.kind, snapshot)
    obj["metadata"]["deletionGracePeriodSeconds"] = grace
    obj["metadata"]["deletionTimestamp"] = times.seconds(times.epoch(metadata["deletionTimestamp"]) - left + grace)
    if not operation.dry_run:
        snapshot = store(context, operation.kind, obj)
    at_once = grace == 0 and not metadata.get("finalizers")
    return _end(context, operation, snapshot, obj) if at_once else _begun(obj, options)


def _policy(operation: Operation, options: DeleteOptions) -> str:
    """Return the propagation policy, "" for the usual one."""
    if operation.kind.table == "events":
        return ""
    if options.policy or not strategy_of(operation.kind).orphans:
        return options.policy
    if operation.kind.kind == "Job":
        operation.warnings.append(_ORPHANS)
    return "Orphan"


def _apply_policy(obj: Object, policy: str) -> None:
    """Convert the propagation policy into the finalizers of the garbage collector."""
    if not policy:
        return
    metadata = obj["metadata"]
    finalizers = [name for name in metadata.pop("finalizers", None) or () if name not in (FOREGROUND, ORPHAN)]
    finalizers += {"Foreground": [FOREGROUND], "Orphan": [ORPHAN]}.get(policy, [])
    if finalizers:
        metadata["finalizers"] = finalizers


def _begun(obj: Object, options: DeleteOptions) -> WriteResult:
    return WriteResult(202 if options.cascades else 200, obj)


def _gone(operation: Operation, obj: Object) -> WriteResult:
    if operation.kind.returns_object:
        return WriteResult(200, obj)
    kind, metadata = operation.kind, obj["metadata"]
    details = {"name": metadata["name"], "group": kind.group, "kind": kind.plural, "uid": metadata["uid"]}
    if not kind.group:
        del details["group"]
    return WriteResult(
        200, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    )


def delete_collection(
    context: ServerContext, operation: Operation, options: DeleteOptions, received: float
) -> reads.Page:
    """Delete all selected objects; return their last state."""
    page = reads.list_page(context, operation, received)
    for snapshot in page.items:
        deletion = replace(operation, verb="delete", namespace=snapshot.namespace, name=snapshot.name)
        if context.store.table(operation.kind.table).get(snapshot.namespace, snapshot.name) is not None:
            delete(context, deletion, options)
    return page
