"""The target of a call: an object or a collection of a resource."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ctrlhost.client.owner import with_owner

if TYPE_CHECKING:
    from ctrlhost.client.resources import Resource

WriteVerb = Literal["create", "replace", "apply", "patch", "delete"]


class Target(msgspec.Struct, frozen=True):
    """An object, or the collection if `name` is None. `namespace` is empty for cluster-scoped kinds only."""

    resource: Resource
    namespace: str
    name: str | None = None
    subresource: str | None = None

    def path(self, *, collection: bool = False) -> str:
        """Return the path of the URL, or with `collection` the path of the object's collection."""
        if collection:
            return self.resource.path(self.namespace)
        return self.resource.path(self.namespace, self.name, self.subresource)


class Write(msgspec.Struct, frozen=True):
    """One successful write; `object` is the server's response, the `Status` for an immediate deletion."""

    verb: WriteVerb
    target: Target
    object: dict[str, Any]
    field_manager: str


#: Kinds that are written to a subresource of another kind, and that kind: the body does not contain it.
_PARENTS = {
    ("policy/v1", "Eviction", "eviction"): ("v1", "Pod"),
    ("v1", "Binding", "binding"): ("v1", "Pod"),
    ("authentication.k8s.io/v1", "TokenRequest", "token"): ("v1", "ServiceAccount"),
}


def parent_of(content: Mapping[str, Any], subresource: str | None) -> tuple[str, str]:
    """Return apiVersion and kind of the object, or of the owner of the subresource; ValueError if one is missing."""
    api_version, kind = content.get("apiVersion"), content.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str):
        raise ValueError("an object needs apiVersion and kind")
    return _PARENTS.get((api_version, kind, subresource or ""), (api_version, kind))


def content_of(obj: Mapping[str, Any], owner: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return an object's content as a dict to send; PartialObject if only a part of it is cached."""
    to_dict = getattr(obj, "to_dict", None)
    content: dict[str, Any] = to_dict() if callable(to_dict) else dict(obj)
    return content if owner is None else with_owner(content, owner)


def target_of(
    content: Mapping[str, Any], resource: Resource, namespace: str, subresource: str | None, *, generated: bool = False
) -> Target:
    """Return the target that the metadata names; `generated` allows `generateName` in place of the name."""
    metadata = content.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    name = metadata.get("name")
    if not isinstance(name, str) and not (generated and metadata.get("generateName")):
        raise ValueError(f"{resource.kind} needs metadata.name")
    where = (metadata.get("namespace") or namespace) if resource.namespaced else ""
    return Target(resource, where, name, subresource)


def delete_options(
    propagation: str | None, preconditions: Mapping[str, str] | None, grace: int | None
) -> dict[str, Any] | None:
    """Return the `DeleteOptions` of a deletion, None without options."""
    conditions = dict(preconditions) if preconditions else None
    options = {"propagationPolicy": propagation, "preconditions": conditions, "gracePeriodSeconds": grace}
    chosen = {name: value for name, value in options.items() if value is not None}
    return {"apiVersion": "v1", "kind": "DeleteOptions", **chosen} if chosen else None
