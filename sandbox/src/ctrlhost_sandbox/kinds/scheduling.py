"""PriorityClasses, and what they give to pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.kinds.cells import created
from ctrlhost_sandbox.kinds.checks import one_of, unchanged
from ctrlhost_sandbox.kinds.node import rejected
from ctrlhost_sandbox.kinds.strategy import BuiltinStrategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.apimachinery.status import Cause
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.operation import Operation

HIGHEST = 1_000_000_000
SYSTEM = {"system-cluster-critical": 2 * HIGHEST, "system-node-critical": 2 * HIGHEST + 1000}
"""The classes that every cluster has, and their values."""
PREEMPTS = "PreemptLowerPriority"
_RESERVED = "priority class names with 'system-' prefix are reserved for system use only. error: "


class _PriorityClasses(BuiltinStrategy):
    """The value of a class is immutable."""

    defaults = (("preemptionPolicy", PREEMPTS),)
    columns = "Value:i Global-Default:b Age PreemptionPolicy"
    checks = (
        one_of("preemptionPolicy", PREEMPTS, "Never"),
        unchanged("preemptionPolicy"),
    )

    def cells(self, obj: Object) -> Sequence[Any]:
        cells = (obj.get("value", 0), obj.get("globalDefault", False))
        return (*cells, created(obj), obj.get("preemptionPolicy", ""))

    def prepare_create(self, context: ServerContext, operation: Operation, obj: Object) -> None:
        """Set the generation, which no update raises."""
        obj["metadata"]["generation"] = 1

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        """Check that only the server's classes have its names and values."""
        name, value = obj["metadata"].get("name", ""), obj.get("value", 0)
        if old is not None:
            if value != old.get("value", 0):
                yield status.forbidden_field("value", "may not be changed in an update.")
        elif name.startswith("system-"):
            if SYSTEM.get(name) != value or obj.get("globalDefault"):
                text = f"value of {name} PriorityClass must be {SYSTEM[name]}" if name in SYSTEM else ""
                text = text or f"{name} is not a known system priority class"
                yield status.forbidden_field("metadata.name", _RESERVED + text)
        elif value > HIGHEST:
            yield status.forbidden_field("value", f"maximum allowed value of a user defined priority is {HIGHEST}")
        yield from super().causes(context, operation, obj, old)


def set_priority(context: ServerContext, operation: Operation, pod: Object) -> None:
    """Set the priority of a new pod from its class, or from the default one; 403 for another value, or no class."""
    spec, table = pod["spec"], context.store.table("scheduling.k8s.io/priorityclasses")
    if name := spec.get("priorityClassName"):
        snapshot = table.get("", name)
        if snapshot is None:
            raise rejected(operation, pod, f"no PriorityClass with name {name} was found")
        chosen = snapshot.decode()
    else:
        every = (entry.decode() for entry in table.list())
        usual = [candidate for candidate in every if candidate.get("globalDefault")]
        chosen = min(usual, key=lambda priority_class: priority_class.get("value", 0), default={})
        if chosen:
            spec["priorityClassName"] = chosen["metadata"]["name"]
    values = (
        ("priority", "the integer value of priority", chosen.get("value", 0)),
        ("preemptionPolicy", "the string value of PreemptionPolicy", chosen.get("preemptionPolicy", PREEMPTS)),
    )
    for field, what, value in values:
        if spec.setdefault(field, value) != value:
            why = f"{what} ({spec[field]}) must not be provided in pod spec; priority admission controller computed "
            raise rejected(operation, pod, f"{why}{value} from the given PriorityClass name")


STRATEGIES = {("scheduling.k8s.io", "PriorityClass"): _PriorityClasses()}
