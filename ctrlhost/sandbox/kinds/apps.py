"""The kinds of the apps group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlhost.sandbox.apimachinery import status
from ctrlhost.sandbox.kinds.strategy import BuiltinStrategy

if TYPE_CHECKING:
    from ctrlhost.sandbox.apimachinery.objects import Object
    from ctrlhost.sandbox.apimachinery.status import Cause
    from ctrlhost.sandbox.context import Engine
    from ctrlhost.sandbox.registry.operation import Call

_IMMUTABLE = "field is immutable"
_STATEFUL_MUTABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


class Workload(BuiltinStrategy):
    """A workload keeps its selector."""

    kept_metadata = ("labels",)

    def causes(self, engine: Engine, call: Call, obj: Object, old: Object | None) -> list[Cause]:
        """Compare the selectors."""
        if old is None or call.subresource or "spec" not in obj:
            return []
        selector = obj["spec"].get("selector")
        if selector != (old.get("spec") or {}).get("selector"):
            return [status.invalid_value("spec.selector", selector, _IMMUTABLE)]
        return []


class Deployments(Workload):
    """Rollouts are driven by annotations too, so those count."""

    def metadata_counts(self, obj: Object, old: Object) -> bool:
        """Count a change of annotations."""
        return bool(obj["metadata"].get("annotations") != old["metadata"].get("annotations"))


class StatefulSets(Workload):
    """Little of a StatefulSet's spec may change."""

    def causes(self, engine: Engine, call: Call, obj: Object, old: Object | None) -> list[Cause]:
        """Name the change that is not allowed."""
        if old is None and obj["spec"].get("volumeClaimTemplates") and "statefulset" in engine.options.controllers:
            call.warnings.append("sandbox: no claims are made from spec.volumeClaimTemplates, and no volumes")
        if old is None or call.subresource:
            return []
        for key in sorted((obj["spec"].keys() | old["spec"].keys()) - set(_STATEFUL_MUTABLE)):
            if obj["spec"].get(key) != old["spec"].get(key):
                *names, last = (f"'{name}'" for name in _STATEFUL_MUTABLE)
                text = f"updates to statefulset spec for fields other than {', '.join(names)} and {last} are forbidden"
                return [status.forbidden_field("spec", text)]
        return []
