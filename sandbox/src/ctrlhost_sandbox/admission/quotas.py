"""Resource quotas: a write that would exceed one is refused, any other one is charged at once."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ctrlhost_sandbox.admission import pod_resources, usage
from ctrlhost_sandbox.admission.request import CREATE, UPDATE
from ctrlhost_sandbox.patch import managed
from ctrlhost_sandbox.registry.operation import Operation
from ctrlhost_sandbox.schema.quantities import Amounts, Quantity, add, parsed, texts_of

if TYPE_CHECKING:
    from ctrlhost_sandbox.admission.request import Request
    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.registry import Kind

TABLE = "resourcequotas"
_REQUIRED = frozenset(
    {"cpu", "memory", *(f"{part}.{name}" for part in ("requests", "limits") for name in ("cpu", "memory"))}
)
"""Resources that each container must state if a quota limits them."""


@dataclass(frozen=True, slots=True)
class Charge:
    """The new use of a quota, once the write has happened."""

    quota: Object
    used: Amounts


def check(context: ServerContext, request: Request) -> list[Charge]:
    """Return what the write costs; raise 403 if a quota does not allow it."""
    kind = request.operation.kind
    if kind.table in ("namespaces", *usage.IGNORED) or request.obj is None or not _is_charged(request):
        return []
    spent = usage.usage(kind, request.obj)
    before = {} if request.old is None else usage.usage(kind, request.old)
    charges = []
    for snapshot in context.store.table(TABLE).list(request.namespace):
        quota = snapshot.decode()
        status = quota.get("status") or {}
        hard, used = parsed(status.get("hard")), parsed(status.get("used"))
        limited = usage.counts(kind, hard)
        if not limited or not usage.in_scope(quota, kind, request.obj):
            continue
        _check_stated(request, quota, limited)
        if unknown := sorted(name for name in limited if name not in used):
            text = f"status unknown for quota: {quota['metadata']['name']}, resources: {','.join(unknown)}"
            raise request.forbidden(text)
        counted = before if request.old is not None and usage.in_scope(quota, kind, request.old) else {}
        delta = {name: spent[name] - counted.get(name, Quantity()) for name in limited if name in spent}
        delta = {name: more for name, more in delta.items() if more.amount > 0}
        if not delta:
            continue
        total = add(used, delta)
        if exceeded := sorted(name for name in delta if total[name].amount > hard[name].amount):
            parts = (("requested", delta), ("used", used), ("limited", hard))
            listed = (f"{word}: {','.join(f'{name}={of[name]}' for name in exceeded)}" for word, of in parts)
            raise request.forbidden(f"exceeded quota: {quota['metadata']['name']}, {', '.join(listed)}")
        charges.append(Charge(quota, total))
    return charges


def _is_charged(request: Request) -> bool:
    """Return whether a write of this kind can change what is used."""
    if request.subresource or request.obj is None:
        return False
    if request.action == CREATE:
        return True
    table = request.operation.kind.table
    if request.action != UPDATE or request.old is None:
        return False
    if table == "pods":
        return usage.is_terminating(request.obj) != usage.is_terminating(request.old)
    return table in ("services", "persistentvolumeclaims")


def _check_stated(request: Request, quota: Object, limited: list[str]) -> None:
    """Raise 403 unless each container of a pod states the limited resources."""
    if request.operation.kind.table != "pods" or request.obj is None:
        return
    spec, required = request.obj["spec"], _REQUIRED.intersection(limited)
    if not required or pod_resources.has_own(spec):
        return
    missing: dict[str, set[str]] = {}
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        parts = (pod_resources.of_container(container, part) for part in ("requests", "limits"))
        for name in required.difference(usage.of_resources(*parts)):
            missing.setdefault(name, set()).add(container.get("name", ""))
    if missing:
        listed = "; ".join(f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing))
        raise request.forbidden(f"failed quota: {quota['metadata']['name']}: must specify {listed}")


def charge(context: ServerContext, charges: list[Charge]) -> None:
    """Record what a write used, in the status of the quotas."""
    for one_charge in charges:
        write_status(
            context,
            one_charge.quota,
            {**one_charge.quota["status"], "used": texts_of(one_charge.used)},
            "kube-apiserver",
        )


def write_status(context: ServerContext, quota: Object, status: Object, manager: str) -> None:
    """Store the status of a quota, which must be the newest one."""
    kind: Kind = context.registry.builtin("", "ResourceQuota")
    new = copy.deepcopy(quota)
    new["status"] = status
    metadata = quota["metadata"]
    operation = Operation("update", kind, metadata["namespace"], metadata["name"], "status", manager=manager)
    managed.track_update(operation, new, quota, None)
    context.store.write(context.store.table(TABLE), new)


def recount(context: ServerContext, quota: Object) -> Object:
    """Return the status of a quota by the objects that there are."""
    hard = quota["spec"].get("hard") or {}
    used: Amounts = dict.fromkeys(hard, Quantity())
    namespace = quota["metadata"]["namespace"]
    for kind in context.registry.tables().values():
        if not kind.namespaced or kind.table in usage.IGNORED or not (names := usage.counts(kind, hard)):
            continue
        for snapshot in context.store.table(kind.table).list(namespace):
            obj = snapshot.decode()
            if usage.in_scope(quota, kind, obj):
                spent = usage.usage(kind, obj)
                used = add(used, {name: spent[name] for name in names if name in spent})
    return {"hard": dict(hard), "used": texts_of(used)} if hard else {}
