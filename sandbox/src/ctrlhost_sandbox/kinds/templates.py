"""PodTemplates and ReplicationControllers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.apimachinery.names import template_causes
from ctrlhost_sandbox.apimachinery.objects import at
from ctrlhost_sandbox.kinds.cells import WORKLOAD, created, images, labels
from ctrlhost_sandbox.kinds.fields import not_negative
from ctrlhost_sandbox.kinds.pod import spec as pod_spec
from ctrlhost_sandbox.kinds.pod import warnings as pod_warnings
from ctrlhost_sandbox.kinds.strategy import BuiltinStrategy, below

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.apimachinery.status import Cause
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.operation import Operation


class _PodTemplates(BuiltinStrategy):
    """A template of pods that no controller uses."""

    defaults = below("template.spec", pod_spec.DEFAULTS)
    columns = "Containers Images Pod_Labels"

    def cells(self, obj: Object) -> Sequence[Any]:
        template = obj.get("template") or {}
        return (*images({"spec": {"template": template}}), labels((template.get("metadata") or {}).get("labels")))

    def default(self, obj: Object) -> None:
        pod_spec.default(obj["template"].get("spec") or {})

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        path = ("template", "spec")
        pod_warnings.warn(
            at(obj, path) or {}, None if old is None else at(old, path), ".".join(path), operation.warnings
        )
        template = obj["template"]
        yield from template_causes(template, "template")
        restarts = ("Always", "OnFailure", "Never")
        yield from pod_spec.causes(template.get("spec") or {}, "template.spec", templated=True, restarts=restarts)


class _ReplicationControllers(BuiltinStrategy):
    """Selector and labels are those of the template unless they are set."""

    kept_metadata = ("labels",)
    orphans = True
    defaults = (("spec.replicas", 1), *below("spec.template.spec", pod_spec.DEFAULTS))
    columns = f"Desired:i Current:i Ready:i Age {WORKLOAD} Selector:w"

    def cells(self, obj: Object) -> Sequence[Any]:
        spec, state = obj.get("spec") or {}, obj.get("status") or {}
        numbers = (spec.get("replicas", 0), state.get("replicas", 0), state.get("readyReplicas", 0))
        return (*numbers, created(obj), *images(obj), labels(spec.get("selector")))

    def default(self, obj: Object) -> None:
        template = obj["spec"].get("template") or {}
        if template_labels := (template.get("metadata") or {}).get("labels"):
            if not obj["spec"].get("selector"):
                obj["spec"]["selector"] = dict(template_labels)
            if not obj["metadata"].get("labels"):
                obj["metadata"]["labels"] = dict(template_labels)
        pod_spec.default(template.get("spec") or {})

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        if operation.subresource == "status":
            counts = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration")
            state = obj.get("status") or {}
            yield from not_negative(state, *counts, path="status")
            for name in ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"):
                if state.get(name, 0) > state.get("replicas", 0):
                    text = "cannot be greater than status.replicas"
                    yield status.invalid_value(f"status.{name}", state.get(name, 0), text)
            if state.get("availableReplicas", 0) > state.get("readyReplicas", 0):
                text = "cannot be greater than readyReplicas"
                yield status.invalid_value("status.availableReplicas", state["availableReplicas"], text)
            return
        path = ("spec", "template", "spec")
        pod_warnings.warn(
            at(obj, path) or {}, None if old is None else at(old, path), ".".join(path), operation.warnings
        )
        spec = obj["spec"]
        selector, template = spec.get("selector") or {}, spec.get("template")
        yield from not_negative(spec, "minReadySeconds")
        if not selector:
            yield status.required("spec.selector")
        yield from not_negative(spec, "replicas")
        if template is None:
            yield status.required("spec.template")
            return
        template_labels = (template.get("metadata") or {}).get("labels") or {}
        if selector and any(template_labels.get(key) != value for key, value in selector.items()):
            text = "`selector` does not match template `labels`"
            yield status.invalid_value("spec.template.metadata.labels", template_labels or None, text)
        yield from template_causes(template, "spec.template")
        yield from pod_spec.causes(template.get("spec") or {}, "spec.template.spec", templated=True)


STRATEGIES = {("", "PodTemplate"): _PodTemplates(), ("", "ReplicationController"): _ReplicationControllers()}
