"""Owner references that make one object the controller of another, for the garbage collector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def with_owner(obj: dict[str, Any], owner: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of `obj` that `owner` controls; ValueError if another one does or the owner cannot own it.

    An object without a namespace gets that of a namespaced owner. References to the owner are replaced, and so are
    those to a former owner of its kind and name that do not control the object.
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
        named, is_former = f"{present.get('kind')} {present.get('name')}", _identity(present) == _identity(reference)
        if present.get("controller") and is_former:
            raise ValueError(
                f"{what} has a former {named} as its controller, of uid {present.get('uid')} and not "
                f"{reference['uid']}: the garbage collector deletes it, and then it can be created again"
            )
        if present.get("controller"):
            raise ValueError(f"{what} already has the controller {named}")
        if not is_former:
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


def check_scope(obj: Mapping[str, Any], owner: Mapping[str, Any], *, namespaced: bool) -> None:
    """Raise ValueError if the object's kind is cluster-scoped and the owner is in a namespace."""
    namespace = _metadata(owner).get("namespace")
    if namespace and not namespaced:
        named = f"{obj.get('kind')} {_metadata(obj).get('name') or _metadata(obj).get('generateName')}"
        raise ValueError(
            f"{named} is cluster-scoped and cannot be owned from namespace {namespace}: the garbage collector would "
            "never delete it"
        )


def _identity(reference: Mapping[str, Any]) -> tuple[str, Any, Any]:
    """Return what stays the same when an owner is deleted and created again."""
    return str(reference.get("apiVersion")).rpartition("/")[0], reference.get("kind"), reference.get("name")


def _metadata(owner: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = owner.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}
