"""Objects that finalizers hold: who has set each, and since when an object waits for its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlhost import finalizers
from ctrlhost.errors import Conflict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ctrlhost.client import Client
    from ctrlhost.models.kinds import Kind

#: The conflicts with other writers that a release repeats after.
_TRIES = 5


@dataclass(frozen=True, slots=True)
class HeldObject:
    """A finalizer of an object."""

    finalizer: str
    api_version: str
    kind: str
    namespace: str
    name: str
    #: The field manager that has set it; empty if it is not known.
    holder: str
    #: When the deletion was asked for, as RFC 3339; empty for an object that is not being deleted.
    deleted_since: str


def held_objects(client: Client, kind: Kind, namespace: str | None) -> Iterator[HeldObject]:
    """Return the finalizers of all objects of a kind; CtrlhostError if they cannot be listed."""
    for obj in client.list(kind.api_version, kind.kind, namespace):
        metadata = obj["metadata"]
        for name in metadata.get("finalizers") or ():
            yield HeldObject(
                name,
                kind.api_version,
                kind.kind,
                metadata.get("namespace", ""),
                metadata["name"],
                _holder(metadata, name),
                metadata.get("deletionTimestamp", ""),
            )


def release(client: Client, held: HeldObject) -> bool:
    """Take the finalizer off the object; return whether it had it. Conflict if others write it all the time."""
    for left in reversed(range(_TRIES)):
        obj = client.find(held.api_version, held.kind, held.name, held.namespace or None)
        if obj is None:
            return False
        try:
            return finalizers.remove(client, obj, held.finalizer) is not None
        except Conflict:
            if not left:
                raise
    return False


def _holder(metadata: Mapping[str, Any], name: str) -> str:
    for entry in metadata.get("managedFields") or ():
        fields = (entry.get("fieldsV1") or {}).get("f:metadata", {}).get("f:finalizers", {})
        if f'v:"{name}"' in fields:
            return str(entry.get("manager", ""))
    return ""
