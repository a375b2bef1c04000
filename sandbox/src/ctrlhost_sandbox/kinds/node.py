"""RuntimeClasses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.kinds.cells import created
from ctrlhost_sandbox.kinds.checks import named, required, unchanged
from ctrlhost_sandbox.kinds.strategy import BuiltinStrategy
from ctrlhost_sandbox.schema.quantities import parsed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.apimachinery.status import Failure
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.operation import Operation


class _RuntimeClasses(BuiltinStrategy):
    """The handler of a class is immutable."""

    columns = "Handler Age"
    checks = (required("handler"), named("label", "handler"), unchanged("handler"))

    def cells(self, obj: Object) -> Sequence[Any]:
        return (obj.get("handler", ""), created(obj))


def apply_class(context: ServerContext, operation: Operation, pod: Object) -> None:
    """Set overhead and placement of a new pod from its runtime class; 403 if they do not fit, or it is missing."""
    spec = pod["spec"]
    name = spec.get("runtimeClassName")
    snapshot = context.store.table("node.k8s.io/runtimeclasses").get("", name) if name else None
    if name and snapshot is None:
        raise rejected(operation, pod, f'pod rejected: RuntimeClass "{name}" not found')
    runtime_class = {} if snapshot is None else snapshot.decode()
    overhead = (runtime_class.get("overhead") or {}).get("podFixed")
    if spec.get("overhead") and overhead is None:
        why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        raise rejected(operation, pod, why)
    amounts = [
        {key: item.amount for key, item in parsed(quantities).items()}
        for quantities in (spec.get("overhead"), overhead)
    ]
    if spec.get("overhead") and amounts[0] != amounts[1]:
        why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
        raise rejected(operation, pod, why)
    if overhead is not None:
        spec["overhead"] = overhead
    scheduling = runtime_class.get("scheduling") or {}
    for key, value in (scheduling.get("nodeSelector") or {}).items():
        selected = spec.setdefault("nodeSelector", {}).setdefault(key, value)
        if selected != value:
            field = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {selected}"
            raise rejected(operation, pod, f"conflict: {field}")
    more = [
        toleration
        for toleration in scheduling.get("tolerations") or ()
        if toleration not in (spec.get("tolerations") or ())
    ]
    if more:
        spec["tolerations"] = [*(spec.get("tolerations") or ()), *more]


def rejected(operation: Operation, pod: Object, why: str) -> Failure:
    """Return a 403 for a pod that admission refuses."""
    metadata = pod["metadata"]
    name = metadata.get("name") or metadata.get("generateName") or ""
    return status.forbidden(operation.kind.plural, operation.kind.group, name, why)


STRATEGIES = {("node.k8s.io", "RuntimeClass"): _RuntimeClasses()}
