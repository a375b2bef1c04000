"""The kinds of the core group, and Events of both groups; Pods and Services have files of their own."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.apimachinery.durations import age
from ctrlhost_sandbox.apimachinery.objects import condition
from ctrlhost_sandbox.kinds.cells import NONE, created
from ctrlhost_sandbox.kinds.fields import immutable, key_problems, network_problem, qualified_causes
from ctrlhost_sandbox.kinds.pod.scheduling import taint_causes
from ctrlhost_sandbox.kinds.strategy import BuiltinStrategy
from ctrlhost_sandbox.schema import go_text
from ctrlhost_sandbox.schema.normalize import amount

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.apimachinery.status import Cause
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.operation import Operation

IMMORTAL = ("default", "kube-system", "kube-public")
_MAX_DATA = 1024 * 1024
_LONGEST_NOTE = 1024
_SECRET_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


#: The deprecated and the fixed fields of Events of events.k8s.io, and their names in causes.
_DEPRECATED = {
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
    "deprecatedSource": "source",
}
_FIXED = {
    "regarding": "involvedObject",
    "reason": "reason",
    "note": "message",
    **_DEPRECATED,
    "type": "type",
    "eventTime": "eventTime",
    "action": "action",
    "related": "related",
    "reportingController": "reportingController",
    "reportingInstance": "reportingInstance",
}


class _Namespaces(BuiltinStrategy):
    """A namespace stays until its contents are deleted."""

    columns = "Status Age"

    def cells(self, obj: Object) -> Sequence[Any]:
        return ((obj.get("status") or {}).get("phase", ""), created(obj))

    def prepare_create(self, context: ServerContext, operation: Operation, obj: Object) -> None:
        """Set the label, the finalizer and the phase."""
        name = obj["metadata"].get("name", "")
        obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name
        finalizers = obj["spec"].setdefault("finalizers", [])
        if "kubernetes" not in finalizers:
            finalizers.append("kubernetes")
        obj["status"] = {"phase": "Active"}

    def prepare_update(self, context: ServerContext, operation: Operation, obj: Object, old: Object) -> None:
        """Leave finalizers to the finalize sub-resource."""
        if operation.subresource != "finalize":
            obj["spec"] = dict(old.get("spec") or {})
        obj["metadata"].setdefault("labels", {}).setdefault("kubernetes.io/metadata.name", operation.name)

    def check_delete(self, context: ServerContext, operation: Operation) -> None:
        """Refuse to delete the namespaces that the server needs."""
        if operation.name in IMMORTAL:
            raise status.forbidden("namespaces", "", operation.name, "this namespace may not be deleted")

    def holds_deletion(self, context: ServerContext, obj: Object) -> bool:
        return bool((obj.get("spec") or {}).get("finalizers"))

    def begin_deletion(self, context: ServerContext, obj: Object) -> None:
        """Set the phase. A namespace has no grace period."""
        del obj["metadata"]["deletionGracePeriodSeconds"]
        obj.setdefault("status", {})["phase"] = "Terminating"


class _Data(BuiltinStrategy):
    """The base of Secrets and ConfigMaps."""

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        size = 0
        for field in ("data", "binaryData"):
            for key, value in (obj.get(field) or {}).items():
                yield from status.invalid_values(f"{field}[{key}]", key, key_problems(key))
                size += len(value)
        for key in (obj.get("data") or {}).keys() & (obj.get("binaryData") or {}).keys():
            yield status.invalid_value(f"data[{key}]", key, "duplicate of key present in binaryData")
        if size > _MAX_DATA * (4 / 3 if obj["kind"] == "Secret" else 1):
            yield status.too_long("data" if obj["kind"] == "Secret" else "", _MAX_DATA)
        if old is not None and old.get("immutable"):
            for field in ("immutable", "data", "binaryData"):
                if obj.get(field) != old.get(field):
                    yield status.forbidden_field(field, "field is immutable when `immutable` is set")


class _ConfigMaps(_Data):
    """Plain data."""

    columns = "Data Age"

    def cells(self, obj: Object) -> Sequence[Any]:
        return (_count(obj), created(obj))


class _Secrets(_Data):
    """Data in base64, with a type."""

    defaults = (("type", "Opaque"),)
    columns = "Type Data Age"

    def cells(self, obj: Object) -> Sequence[Any]:
        return (obj.get("type", ""), _count(obj), created(obj))

    def prepare_create(self, context: ServerContext, operation: Operation, obj: Object) -> None:
        """Merge stringData into data."""
        if text := obj.pop("stringData", None):
            data = obj.setdefault("data", {})
            data |= {key: base64.b64encode(value.encode()).decode() for key, value in text.items()}

    def prepare_update(self, context: ServerContext, operation: Operation, obj: Object, old: Object) -> None:
        self.prepare_create(context, operation, obj)

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        yield from super().causes(context, operation, obj, old)
        kind, data = obj.get("type", ""), obj.get("data") or {}
        for key in _SECRET_KEYS.get(kind, ()):
            if key not in data or (key == "ssh-privatekey" and not data[key]):
                yield status.required(f"data[{key}]")
            elif key.startswith(".docker") and (problem := _object_problem(data[key])):
                yield status.invalid_value(f"data[{key}]", "<secret contents redacted>", problem)
        if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
            yield status.required("data[username]")
            yield status.required("data[password]")
        annotation = "kubernetes.io/service-account.name"
        if kind == "kubernetes.io/service-account-token" and not (obj["metadata"].get("annotations") or {}).get(
            annotation
        ):
            yield status.required(f"metadata.annotations[{annotation}]")
        yield from immutable(obj, old, "type")


class _Events(BuiltinStrategy):
    """Events refer to an object."""

    columns = "Last_Seen Type Reason Object Subobject:w Source:w Message First_Seen:w Count:w Name:w"

    def cells(self, obj: Object) -> Sequence[Any]:
        about = obj.get("involvedObject") or obj.get("regarding") or {}
        source = obj.get("source") or obj.get("deprecatedSource") or {}
        first = obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or obj.get("eventTime")
        series = obj.get("series") or {}
        last = series.get("lastObservedTime") or obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp") or first
        kind = about.get("kind", "").lower()
        target = f"{kind}/{about['name']}" if about.get("name") else kind
        reporter = obj.get("reportingComponent") or obj.get("reportingController") or ""
        origin = source.get("component") or reporter
        if source.get("host"):
            origin = f"{origin}, {source['host']}"
        return (
            age(last),
            obj.get("type", ""),
            obj.get("reason", ""),
            target,
            about.get("fieldPath", ""),
            origin,
            (obj.get("message") or obj.get("note") or "").strip(),
            age(first),
            series.get("count") or obj.get("count") or obj.get("deprecatedCount") or 1,
            obj["metadata"]["name"],
        )

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        """Check an Event as the version of the request does: new events have an `eventTime`, old ones do not."""
        core = operation.kind.group == ""
        about = obj.get("regarding") or obj.get("involvedObject") or {}
        namespace, wanted = about.get("namespace", ""), obj["metadata"].get("namespace")
        new = bool(obj.get("eventTime"))
        if (not namespace and wanted not in ("default", *(("kube-system",) if new else ()))) or (
            namespace and namespace != wanted and not new
        ):
            yield status.invalid_value("involvedObject.namespace", namespace, "does not match event.namespace")
        if new:
            yield from _new_event_causes(obj, core=core)
        if core:
            return
        if (old is None or not _same(obj, old, "series")) and obj.get("series") is not None:
            if obj["series"].get("count", 0) < 2:
                yield status.invalid_value("series.count", "", "should be at least 2")
            if not obj["series"].get("lastObservedTime"):
                yield status.required("series.lastObservedTime")
        if old is not None:
            for name, internal in _FIXED.items():
                if not _same(obj, old, name):
                    yield status.invalid_value(internal, obj.get(name), "field is immutable")
            return
        if not new:
            yield status.required("eventTime")
        if obj.get("type") not in ("Normal", "Warning"):
            yield status.invalid_value("type", "", f"has invalid value: {obj.get('type', '')}")
        for name, internal in _DEPRECATED.items():
            if obj.get(name):
                yield status.invalid_value(internal, "", "needs to be unset")


def _same(obj: Object, old: Object, name: str) -> bool:
    """Return whether a field is equal; the other group of Events omits zeros that this one writes."""
    now, before = (
        {key: part for key, part in value.items() if part} if type(value := state.get(name)) is dict else value or None
        for state in (obj, old)
    )
    return now == before


def _new_event_causes(obj: Object, *, core: bool) -> Iterator[Cause]:
    reporter = "reportingComponent" if core else "reportingController"
    for member, longest in ((reporter, 0), ("reportingInstance", 128), ("action", 128), ("reason", 128)):
        text = obj.get(member, "")
        if not text:
            yield status.required(member)
        if member == reporter:
            yield from qualified_causes(text, member)
        elif longest and len(text) > longest:
            yield status.invalid_value(member, "", f"can have at most {longest} characters")
    if len((obj.get("message" if core else "note") or "").encode()) > _LONGEST_NOTE:
        yield status.invalid_value("message", "", f"can have at most {_LONGEST_NOTE} characters")


class _Nodes(BuiltinStrategy):
    """Nodes."""

    keeps_status = True
    columns = "Status Roles Age Version Internal-IP:w External-IP:w OS-Image:w Kernel-Version:w Container-Runtime:w"

    def cells(self, obj: Object) -> Sequence[Any]:
        node_state, labels = obj.get("status") or {}, obj["metadata"].get("labels") or {}
        state = {"True": "Ready", "False": "NotReady"}.get((condition(obj, "Ready") or {}).get("status", ""), "Unknown")
        if (obj.get("spec") or {}).get("unschedulable"):
            state += ",SchedulingDisabled"
        prefix = "node-role.kubernetes.io/"
        roles = ",".join(sorted(key[len(prefix) :] for key in labels if key.startswith(prefix))) or NONE
        info = node_state.get("nodeInfo") or {}
        addresses = {item["type"]: item["address"] for item in node_state.get("addresses") or ()}
        return (
            state,
            roles,
            created(obj),
            info.get("kubeletVersion", ""),
            addresses.get("InternalIP", NONE),
            addresses.get("ExternalIP", NONE),
            info.get("osImage", "<unknown>"),
            info.get("kernelVersion", "<unknown>"),
            info.get("containerRuntimeVersion", "<unknown>"),
        )

    def default(self, obj: Object) -> None:
        """Keep the deprecated field with one range, which counts more, equal to the first of the others."""
        spec = obj.get("spec") or {}
        ranges = spec.get("podCIDRs") or [""]
        if spec.get("podCIDR") and spec["podCIDR"] != ranges[0]:
            spec["podCIDRs"] = [spec["podCIDR"]]
        elif ranges[0]:
            spec["podCIDR"] = ranges[0]
        if capacity := (obj.get("status") or {}).get("capacity"):
            obj["status"].setdefault("allocatable", dict(capacity))

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        spec, state = obj.get("spec") or {}, obj.get("status") or {}
        yield from taint_causes(spec.get("taints") or (), "metadata.taints")
        for kind in ("capacity", "allocatable"):
            for name, value in (state.get(kind) or {}).items():
                if amount(value) < 0:
                    where = f"status.{kind}.{name}"
                    yield status.invalid_value(where, value, "must be greater than or equal to 0")
        ranges = spec.get("podCIDRs") or []
        for index, text in enumerate(ranges):
            if problem := network_problem(text):
                yield status.invalid_value(f"spec.podCIDRs[{index}]", text, problem)
        if len(ranges) > 1 and len({":" in text for text in ranges}) != len(ranges):
            text = "may specify no more than one CIDR for each IP family"
            yield status.invalid_value("spec.podCIDRs", ranges, text)
        before = {} if old is None else old.get("spec") or {}
        for name, what in (("podCIDRs", "podCIDR"), ("providerID", "providerID")):
            if before.get(name) and before[name] != spec.get(name):
                text = f'node updates may not change {what} except from "" to valid'
                yield status.forbidden_field(f"spec.{name}", text)
        addresses: list[Any] = state.get("addresses") or []
        for index, address in enumerate(addresses if old is not None else ()):
            if address in addresses[:index]:
                yield status.duplicate(f"status.addresses[{index}]", address)


class _ServiceAccounts(BuiltinStrategy):
    """An account names its secrets, and says nothing else of them."""

    def prepare_create(self, context: ServerContext, operation: Operation, obj: Object) -> None:
        """Drop what a reference to a secret has beside its name."""
        for secret in obj.get("secrets") or ():
            for field in secret.keys() - {"name"}:
                del secret[field]

    def prepare_update(self, context: ServerContext, operation: Operation, obj: Object, old: Object) -> None:
        self.prepare_create(context, operation, obj)


def _object_problem(data: str) -> str:
    """Return why bytes in base64 are not a JSON object."""
    try:
        decoded = msgspec.json.decode(base64.b64decode(data))
    except ValueError as error:
        return str(error)
    if type(decoded) is dict or decoded is None:
        return ""
    return f"json: cannot unmarshal {go_text.json_kind(decoded)} into Go value of type map[string]interface {{}}"


def _count(obj: Object) -> int:
    return len(obj.get("data") or ()) + len(obj.get("binaryData") or ())


STRATEGIES = {
    ("", "ConfigMap"): _ConfigMaps(),
    ("", "Event"): _Events(),
    ("events.k8s.io", "Event"): _Events(),
    ("", "Namespace"): _Namespaces(),
    ("", "Node"): _Nodes(),
    ("", "Secret"): _Secrets(),
    ("", "ServiceAccount"): _ServiceAccounts(),
}
