"""The managers of fields: the entries of metadata.managedFields."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import times
from ctrlhost_sandbox.apimachinery.status import bad_request
from ctrlhost_sandbox.schema import fieldset
from ctrlhost_sandbox.schema.shapes import ANY, Shape, of_kind

if TYPE_CHECKING:
    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.registry.operation import Operation
    from ctrlhost_sandbox.registry.registry import Kind
    from ctrlhost_sandbox.schema.fieldset import FieldSet

APPLY, UPDATE = "Apply", "Update"
MAX_UPDATE_ENTRIES = 10
ANCIENT = "ancient-changes"
_SERVER_METADATA = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "generation",
    "resourceVersion",
    "managedFields",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
#: Appliers come first, then the order is by time.
_order = attrgetter("operation", "time", "name", "api_version", "subresource")


@dataclass(slots=True)
class Manager:
    """One entry."""

    name: str
    operation: str
    api_version: str
    subresource: str
    time: str
    fields: FieldSet

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """The key of the entry."""
        return (self.name, self.operation, self.api_version, self.subresource)

    def as_dict(self) -> dict[str, Any]:
        """Return the entry in wire form."""
        entry: dict[str, Any] = {
            "manager": self.name,
            "operation": self.operation,
            "apiVersion": self.api_version,
            "time": self.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": fieldset.encode(self.fields),
        }
        if self.subresource:
            entry["subresource"] = self.subresource
        return entry


def shape_of(kind: Kind) -> Shape:
    """Return the shape for tracking a kind's fields."""
    if kind.custom is not None:
        return kind.custom.shape
    return of_kind(kind.group, kind.version, kind.kind) or ANY


def convertible(kind: Kind, managers: list[Manager]) -> list[Manager]:
    """Drop the entries of Events of the other group, which a real server cannot convert."""
    return [manager for manager in managers if kind.table != "events" or manager.api_version == kind.api_version]


def read(entries: Any) -> list[Manager]:
    """Decode the entries; 400 for invalid ones."""
    managers = []
    for entry in entries or ():
        if type(entry) is not dict or entry.get("operation") not in (APPLY, UPDATE):
            raise bad_request("metadata.managedFields: an entry has no valid operation")
        if entry.get("fieldsType", "FieldsV1") != "FieldsV1":
            raise bad_request("metadata.managedFields: fieldsType must be FieldsV1")
        managers.append(
            Manager(
                str(entry.get("manager", "")),
                entry["operation"],
                str(entry.get("apiVersion", "")),
                str(entry.get("subresource") or ""),
                str(entry.get("time") or ""),
                fieldset.decode(entry.get("fieldsV1")),
            )
        )
    return managers


def write(obj: Object, managers: list[Manager]) -> None:
    """Store the entries that still have fields."""
    obj["metadata"].pop("managedFields", None)
    if entries := [manager.as_dict() for manager in sorted(managers, key=_order) if manager.fields]:
        obj["metadata"]["managedFields"] = entries


def trackable(kind: Kind, obj: Object, subresource: str = "") -> Object:
    """Return the part of an object whose fields are tracked."""
    result = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata")}
    metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if key not in _SERVER_METADATA}
    if metadata:
        result["metadata"] = metadata
    if subresource == "status":
        kept = ("status",) if kind.custom else ("status", "metadata")
        result = {key: value for key, value in result.items() if key in kept}
    elif kind.has_status:
        result.pop("status", None)
    return result


def track_create(operation: Operation, obj: Object) -> None:
    """Record that the creator manages every field of a new object."""
    kind, verb, fields = operation.kind, APPLY, operation.applied
    if fields is None:
        verb, (fields, _) = UPDATE, fieldset.differences(shape_of(kind), {}, trackable(kind, obj))
        fields -= operation.untracked
    write(obj, [Manager(operation.manager or "unknown", verb, kind.api_version, "", times.now(), fields)])


def track_update(operation: Operation, obj: Object, old: Object, sent: Any) -> None:
    """Record that the writer manages the changed fields; `sent` is the list of entries it sent, if any."""
    if sent is not None and not any(sent):
        obj["metadata"].pop("managedFields", None)
        return
    stored = old["metadata"].get("managedFields")
    replaced = sent is not None and sent != stored
    kind = operation.kind
    managers = convertible(kind, read(sent if replaced else stored))
    if stored is None and not replaced:
        # After a reset, tracking starts again with the next apply.
        obj["metadata"].pop("managedFields", None)
        return
    subresource = operation.subresource if operation.subresource in ("approval", "status", "scale") else ""
    changed, removed = fieldset.differences(
        shape_of(kind), trackable(kind, old, subresource), trackable(kind, obj, subresource)
    )
    changed -= operation.untracked
    if not changed and not removed:
        write(obj, managers)
        return
    entry = Manager(operation.manager or "unknown", UPDATE, kind.api_version, subresource, times.now(), set())
    for manager in managers:
        if manager.identity == entry.identity:
            entry.fields = manager.fields
        else:
            manager.fields = manager.fields - changed
        manager.fields = manager.fields - removed
    entry.fields = (entry.fields | changed) - removed
    managers = [manager for manager in managers if manager.identity != entry.identity]
    write(obj, _bounded([*managers, entry]))


def _bounded(managers: list[Manager]) -> list[Manager]:
    """Limit the number of Update entries by merging the oldest."""
    updates = sorted((item for item in managers if item.operation == UPDATE), key=lambda item: item.time)
    surplus = len(updates) - MAX_UPDATE_ENTRIES
    if surplus <= 0:
        return managers
    joined = updates[: surplus + 1]
    ancient = Manager(ANCIENT, UPDATE, joined[0].api_version, "", joined[-1].time, set())
    for item in joined:
        ancient.fields |= item.fields
    gone = {id(item) for item in joined}
    return [ancient, *(item for item in managers if id(item) not in gone)]


def unchanged(obj: Object, old: Object) -> bool:
    """Return whether a write changed nothing but times in managedFields."""
    if obj.keys() != old.keys() or any(obj[key] != old[key] for key in obj if key != "metadata"):
        return False
    left, right = dict(obj["metadata"]), dict(old["metadata"])
    return _timeless(left.pop("managedFields", None)) == _timeless(right.pop("managedFields", None)) and left == right


def _timeless(entries: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    timeless = [{key: value for key, value in entry.items() if key != "time"} for entry in entries or ()]
    return sorted(timeless, key=lambda entry: (entry["manager"], entry["operation"], entry.get("subresource", "")))
