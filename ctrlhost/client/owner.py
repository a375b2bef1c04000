"""The owner reference that makes one object the controller of another, so that the garbage collector follows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def with_owner(obj: dict[str, Any], owner: Mapping[str, Any]) -> dict[str, Any]:
    """Give a copy of `obj` that `owner` controls; ValueError if another one does or the owner can not own it.

    The namespace of a namespaced owner is taken over where the object names none.
    """
    reference = owner_reference(owner)
    metadata = dict(obj.get("metadata") or {})
    namespace = _metadata(owner).get("namespace")
    what = f"{obj.get('kind')} {metadata.get('name') or metadata.get('generateName')}"
    if namespace and metadata.setdefault("namespace", namespace) != namespace:
        raise ValueError(f"{what} in namespace {metadata['namespace']} can not be owned from namespace {namespace}")
    references = []
    for present in metadata.get("ownerReferences") or ():
        if present.get("uid") == reference["uid"]:
            continue
        if present.get("controller"):
            raise ValueError(f"{what} is controlled by {present.get('kind')} {present.get('name')} already")
        references.append(present)
    metadata["ownerReferences"] = [*references, reference]
    return {**obj, "metadata": metadata}


def owner_reference(owner: Mapping[str, Any]) -> dict[str, Any]:
    """Give the controller reference to `owner`, a dict or a cached object that has a uid."""
    metadata = _metadata(owner)
    reference = {
        "apiVersion": owner.get("apiVersion") or getattr(owner, "api_version", None),
        "kind": owner.get("kind") or getattr(owner, "kind", None),
        "name": metadata.get("name"),
        "uid": metadata.get("uid"),
    }
    missing = [name for name, value in reference.items() if not value]
    if missing:
        raise ValueError(f"an owner needs {', '.join(missing)}; give the object as the server sent it")
    return {**reference, "controller": True, "blockOwnerDeletion": True}


def _metadata(owner: Mapping[str, Any]) -> Mapping[str, Any]:
    found = owner.get("metadata")
    return found if isinstance(found, Mapping) else {}
