"""The kinds of storage.k8s.io."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.apimachinery.names import name_problems, qualified_problems
from ctrlhost_sandbox.kinds.cells import NONE, UNSET, created
from ctrlhost_sandbox.kinds.checks import (
    Check,
    at_least,
    named,
    of_each,
    one_of,
    required,
    selectors,
    unchanged,
)
from ctrlhost_sandbox.kinds.persistent_volumes import Protected, volume_spec_causes
from ctrlhost_sandbox.kinds.strategy import BuiltinStrategy
from ctrlhost_sandbox.schema.normalize import amount

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.apimachinery.status import Cause
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.operation import Operation

_DEFAULTS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
_MOST_PARAMETERS, _LARGEST_PARAMETERS = 512, 256 * 1024
_LONGEST_DRIVER, _LONGEST_ID, _LONGEST_ERROR = 63, 256, 1024
_LEAST_SECONDS, _MOST_SECONDS = 600, 2**32


def _driver(path: str) -> Check:
    """Check the required name of a CSI driver."""

    def check(where: str, value: Any) -> Iterator[Cause]:
        if len(value) > _LONGEST_DRIVER:
            yield status.too_long(where, _LONGEST_DRIVER)
        if problems := name_problems("subdomain", value.lower()):
            yield from status.invalid_values(where, value, problems)

    return of_each(path, check)


def _lower(path: str) -> Check:
    """Check a name with an optional prefix in any case."""

    def check(where: str, value: Any) -> Iterator[Cause]:
        yield from status.invalid_values(where, value, qualified_problems(value.lower()))

    return of_each(path, check)


def _parameters(where: str, value: Any) -> Iterator[Cause]:
    if len(value) > _MOST_PARAMETERS:
        yield status.too_long(where, _MOST_PARAMETERS)
    elif "" in value:
        yield status.invalid_value(where, "", "field can not be empty.")
    elif sum(len(key) + len(text) for key, text in value.items()) > _LARGEST_PARAMETERS:
        yield status.too_long(where, _LARGEST_PARAMETERS)


class _StorageClasses(BuiltinStrategy):
    """Most of a class is immutable."""

    defaults = (("reclaimPolicy", "Delete"), ("volumeBindingMode", "Immediate"))
    columns = "Provisioner ReclaimPolicy VolumeBindingMode AllowVolumeExpansion Age"
    checks = (
        required("provisioner"),
        _lower("provisioner"),
        of_each("parameters", _parameters),
        one_of("reclaimPolicy", "Delete", "Retain"),
        one_of("volumeBindingMode", "Immediate", "WaitForFirstConsumer"),
        unchanged("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"),
    )

    def name(self, obj: Object) -> str:
        """Return the name, with a mark for the default class."""
        metadata = obj["metadata"]
        annotations = metadata.get("annotations") or {}
        default = any(annotations.get(key) == "true" for key in _DEFAULTS)
        return f"{metadata['name']} (default)" if default else str(metadata["name"])

    def cells(self, obj: Object) -> Sequence[Any]:
        cells = (obj.get("provisioner", ""), obj.get("reclaimPolicy", "Delete"), obj.get("volumeBindingMode", ""))
        return (*cells, obj.get("allowVolumeExpansion", False), created(obj))


class _CsiDrivers(BuiltinStrategy):
    """What a driver needs."""

    defaults = (
        ("spec.attachRequired", True),
        ("spec.podInfoOnMount", False),
        ("spec.storageCapacity", False),
        ("spec.fsGroupPolicy", "ReadWriteOnceWithFSType"),
        ("spec.volumeLifecycleModes", ["Persistent"]),
        ("spec.requiresRepublish", False),
        ("spec.seLinuxMount", False),
    )
    columns = "AttachRequired:b PodInfoOnMount:b StorageCapacity:b TokenRequests RequiresRepublish:b Modes Age"
    checks = (
        one_of("spec.fsGroupPolicy", "File", "None", "ReadWriteOnceWithFSType"),
        at_least(
            10,
            "spec.nodeAllocatableUpdatePeriodSeconds",
            text="must be greater than or equal to 10 seconds",
        ),
    )

    def cells(self, obj: Object) -> Sequence[Any]:
        spec = obj.get("spec") or {}
        flags = [spec.get(name, False) for name in ("attachRequired", "podInfoOnMount", "storageCapacity")]
        requests = spec.get("tokenRequests")
        tokens = UNSET if requests is None else ",".join(request.get("audience", "") for request in requests)
        modes = ",".join(spec.get("volumeLifecycleModes") or ()) or NONE
        return (*flags, tokens, spec.get("requiresRepublish", False), modes, created(obj))

    def prepare_update(self, context: ServerContext, operation: Operation, obj: Object, old: Object) -> None:
        """Raise the generation, which a new driver does not have."""
        if obj["spec"] != old["spec"]:
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        spec = obj["spec"]
        yield from super().causes(context, operation, obj, old)
        yield from _token_causes(spec.get("tokenRequests") or ())
        for mode in spec["volumeLifecycleModes"]:
            if mode not in ("Persistent", "Ephemeral"):
                yield status.not_supported("spec.volumeLifecycleModes", mode, ("Persistent", "Ephemeral"))
        if "serviceAccountTokenInSecrets" in spec and not spec.get("tokenRequests"):
            text = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
            yield status.invalid_value("spec.serviceAccountTokenInSecrets", spec["serviceAccountTokenInSecrets"], text)
        for name, field in (("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")):
            if old is not None and spec.get(name) != old["spec"].get(name):
                yield status.invalid_value(f"spec.{field}", spec.get(name), "field is immutable")


def _token_causes(requests: Sequence[dict[str, Any]]) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, request in enumerate(requests):
        where, audience, seconds = (
            f"spec.tokenRequests[{index}]",
            request.get("audience", ""),
            request.get("expirationSeconds"),
        )
        if audience in seen:
            yield status.duplicate(f"{where}.audience", audience)
        elif seconds is not None and not _LEAST_SECONDS <= seconds <= _MOST_SECONDS:
            bound = "less than 10 minutes" if seconds < _LEAST_SECONDS else "larger than 2^32 seconds"
            yield status.invalid_value(f"{where}.expirationSeconds", seconds, f"may not specify a duration {bound}")
        seen.add(audience)


class _CsiNodes(BuiltinStrategy):
    """The drivers of a node; the fields of a known driver are immutable."""

    columns = "Drivers:i Age"
    checks = (
        required("spec.drivers[*].name", "spec.drivers[*].nodeID"),
        _driver("spec.drivers[*].name"),
        at_least(0, "spec.drivers[*].allocatable.count"),
    )

    def cells(self, obj: Object) -> Sequence[Any]:
        return (len((obj.get("spec") or {}).get("drivers") or ()), created(obj))

    def default(self, obj: Object) -> None:
        for driver in obj["spec"].get("drivers") or ():
            driver.setdefault("topologyKeys", None)

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        yield from super().causes(context, operation, obj, old)
        drivers, names = obj["spec"].get("drivers") or (), set[str]()
        before = {entry["name"]: entry for entry in ((old or {}).get("spec") or {}).get("drivers") or ()}
        for index, driver in enumerate(drivers):
            where, name = f"spec.drivers[{index}]", driver.get("name", "")
            if len(driver.get("nodeID", "")) > _LONGEST_ID:
                text = f"must be {_LONGEST_ID} characters or less"
                yield status.invalid_value(f"{where}.nodeID", driver["nodeID"], text)
            if name in names:
                yield status.duplicate(f"{where}.name", name)
            names.add(name)
            keys = driver.get("topologyKeys") or []
            for at, key in enumerate(keys):
                if key in keys[:at]:
                    yield status.duplicate(where, key)
                yield from status.invalid_values(where, key, qualified_problems(key))
            fixed = {**driver, "allocatable": None}
            if name in before and fixed != {**before[name], "allocatable": None}:
                yield status.invalid_value("spec.drivers", driver, "field is immutable")


def _quantity(where: str, value: Any) -> Iterator[Cause]:
    if amount(value) < 0:
        yield status.invalid_value(where, value, "must be greater than or equal to 0")


class _Capacities(BuiltinStrategy):
    """How much storage of a class there is in a topology; both are immutable."""

    columns = "Created_At:d"
    checks = (
        selectors("nodeTopology"),
        of_each("capacity", _quantity),
        unchanged("nodeTopology", "storageClassName"),
    )

    def cells(self, obj: Object) -> Sequence[Any]:
        return (obj["metadata"].get("creationTimestamp"),)

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        name = obj.get("storageClassName", "")
        if problems := name_problems("subdomain", name):
            yield from status.invalid_values("storageClassName", name, problems)
        yield from super().causes(context, operation, obj, old)


class _VolumeAttachments(BuiltinStrategy):
    """A volume at a node; the spec is immutable."""

    columns = "Attacher:n PV Node Attached:b Age"
    checks = (
        required("spec.attacher"),
        _driver("spec.attacher"),
        named("subdomain", "spec.source.persistentVolumeName"),
        unchanged("spec"),
    )

    def cells(self, obj: Object) -> Sequence[Any]:
        spec = obj.get("spec") or {}
        names = (spec.get("attacher", ""), (spec.get("source") or {}).get("persistentVolumeName", ""))
        attached = (obj.get("status") or {}).get("attached", False)
        return (*names, spec.get("nodeName", ""), attached, created(obj))

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        for name in ("attachError", "detachError"):
            error = (obj.get("status") or {}).get(name) or {}
            if len(error.get("message", "")) > _LONGEST_ERROR:
                yield status.too_long(f"status.{name}.message", _LARGEST_PARAMETERS)
        source, node = obj["spec"].get("source") or {}, obj["spec"].get("nodeName", "")
        inline, named_volume = source.get("inlineVolumeSpec"), source.get("persistentVolumeName")
        text = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
        if inline is None and named_volume is None:
            yield status.required("spec.source", text)
        elif inline is not None and named_volume is not None:
            yield status.forbidden_field("spec.source", text)
        elif named_volume == "":
            field = "spec.source.persistentVolumeName"
            yield status.required(field, "must specify non empty persistentVolumeName")
            yield from status.invalid_values(field, "", name_problems("subdomain", ""))
        elif inline is not None:
            yield from volume_spec_causes(inline, "spec.source.inlineVolumeSpec", inline=True)
        if problems := name_problems("subdomain", node):
            yield from status.invalid_values("spec.nodeName", node, problems)
        yield from super().causes(context, operation, obj, old)


class _AttributesClasses(Protected):
    """Everything in a class is immutable."""

    columns = "DriverName Age"
    checks = (required("driverName"), _lower("driverName"), of_each("parameters", _parameters))

    def cells(self, obj: Object) -> Sequence[Any]:
        return (obj.get("driverName", ""), created(obj))

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        for name in ("driverName", "parameters"):
            if old is not None and obj.get(name) != old.get(name):
                yield status.forbidden_field(name, f"updates to {name} are forbidden.")
        yield from super().causes(context, operation, obj, old)
        if not obj.get("parameters"):
            yield status.required("parameters", "must contain at least one key/value pair")


_GROUP = "storage.k8s.io"
STRATEGIES = {
    (_GROUP, "StorageClass"): _StorageClasses(),
    (_GROUP, "CSIDriver"): _CsiDrivers(),
    (_GROUP, "CSINode"): _CsiNodes(),
    (_GROUP, "CSIStorageCapacity"): _Capacities(),
    (_GROUP, "VolumeAttachment"): _VolumeAttachments(),
    (_GROUP, "VolumeAttributesClass"): _AttributesClasses(),
}
