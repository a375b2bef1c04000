"""Add and remove finalizers without losing those of other writers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.errors import NotFound, UnknownKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ctrlhost.client import Client


def add(client: Client, obj: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """Add the finalizer; return the server's object, None if `obj` has it already or is being deleted.

    The write carries the resourceVersion of `obj`. Raises Conflict if the object has changed since `obj` was read, so
    that no finalizer of another writer is lost, and ValueError for a name without a domain.
    """
    if "/" not in name:
        raise ValueError(f"invalid finalizer {name!r}: the server requires a name like example.com/name")
    metadata = obj["metadata"]
    present = tuple(metadata.get("finalizers") or ())
    if name in present or metadata.get("deletionTimestamp"):
        return None
    return _write(client, obj, (*present, name))


def remove(client: Client, obj: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """Remove the finalizer; return the server's object, None if `obj` does not have it or the object is gone.

    Raises Conflict if the object has changed since `obj` was read.
    """
    present = tuple(obj["metadata"].get("finalizers") or ())
    if name not in present:
        return None
    try:
        return _write(client, obj, tuple(other for other in present if other != name))
    except UnknownKind:
        raise
    except NotFound:
        return None


def _write(client: Client, obj: Mapping[str, Any], finalizers: Sequence[str]) -> dict[str, Any]:
    metadata = obj["metadata"]
    patch = {"metadata": {"finalizers": list(finalizers), "resourceVersion": metadata["resourceVersion"]}}
    return client.patch(obj["apiVersion"], obj["kind"], metadata["name"], metadata.get("namespace"), patch)
