"""What a call is about: which object or collection of which resource."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ctrlhost.client.owner import with_owner

if TYPE_CHECKING:
    from ctrlhost.client.resources import Resource

WriteVerb = Literal["create", "replace", "apply", "patch", "delete"]


@dataclass(frozen=True, slots=True)
class Target:
    """An object, or the collection where `name` is None. A namespaced kind has a namespace here, others have none."""

    resource: Resource
    namespace: str
    name: str | None = None
    subresource: str | None = None

    def path(self, *, collection: bool = False) -> str:
        """Give the URL's path; of the collection that the object stands in, where asked for."""
        if collection:
            return self.resource.path(self.namespace)
        return self.resource.path(self.namespace, self.name, self.subresource)


@dataclass(frozen=True, slots=True)
class Write:
    """One successful write; `object` is the server's answer, for a deletion carried out at once its `Status`."""

    verb: WriteVerb
    target: Target
    object: dict[str, Any]


#: What is written to a subresource of another kind than its own, and that kind: the body alone does not say where to.
_WRITTEN_TO = {
    ("policy/v1", "Eviction", "eviction"): ("v1", "Pod"),
    ("v1", "Binding", "binding"): ("v1", "Pod"),
    ("authentication.k8s.io/v1", "TokenRequest", "token"): ("v1", "ServiceAccount"),
}


def parent_of(content: Mapping[str, Any], subresource: str | None) -> tuple[str, str]:
    """Give apiVersion and kind of the object that is written to, or to whose subresource; ValueError if missing."""
    api_version, kind = kind_of(content)
    return _WRITTEN_TO.get((api_version, kind, subresource or ""), (api_version, kind))


def content_of(obj: Mapping[str, Any], owner: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Give an object's content as a dict that can be sent; PartialObject for one of which only a part is cached."""
    to_dict = getattr(obj, "to_dict", None)
    content: dict[str, Any] = to_dict() if callable(to_dict) else dict(obj)
    return content if owner is None else with_owner(content, owner)


def kind_of(content: Mapping[str, Any]) -> tuple[str, str]:
    """Give apiVersion and kind; ValueError if one is missing."""
    api_version, kind = content.get("apiVersion"), content.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str):
        raise ValueError("an object needs apiVersion and kind")
    return api_version, kind


def target_of(
    content: Mapping[str, Any], resource: Resource, namespace: str, subresource: str | None, *, generated: bool = False
) -> Target:
    """Find the target in the object's metadata; `generated` allows `generateName` in place of the name."""
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
    """Give what a deletion carries: a `DeleteOptions`, None where nothing was asked for."""
    options: dict[str, Any] = {}
    if propagation is not None:
        options["propagationPolicy"] = propagation
    if preconditions:
        options["preconditions"] = dict(preconditions)
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    return {"apiVersion": "v1", "kind": "DeleteOptions", **options} if options else None
