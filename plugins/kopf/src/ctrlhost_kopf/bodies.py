"""Objects as handlers see them: the body with its parts, references to it, and what is kept beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypedDict

from ctrlhost_kopf.dicts import View

Labels: TypeAlias = Mapping[str, str]
Annotations: TypeAlias = Mapping[str, str]
RawEventType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED"] | None
RawBody: TypeAlias = dict[str, Any]
BodyEssence: TypeAlias = dict[str, Any]
HandlerId: TypeAlias = str


class RawEvent(TypedDict):
    """A change of an object; its type is None for an object that was there before the operator."""

    type: RawEventType
    object: RawBody


class ObjectReference(TypedDict, total=False):
    """Names an object."""

    apiVersion: str
    kind: str
    namespace: str | None
    name: str
    uid: str


class OwnerReference(TypedDict, total=False):
    """Names the owner of an object."""

    controller: bool
    blockOwnerDeletion: bool
    apiVersion: str
    kind: str
    name: str
    uid: str


class Meta(View):
    """The metadata of an object."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        super().__init__(body, "metadata")
        self.labels: Labels = View(self, "labels")
        self.annotations: Annotations = View(self, "annotations")

    @property
    def uid(self) -> Any:
        """The uid."""
        return self.get("uid")

    @property
    def name(self) -> Any:
        """The name."""
        return self.get("name")

    @property
    def namespace(self) -> Any:
        """The namespace; None for an object without one."""
        return self.get("namespace")

    @property
    def creation_timestamp(self) -> Any:
        """When the object was created, as text."""
        return self.get("creationTimestamp")

    @property
    def deletion_timestamp(self) -> Any:
        """When the deletion began, as text; None before."""
        return self.get("deletionTimestamp")


class Spec(View):
    """The spec of an object."""


class Status(View):
    """The status of an object."""


class Body(View):
    """An object; `replace_with` shows another state of it in all its parts."""

    def __init__(self, source: Mapping[str, Any]) -> None:
        super().__init__(source)
        self.metadata = self.meta = Meta(self)
        self.spec, self.status = Spec(self, "spec"), Status(self, "status")

    def replace_with(self, source: Mapping[str, Any]) -> None:
        """Look at a newer state of the object."""
        self._source = source


class Memo(dict[Any, Any]):
    """Whatever handlers keep about an object while the operator runs, as items or attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(str(error)) from error

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __delattr__(self, name: str) -> None:
        try:
            del self[name]
        except KeyError as error:
            raise AttributeError(str(error)) from error


@dataclass(frozen=True)
class Resource:
    """A kind in one version; equal to any other with these names."""

    group: str
    version: str
    plural: str
    kind: str = ""
    singular: str = ""
    shortcuts: frozenset[str] = frozenset()
    categories: frozenset[str] = frozenset()
    subresources: frozenset[str] = frozenset()
    namespaced: bool = True
    preferred: bool = True
    verbs: frozenset[str] = frozenset()

    def __hash__(self) -> int:
        return hash((self.group, self.version, self.plural))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Resource) and tuple(self) == tuple(other)

    def __repr__(self) -> str:
        return f"{self.plural}.{self.version}.{self.group}".strip(".")

    def __iter__(self) -> Any:
        return iter((self.group, self.version, self.plural))

    @property
    def api_version(self) -> str:
        """The group and version, as in objects."""
        return f"{self.group}/{self.version}".strip("/")


def build_object_reference(body: Mapping[str, Any]) -> ObjectReference:
    """Return the reference of events about an object."""
    meta = body.get("metadata") or {}
    parts = {name: body.get(name) for name in ("apiVersion", "kind")}
    parts |= {name: meta.get(name) for name in ("name", "uid", "namespace")}
    return {name: value for name, value in parts.items() if value}  # type: ignore[return-value]


def build_owner_reference(
    body: Mapping[str, Any], *, controller: bool | None = True, block_owner_deletion: bool | None = True
) -> OwnerReference:
    """Return the reference of what an object owns; None leaves a flag out."""
    meta = body.get("metadata") or {}
    parts = {"controller": controller, "blockOwnerDeletion": block_owner_deletion}
    parts |= {name: body.get(name) for name in ("apiVersion", "kind")} | {n: meta.get(n) for n in ("name", "uid")}
    return {name: value for name, value in parts.items() if value is not None}  # type: ignore[return-value]
