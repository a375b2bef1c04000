"""Owner references that make one object the controller of another, for the garbage collector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def with_owner(obj: dict[str, Any], owner: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of `obj` that `owner` controls; ValueError if another one does or the owner cannot own it.

    An object without a namespace gets that of a namespaced owner.
    """
    reference = owner_reference(owner)
    metadata = dict(obj.get("metadata") or {})
    namespace = _metadata(owner).get("namespace")
    what = f"{obj.get('kind')} {metadata.get('name') or metadata.get('generateName')}"
    if namespace and metadata.setdefault("namespace", namespace) != namespace:
        raise ValueError(f"{what} in namespace {metadata['namespace']} cannot be owned from namespace {namespace}")
    references = []
    for present in metadata.get("ownerReferences") or ():
        if present.get("uid") == reference["uid"]:
            continue
        if present.get("controller"):
            raise ValueError(f"{what} already has the controller {present.get('kind')} {present.get('name')}")
        references.append(present)
    metadata["ownerReferences"] = [*references, reference]
    return {**obj, "metadata": metadata}


def owner_reference(owner: Mapping[str, Any]) -> dict[str, Any]:
    """Return the controller reference to `owner`, a dict or a cached object with a uid."""
    metadata = _metadata(owner)
    reference = {
        "apiVersion": owner.get("apiVersion") or getattr(owner, "api_version", None),
        "kind": owner.get("kind") or getattr(owner, "kind", None),
        "name": metadata.get("name"),
        "uid": metadata.get("uid"),
    }
    missing = [name for name, value in reference.items() if not value]
    if missing:
        raise ValueError(f"an owner needs {', '.join(missing)}; pass the object as the server sent it")
    return {**reference, "controller": True, "blockOwnerDeletion": True}


def _metadata(owner: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = owner.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}
