"""The kinds of the apps group, and the Scale that shows their size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.apimachinery.names import name_problems, template_causes
from ctrlhost_sandbox.apimachinery.objects import at
from ctrlhost_sandbox.apimachinery.selectors import match_selector, selector_text
from ctrlhost_sandbox.kinds.cells import WORKLOAD, created, images, labels
from ctrlhost_sandbox.kinds.fields import immutable, not_negative, selector_causes, share, share_causes
from ctrlhost_sandbox.kinds.persistent_volumes import claim_causes
from ctrlhost_sandbox.kinds.pod import spec as pod_spec
from ctrlhost_sandbox.kinds.pod import warnings as pod_warnings
from ctrlhost_sandbox.kinds.strategy import BuiltinStrategy, below

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.apimachinery.status import Cause
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.operation import Operation

_TEMPLATE = below("spec.template.spec", pod_spec.DEFAULTS)
_HISTORY = ("spec.revisionHistoryLimit", 10)
_UPDATES = ("RollingUpdate", "OnDelete")
_STATEFUL_MUTABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


class _ControllerRevisions(BuiltinStrategy):
    """The history of a template."""

    kept_metadata = ("labels",)
    columns = "Revision:i Age"

    def cells(self, obj: Object) -> Sequence[Any]:
        return (obj.get("revision", 0), created(obj))

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        if obj.get("data") is None:
            yield status.required("data", "data is mandatory")
        elif type(obj["data"]) is not dict:
            yield status.required("data", "data must be a valid JSON object")
        yield from not_negative(obj, "revision", path="")
        yield from immutable(obj, old, "data")


class _Workload(BuiltinStrategy):
    """A workload's selector is immutable and matches its template."""

    kept_metadata = ("labels",)
    strategy = "updateStrategy"
    rolling: Sequence[tuple[str, Any]] = ()
    """The defaults of a rolling update."""
    counts: Sequence[str] = ("replicas", "minReadySeconds", "revisionHistoryLimit")
    """The numbers that must not be negative."""
    requires_selector = True
    """Whether a missing selector has a cause of its own, and an invalid one hides those of the template."""

    def default(self, obj: Object) -> None:
        template, strategy = obj["spec"].get("template"), obj["spec"].get(self.strategy) or {}
        if template:
            pod_spec.default(template.get("spec") or {})
        if strategy.get("type") == "RollingUpdate":
            for name, value in self.rolling:
                strategy.setdefault("rollingUpdate", {}).setdefault(name, value)

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        self._warn(obj, old, operation)
        yield from self._spec_causes(obj)
        if not operation.subresource:
            yield from immutable(obj, old, "spec", "selector")

    def _warn(self, obj: Object, old: Object | None, operation: Operation) -> None:
        path = ("spec", "template", "spec")
        before = None if old is None else at(old, path)
        pod_warnings.warn(at(obj, path) or {}, before, ".".join(path), operation.warnings)

    def _spec_causes(self, obj: Object) -> Iterator[Cause]:
        spec = obj["spec"]
        yield from not_negative(spec, *self.counts)
        selector, template = spec.get("selector"), spec.get("template") or {}
        labels = (template.get("metadata") or {}).get("labels") or {}
        problems = list(selector_causes(selector or {}, "spec.selector"))
        yield from problems
        if selector is None and self.requires_selector:
            yield status.required("spec.selector")
        elif selector == {}:
            yield status.invalid_value("spec.selector", {}, "empty selector is invalid for this kind")
        if problems:
            if self.requires_selector:
                yield status.invalid_value("spec.selector", selector, "invalid label selector")
                return
        elif selector != {} and not match_selector(selector, labels):
            text = "`selector` does not match template `labels`"
            yield status.invalid_value("spec.template.metadata.labels", labels or None, text)
        yield from template_causes(template, "spec.template")
        yield from pod_spec.causes(self.checked_spec(spec), "spec.template.spec", templated=True)

    def checked_spec(self, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the spec of the pods."""
        pod_spec: Mapping[str, Any] = (spec.get("template") or {}).get("spec") or {}
        return pod_spec


class _Deployments(_Workload):
    """Annotations control rollouts too, so they raise the generation."""

    defaults = (
        ("spec.replicas", 1),
        ("spec.strategy.type", "RollingUpdate"),
        _HISTORY,
        ("spec.progressDeadlineSeconds", 600),
        *_TEMPLATE,
    )
    strategy, rolling = "strategy", (("maxUnavailable", "25%"), ("maxSurge", "25%"))
    columns = f"Ready Up-to-date:i Available:i Age {WORKLOAD} Selector:w"

    def cells(self, obj: Object) -> Sequence[Any]:
        spec, state = obj["spec"], obj.get("status") or {}
        ready = f"{state.get('readyReplicas', 0)}/{spec.get('replicas', 0)}"
        numbers = (state.get("updatedReplicas", 0), state.get("availableReplicas", 0))
        return (ready, *numbers, created(obj), *images(obj), selector_text(spec.get("selector")))

    def _spec_causes(self, obj: Object) -> Iterator[Cause]:
        yield from super()._spec_causes(obj)
        strategy = obj["spec"].get("strategy") or {}
        kind = strategy.get("type")
        if kind not in ("Recreate", "RollingUpdate"):
            yield status.not_supported("spec.strategy", _as_go(strategy), ("Recreate", "RollingUpdate"))
        elif kind == "Recreate" and strategy.get("rollingUpdate") is not None:
            text = "may not be specified when strategy `type` is 'Recreate'"
            yield status.forbidden_field("spec.strategy.rollingUpdate", text)
        elif kind == "RollingUpdate":
            yield from _rolling_causes(strategy.get("rollingUpdate") or {})
        deadline = obj["spec"].get("progressDeadlineSeconds")
        if type(deadline) is int and deadline <= obj["spec"].get("minReadySeconds", 0):
            text = "must be greater than minReadySeconds"
            yield status.invalid_value("spec.progressDeadlineSeconds", deadline, text)

    def metadata_counts(self, obj: Object, old: Object) -> bool:
        return bool(obj["metadata"].get("annotations") != old["metadata"].get("annotations"))


class _ReplicaSets(_Workload):
    """A number of pods."""

    defaults = (("spec.replicas", 1), *_TEMPLATE)
    columns = f"Desired:i Current:i Ready:i Age {WORKLOAD} Selector:w"

    def cells(self, obj: Object) -> Sequence[Any]:
        spec, state = obj["spec"], obj.get("status") or {}
        numbers = (spec.get("replicas", 0), state.get("replicas", 0), state.get("readyReplicas", 0))
        return (*numbers, created(obj), *images(obj), selector_text(spec.get("selector")))


class _StatefulSets(_Workload):
    """Most of a StatefulSet's spec is immutable."""

    defaults = (
        ("spec.replicas", 1),
        ("spec.podManagementPolicy", "OrderedReady"),
        ("spec.updateStrategy.type", "RollingUpdate"),
        _HISTORY,
        ("spec.persistentVolumeClaimRetentionPolicy", {"whenDeleted": "Retain", "whenScaled": "Retain"}),
        ("spec.volumeClaimTemplates[*].apiVersion", "v1"),
        ("spec.volumeClaimTemplates[*].kind", "PersistentVolumeClaim"),
        ("spec.volumeClaimTemplates[*].spec.volumeMode", "Filesystem"),
        ("spec.volumeClaimTemplates[*].status.phase", "Pending"),
        *_TEMPLATE,
    )
    rolling = (("partition", 0),)
    counts = ("replicas", "minReadySeconds")
    columns = f"Ready Age {WORKLOAD}"

    def cells(self, obj: Object) -> Sequence[Any]:
        ready = f"{(obj.get('status') or {}).get('readyReplicas', 0)}/{obj['spec'].get('replicas', 0)}"
        return (ready, created(obj), *images(obj))

    def prepare_create(self, context: ServerContext, operation: Operation, obj: Object) -> None:
        """Drop a field that is off in a real server unless it is asked for."""
        rolling = (obj["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
        rolling.pop("maxUnavailable", None)

    def prepare_update(self, context: ServerContext, operation: Operation, obj: Object, old: Object) -> None:
        self.prepare_create(context, operation, obj)

    def checked_spec(self, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        """Add the volumes of the claims; the controller sets host name and subdomain."""
        pods = {key: value for key, value in super().checked_spec(spec).items() if key not in ("hostname", "subdomain")}
        claims = [
            (template.get("metadata") or {}).get("name", "") for template in spec.get("volumeClaimTemplates") or ()
        ]
        if claims:
            own = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in dict.fromkeys(claims)]
            pods["volumes"] = own + [
                volume for volume in pods.get("volumes") or () if volume.get("name", "") not in claims
            ]
        return pods

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        self._warn(obj, old, operation)
        yield from self._spec_causes(obj)
        for index, claim in enumerate(obj["spec"].get("volumeClaimTemplates") or () if old is None else ()):
            yield from claim_causes({"spec": claim.get("spec")}, f"spec.volumeClaimTemplates[{index}]")
        name = obj["spec"].get("serviceName")
        if old is None and name and (problems := name_problems("label", name)):
            yield from status.invalid_values("spec.serviceName", name, problems)
        if old is None or operation.subresource:
            return
        spec, before = (_untyped(state["spec"]) for state in (obj, old))
        if any(spec.get(key) != before.get(key) for key in (spec | before).keys() - set(_STATEFUL_MUTABLE)):
            *names, last = (f"'{name}'" for name in _STATEFUL_MUTABLE)
            text = f"updates to statefulset spec for fields other than {', '.join(names)} and {last} are forbidden"
            yield status.forbidden_field("spec", text)

    def _spec_causes(self, obj: Object) -> Iterator[Cause]:
        spec = obj["spec"]
        if (policy := spec.get("podManagementPolicy")) not in ("OrderedReady", "Parallel"):
            text = "must be 'OrderedReady' or 'Parallel'"
            yield status.invalid_value("spec.podManagementPolicy", policy, text)
        strategy, path = spec.get("updateStrategy") or {}, "spec.updateStrategy"
        kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
        if kind not in _UPDATES:
            yield status.invalid_value(path, _as_go(strategy), "must be 'RollingUpdate' or 'OnDelete'")
        elif kind == "OnDelete" and rolling is not None:
            text = "only allowed for updateStrategy 'RollingUpdate'"
            yield status.invalid_value(f"{path}.rollingUpdate", rolling, text)
        elif rolling is not None:
            yield from not_negative(rolling, "partition", path=f"{path}.rollingUpdate")
        for name, policy in (spec.get("persistentVolumeClaimRetentionPolicy") or {}).items():
            if policy not in ("Retain", "Delete"):
                where = f"spec.persistentVolumeClaimRetentionPolicy.{name}"
                yield status.not_supported(where, policy, ("Retain", "Delete"))
        yield from not_negative(spec.get("ordinals") or {}, "start", path="spec.ordinals")
        yield from super()._spec_causes(obj)


class _DaemonSets(_Workload):
    """A pod per node."""

    defaults = (("spec.updateStrategy.type", "RollingUpdate"), _HISTORY, *_TEMPLATE)
    rolling = (("maxUnavailable", 1), ("maxSurge", 0))
    requires_selector = False
    columns = f"Desired:i Current:i Ready:i Up-to-date:i Available:i Node_Selector Age {WORKLOAD} Selector:w"

    def cells(self, obj: Object) -> Sequence[Any]:
        state = obj.get("status") or {}
        names = (
            "desiredNumberScheduled",
            "currentNumberScheduled",
            "numberReady",
            "updatedNumberScheduled",
            "numberAvailable",
        )
        template = ((obj.get("spec") or {}).get("template") or {}).get("spec") or {}
        numbers = [state.get(name, 0) for name in names]
        selector = selector_text(obj["spec"].get("selector"))
        return (*numbers, labels(template.get("nodeSelector")), created(obj), *images(obj), selector)

    def _spec_causes(self, obj: Object) -> Iterator[Cause]:
        yield from super()._spec_causes(obj)
        strategy, path = obj["spec"].get("updateStrategy") or {}, "spec.updateStrategy"
        if strategy.get("type") not in _UPDATES:
            yield status.not_supported(path, _as_go(strategy), _UPDATES)
        if strategy.get("type") != "RollingUpdate":
            return
        rolling, path = strategy.get("rollingUpdate") or {}, f"{path}.rollingUpdate"
        for name in ("maxUnavailable", "maxSurge"):
            yield from share_causes(rolling.get(name), f"{path}.{name}")
            yield from _part_causes(rolling.get(name), f"{path}.{name}")
        surge = rolling.get("maxSurge")
        if share(rolling.get("maxUnavailable")) == 0 and share(surge) == 0:
            yield status.required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")
        elif share(rolling.get("maxUnavailable")) and share(surge):
            yield status.invalid_value(f"{path}.maxSurge", surge, "may not be set when maxUnavailable is non-zero")


class _Scales(BuiltinStrategy):
    """The sub-resource that reads and sets a workload's size."""

    columns = "Desired:i Available:i Age"

    def cells(self, obj: Object) -> Sequence[Any]:
        spec, state = obj.get("spec") or {}, obj.get("status") or {}
        return (spec.get("replicas", 0), state.get("replicas", 0), created(obj))


def _rolling_causes(rolling: Mapping[str, Any]) -> Iterator[Cause]:
    """Check the bounds of a Deployment's rolling update."""
    path = "spec.strategy.rollingUpdate"
    for name in ("maxUnavailable", "maxSurge"):
        yield from share_causes(rolling.get(name), f"{path}.{name}")
    unavailable = rolling.get("maxUnavailable")
    if share(unavailable) == 0 and share(rolling.get("maxSurge")) == 0:
        yield status.invalid_value(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")
    yield from _part_causes(unavailable, f"{path}.maxUnavailable")


def _untyped(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a StatefulSet's spec without the types of its claims, which may change."""
    claims = [
        {key: value for key, value in template.items() if key not in ("apiVersion", "kind")}
        for template in spec.get("volumeClaimTemplates") or ()
    ]
    return {**spec, "volumeClaimTemplates": claims}


def _part_causes(value: Any, field: str) -> Iterator[Cause]:
    if type(value) is str and share(value) > 100:
        yield status.invalid_value(field, value, "must not be greater than 100%")


def _as_go(strategy: Mapping[str, Any]) -> dict[str, Any]:
    """Return a strategy as a real server shows it."""
    return {"Type": strategy.get("type", ""), "RollingUpdate": strategy.get("rollingUpdate")}


STRATEGIES = {
    ("apps", "ControllerRevision"): _ControllerRevisions(),
    ("apps", "DaemonSet"): _DaemonSets(),
    ("apps", "Deployment"): _Deployments(),
    ("apps", "ReplicaSet"): _ReplicaSets(),
    ("apps", "StatefulSet"): _StatefulSets(),
    ("autoscaling", "Scale"): _Scales(),
}
