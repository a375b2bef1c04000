"""PersistentVolumes and PersistentVolumeClaims."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status, times
from ctrlhost_sandbox.apimachinery.names import name_problems
from ctrlhost_sandbox.kinds.cells import UNSET, created
from ctrlhost_sandbox.kinds.checks import Check, named, one_of, selectors
from ctrlhost_sandbox.kinds.fields import immutable
from ctrlhost_sandbox.kinds.strategy import BuiltinStrategy
from ctrlhost_sandbox.schema.normalize import amount

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.apimachinery.status import Cause
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.operation import Operation

_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_OTHER_FIELDS = frozenset(
    {
        *("accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy"),
        *("storageClassName", "volumeAttributesClassName", "volumeMode"),
    }
)
"""The fields of a volume's spec that do not say where it is."""
_INLINE = "may not be specified in the context of inline volumes"
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
PROTECTION = {
    "PersistentVolume": "kubernetes.io/pv-protection",
    "PersistentVolumeClaim": "kubernetes.io/pvc-protection",
    "VolumeAttributesClass": "kubernetes.io/vac-protection",
}
"""The finalizers that admission adds."""
_VOLUME_MODES: Check = one_of("spec.volumeMode", "Block", "Filesystem")


class Protected(BuiltinStrategy):
    """A volume, claim or class that is kept while it is used."""

    allocates = True

    def prepare_create(self, context: ServerContext, operation: Operation, obj: Object) -> None:
        """Add the finalizer."""
        finalizer = PROTECTION[operation.kind.kind]
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if finalizer not in finalizers:
            finalizers.append(finalizer)

    def tracked(self, obj: Object, sent: Object) -> Object:
        """Omit the finalizer."""
        own = PROTECTION[obj["kind"]]
        metadata = dict(obj["metadata"])
        metadata["finalizers"] = [name for name in metadata["finalizers"] if name != own]
        if not metadata["finalizers"]:
            del metadata["finalizers"]
        return {**obj, "metadata": metadata}

    def prepare_delete(self, context: ServerContext, operation: Operation, obj: Object) -> None:
        """Remove the finalizer, unless a controller runs that does so when nothing uses the object."""
        if "persistentvolume" not in context.options.controllers:
            finalizers = obj["metadata"].pop("finalizers", None) or []
            if others := [name for name in finalizers if name != PROTECTION[obj["kind"]]]:
                obj["metadata"]["finalizers"] = others


class _Volumes(Protected):
    """The source of a volume is immutable."""

    defaults = (
        ("spec.persistentVolumeReclaimPolicy", "Retain"),
        ("spec.volumeMode", "Filesystem"),
        ("spec.hostPath.type", ""),
    )
    columns = (
        "Capacity Access_Modes Reclaim_Policy Status Claim StorageClass VolumeAttributesClass Reason Age VolumeMode:w"
    )

    def cells(self, obj: Object) -> Sequence[Any]:
        spec, state = obj.get("spec") or {}, obj.get("status") or {}
        claim = spec.get("claimRef")
        return (
            (spec.get("capacity") or {}).get("storage", "0"),
            _modes_text(spec.get("accessModes") or ()),
            spec.get("persistentVolumeReclaimPolicy", ""),
            _phase(obj),
            f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
            _class(obj),
            spec.get("volumeAttributesClassName", UNSET),
            state.get("reason", ""),
            created(obj),
            spec.get("volumeMode", UNSET),
        )

    def prepare_create(self, context: ServerContext, operation: Operation, obj: Object) -> None:
        """Set the first phase."""
        super().prepare_create(context, operation, obj)
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": times.now()}

    def prepare_update(self, context: ServerContext, operation: Operation, obj: Object, old: Object) -> None:
        """Record when the phase changed."""
        state, before = obj.get("status") or {}, old.get("status") or {}
        if operation.subresource == "status" and state.get("phase") != before.get("phase"):
            obj["status"] = {"lastPhaseTransitionTime": times.now(), **state}
            if state.get("lastPhaseTransitionTime") == before.get("lastPhaseTransitionTime"):
                obj["status"]["lastPhaseTransitionTime"] = times.now()

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        if operation.subresource:
            return
        yield from volume_spec_causes(obj.get("spec") or {}, "spec")
        if old is None:
            return
        spec, before = obj["spec"], old["spec"]
        kept = [{key: state[key] for key in state if key not in _OTHER_FIELDS} for state in (spec, before)]
        if kept[0] != kept[1]:
            text = "spec.persistentvolumesource is immutable after creation"
            yield status.forbidden_field("spec.persistentvolumesource", text)
        if spec.get("volumeMode") != before.get("volumeMode"):
            yield status.invalid_value("volumeMode", spec.get("volumeMode"), "field is immutable")
        if "volumeAttributesClassName" in before and "volumeAttributesClassName" not in spec:
            text = "update from non-nil value to nil is forbidden"
            yield status.forbidden_field("spec.volumeAttributesClassName", text)


_CLAIM_CHECKS: tuple[Check, ...] = (
    selectors("spec.selector"),
    named("subdomain", "spec.storageClassName", "spec.volumeAttributesClassName"),
    _VOLUME_MODES,
)


class _Claims(Protected):
    """A claim's spec is immutable, except for the size of a bound one."""

    defaults = (("spec.volumeMode", "Filesystem"),)
    columns = "Status Volume Capacity Access_Modes StorageClass VolumeAttributesClass Age VolumeMode:w"

    def cells(self, obj: Object) -> Sequence[Any]:
        spec, state = obj.get("spec") or {}, obj.get("status") or {}
        bound = bool(spec.get("volumeName"))
        return (
            _phase(obj),
            spec.get("volumeName", ""),
            (state.get("capacity") or {}).get("storage", "0") if bound else "",
            _modes_text(state.get("accessModes") or ()) if bound else "",
            _class(obj),
            spec.get("volumeAttributesClassName", UNSET),
            created(obj),
            spec.get("volumeMode", UNSET),
        )

    def prepare_create(self, context: ServerContext, operation: Operation, obj: Object) -> None:
        """Set the first phase, and name the default class as admission does: the newest of several."""
        super().prepare_create(context, operation, obj)
        obj["status"] = {"phase": "Pending"}
        table = context.store.table("storage.k8s.io/storageclasses")
        classes = [entry.decode()["metadata"] for entry in table.list() if DEFAULT_CLASS.encode() in entry.raw]
        chosen = [class_ for class_ in classes if class_["annotations"].get(DEFAULT_CLASS) == "true"]
        if chosen and "storageClassName" not in obj["spec"]:
            chosen.sort(key=lambda storage_class: storage_class["name"])
            obj["spec"]["storageClassName"] = max(chosen, key=lambda storage_class: storage_class["creationTimestamp"])[
                "name"
            ]

    def default(self, obj: Object) -> None:
        """Keep both names of the data source equal."""
        spec = obj["spec"]
        source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
        if source is not None and reference is None:
            spec["dataSourceRef"] = dict(source)
        elif reference is not None and source is None and not reference.get("namespace"):
            spec["dataSource"] = {key: reference[key] for key in reference if key != "namespace"}

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        if operation.subresource:
            for name, size in ((obj.get("status") or {}).get("capacity") or {}).items():
                if amount(size) < 0:
                    field = f"status.capacity[{name}]"
                    yield status.invalid_value(field, size, "must be a valid resource quantity")
            return
        yield from claim_causes(obj, "")
        if old is not None:
            yield from _claim_update_causes(obj, old)


def claim_causes(claim: Mapping[str, Any], path: str) -> Iterator[Cause]:
    """Check a claim at `path`, or one in a template."""
    prefix = f"{path}." if path else ""
    for cause in _claim_spec_causes(dict(claim)):
        yield status.Cause(cause.reason, cause.message, f"{prefix}{cause.field}")


def _claim_spec_causes(claim: Object) -> Iterator[Cause]:
    spec = claim.get("spec") or {}
    yield from _mode_causes(spec.get("accessModes") or (), "spec", "at least 1 access mode is required")
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if size is None:
        yield status.required("spec.resources[storage]")
    elif amount(size) <= 0:
        yield status.invalid_value("spec.resources[storage]", size, "must be greater than zero")
    for check in _CLAIM_CHECKS:
        yield from check(claim, None)
    for name in ("dataSource", "dataSourceRef"):
        if spec.get(name) is not None:
            yield from _origin_causes(spec[name], f"spec.{name}")


def _origin_causes(origin: Mapping[str, Any], where: str) -> Iterator[Cause]:
    for field in ("name", "kind"):
        if not origin.get(field):
            yield status.required(f"{where}.{field}")
    kind, group = origin.get("kind", ""), origin.get("apiGroup", "")
    if not group and kind != "PersistentVolumeClaim":
        text = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        yield status.invalid_value(where, kind, text)
    elif group and (problems := name_problems("subdomain", group)):
        yield from status.invalid_values(f"{where}.apiGroup", group, problems)


def _claim_update_causes(obj: Object, old: Object) -> Iterator[Cause]:
    spec, before = obj["spec"], old["spec"]
    changeable = {"volumeName"} if not before.get("volumeName") else set[str]()
    kept = [{key: state[key] for key in state if key not in changeable} for state in (spec, before)]
    if (obj.get("status") or {}).get("phase") == "Bound":
        for state in kept:
            resources = dict(state.get("resources") or {})
            resources["requests"] = {**(resources.get("requests") or {}), "storage": ""}
            state["resources"] = resources
            state.pop("volumeAttributesClassName", None)
    if kept[0] != kept[1]:
        text = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
        )
        yield status.forbidden_field("spec", text)
    new, was = (((state.get("resources") or {}).get("requests") or {}).get("storage", "0") for state in (spec, before))
    least = ((old.get("status") or {}).get("capacity") or {}).get("storage", "0")
    if amount(new) < amount(was) and amount(new) <= amount(least):
        text = "field can not be less than status.capacity"
        yield status.forbidden_field("spec.resources.requests.storage", text)
    yield from [
        status.invalid_value("volumeMode", spec.get("volumeMode"), cause.message.rpartition(": ")[2])
        for cause in immutable(obj, old, "spec", "volumeMode")
    ]


def volume_spec_causes(spec: Mapping[str, Any], where: str, *, inline: bool = False) -> Iterator[Cause]:
    """Check the spec of a volume, of its own or inline in a VolumeAttachment."""
    if inline:
        for name in ("claimRef", "capacity", "nodeAffinity", "storageClassName"):
            if spec.get(name):
                yield status.forbidden_field(f"{where}.{name}", _INLINE)
        if spec.get("csi") is None:
            yield status.required(f"{where}.csi", "has to be specified in the context of inline volumes")
    yield from _mode_causes(spec.get("accessModes") or (), where)
    if not inline:
        yield from _capacity_causes(spec.get("capacity") or {}, f"{where}.capacity")
        obj = {"spec": spec}
        for check in _VOLUME_CHECKS:
            yield from check(obj, None)
    sources = [name for name in spec if name not in _OTHER_FIELDS]
    if not sources:
        yield status.required(where, "must specify a volume type")
    for name in sources[1:]:
        yield status.forbidden_field(f"{where}.{name}", "may not specify more than 1 volume type")
    if sources:
        yield from _source_causes(spec, sources[0], f"{where}.{sources[0]}")
    if "volumeAttributesClassName" in spec:
        name = spec["volumeAttributesClassName"]
        field = f"{where}.volumeAttributesClassName"
        if not name:
            yield status.required(field, "an empty string is disallowed")
        elif problems := name_problems("subdomain", name):
            yield from status.invalid_values(field, name, problems)
        if spec.get("csi") is None:
            yield status.required(f"{where}.csi", "has to be specified when using volumeAttributesClassName")


_VOLUME_CHECKS: tuple[Check, ...] = (
    one_of("spec.persistentVolumeReclaimPolicy", "Delete", "Recycle", "Retain"),
    named("subdomain", "spec.storageClassName"),
    _VOLUME_MODES,
)


def _capacity_causes(capacity: Mapping[str, str], where: str) -> Iterator[Cause]:
    if not capacity:
        yield status.required(where)
    if set(capacity) != {"storage"}:
        yield status.not_supported(where, dict(capacity), ("storage",))
    for name, size in capacity.items():
        if amount(size) <= 0:
            yield status.invalid_value(f"{where}[{name}]", size, "must be greater than zero")


def _source_causes(spec: Mapping[str, Any], kind: str, where: str) -> Iterator[Cause]:
    source, needed = spec[kind], {"hostPath": ("path",), "local": ("path",), "nfs": ("server", "path")}.get(kind, ())
    for name in needed:
        if not source.get(name):
            yield status.required(f"{where}.{name}")
    if kind in ("hostPath", "local") and ".." in source.get("path", "").split("/"):
        yield status.invalid_value(f"{where}.path", source["path"], "must not contain '..'")
    if kind == "nfs" and source.get("path", "/")[:1] != "/":
        yield status.invalid_value(f"{where}.path", source["path"], "must be an absolute path")
    if kind == "local" and spec.get("nodeAffinity") is None:
        yield status.required(f"{where.rpartition('.')[0]}.nodeAffinity", "Local volume requires node affinity")
    if kind == "csi":
        driver = source.get("driver", "")
        if not driver:
            yield status.required(f"{where}.driver")
        elif problems := name_problems("subdomain", driver.lower()):
            yield from status.invalid_values(f"{where}.driver", driver, problems)
        if not source.get("volumeHandle"):
            yield status.required(f"{where}.volumeHandle")


def _mode_causes(modes: Sequence[str], where: str, text: str = "") -> Iterator[Cause]:
    field = f"{where}.accessModes"
    if not modes:
        yield status.required(field, text)
    for mode in modes:
        if mode not in _MODES:
            yield status.not_supported(field, mode, sorted(_MODES))
    if "ReadWriteOncePod" in modes and any(mode in _MODES and mode != "ReadWriteOncePod" for mode in modes):
        yield status.forbidden_field(field, "may not use ReadWriteOncePod with other access modes")


def _modes_text(modes: Sequence[str]) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in modes)


def _phase(obj: Object) -> str:
    return "Terminating" if "deletionTimestamp" in obj["metadata"] else (obj.get("status") or {}).get("phase", "")


def _class(obj: Object) -> str:
    """Return the class, which an annotation of old may name."""
    annotations = obj["metadata"].get("annotations") or {}
    return str(annotations.get(_CLASS_ANNOTATION) or (obj.get("spec") or {}).get("storageClassName", ""))


STRATEGIES = {("", "PersistentVolume"): _Volumes(), ("", "PersistentVolumeClaim"): _Claims()}
