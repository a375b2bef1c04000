"""ObjectMeta: the fields that the server owns, and the normal form."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status, times
from ctrlhost_sandbox.apimachinery.names import metadata_causes
from ctrlhost_sandbox.apimachinery.status import Cause, Failure, bad_request
from ctrlhost_sandbox.schema.normalize import conform
from ctrlhost_sandbox.schema.shapes import builtin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.registry.operation import Operation
    from ctrlhost_sandbox.registry.registry import Kind

_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"
_MAX_PREFIX = 58
_LAST_VERSION = 2**64 - 1
#: The built-in groups that accept finalizers without a prefix.
_UNQUALIFIED = (
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "coordination.k8s.io",
)
# Names need to be different, not secret.
_random = random.Random()
SERVER_OWNED = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "resourceVersion",
)


def ensure_metadata(obj: Object) -> dict[str, Any]:
    """Return the object's metadata, created if missing; 400 if it is not an object."""
    metadata = obj.get("metadata")
    if metadata is None:
        metadata = obj["metadata"] = {}
    if type(metadata) is not dict:
        raise bad_request("metadata must be an object")
    return metadata


def normalize_metadata(obj: Object, kind: str, unknown: list[str]) -> None:
    """Normalize metadata: nothing empty, no nulls, no unknown members."""
    dropped: list[str] = []
    obj["metadata"] = conform(builtin("meta.ObjectMeta"), ensure_metadata(obj), kind, dropped)
    unknown += [f"metadata.{path}" for path in dropped]


def new_uid() -> str:
    """Return a random uid."""
    # Faster than `uuid4`, since every write and every response needs one: version 4, variant 1.
    text = f"{_random.getrandbits(128):032x}"
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{'89ab'[int(text[16], 16) & 3]}{text[17:20]}-{text[20:]}"


def generate(prefix: str) -> str:
    """Make a name from `generateName` and five random characters, which spell no words."""
    return prefix[:_MAX_PREFIX] + "".join(_random.choices(_SUFFIX, k=5))


def is_versioned(metadata: dict[str, Any]) -> bool:
    """Return whether metadata have a resourceVersion that stands for one, which is a number above 0."""
    version = metadata.get("resourceVersion")
    if type(version) is not str or not version.isascii() or not version.isdigit():
        return False
    # Zeros count for nothing, and thousands of digits are slow to read.
    digits = version.lstrip("0")
    return 0 < len(digits) <= len(str(_LAST_VERSION)) and int(digits) <= _LAST_VERSION


def initialize(metadata: dict[str, Any], *, generation: bool) -> None:
    """Reset what the server owns, for an object that is being created."""
    for name in SERVER_OWNED:
        metadata.pop(name, None)
    metadata["uid"] = new_uid()
    metadata["creationTimestamp"] = times.now()
    if generation:
        metadata["generation"] = 1


def place(operation: Operation, obj: Object) -> None:
    """Set the request's namespace; 400 if the object names another."""
    metadata = ensure_metadata(obj)
    if not operation.kind.namespaced:
        metadata.pop("namespace", None)
        return
    named = metadata.get("namespace")
    if type(named) not in (str, type(None)):
        # Decoding refuses it.
        return
    if named and named != operation.namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    metadata["namespace"] = operation.namespace


def check_name(operation: Operation, metadata: dict[str, Any]) -> None:
    """Raise 400 unless the metadata name the object of the URL."""
    name = metadata.get("name")
    if not name:
        raise unnamed(operation)
    if name != operation.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({operation.name})")


def unnamed(operation: Operation) -> Failure:
    """Return a 400 for an object of which nothing but the URL says the name."""
    text = f"the name of the object ({operation.name} based on URL) was undeterminable: name must be provided"
    return bad_request(text)


def keep_identity(metadata: dict[str, Any], old: dict[str, Any]) -> list[Cause]:
    """Carry over fields that an update cannot change; return causes for attempts to."""
    causes = []
    for name in ("uid", "creationTimestamp", "selfLink", "generation"):
        metadata.pop(name, None)
        if name in old:
            metadata[name] = old[name]
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        wanted = metadata.pop(name, None)
        if name in old:
            metadata[name] = old[name]
        if wanted is not None and wanted != old.get(name):
            causes.append(status.invalid_value(f"metadata.{name}", wanted, "field is immutable"))
    if "deletionTimestamp" in old:
        added = [name for name in metadata.get("finalizers") or () if name not in (old.get("finalizers") or ())]
        if added:
            listed = ", ".join(f'"{name}"' for name in added)
            text = "no new finalizers can be added if the object is being deleted, "
            text += f"found new finalizers []string{{{listed}}}"
            causes.append(status.forbidden_field("metadata.finalizers", text))
    return causes


def causes(kind: Kind, metadata: dict[str, Any], warnings: list[str]) -> Iterator[Cause]:
    """Check the metadata of a kind, except for the name."""
    return metadata_causes(metadata, warnings, qualified=kind.custom is None and kind.group not in _UNQUALIFIED)


def owner_reference(owner: Object) -> dict[str, Any]:
    """Return the controller reference to `owner`."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
