"""Owners, names, namespaces and labels of the objects that a handler creates."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, MutableMapping
from importlib import import_module
from typing import Any

from ctrlhost_kopf.bodies import build_owner_reference
from ctrlhost_kopf.dicts import MODELS, FieldSpec, walk
from ctrlhost_kopf.execution import cause_var

_GUESSED: Any = object()
#: The fields of the official client's metadata.
_ATTRIBUTES = {"ownerReferences": "owner_references", "generateName": "generate_name"}


class _Metadata:
    """The metadata of an object, as a mapping or as an object of the official client; created where it is missing."""

    def __init__(self, obj: Any) -> None:
        self._module = next((cls.__module__ for cls in type(obj).__mro__ if cls.__module__.startswith(MODELS)), "")
        if isinstance(obj, MutableMapping):
            self._of = obj.setdefault("metadata", {})
        elif self._module:
            self._module = self._module.partition(".models.")[0]
            obj.metadata = self._of = obj.metadata or import_module(self._module).V1ObjectMeta()
        else:
            raise TypeError(f"{type(obj).__name__} is no object of Kubernetes that can be changed")

    def get(self, name: str) -> Any:
        return getattr(self._of, _ATTRIBUTES.get(name, name)) if self._module else self._of.get(name)

    def set(self, name: str, value: Any) -> Any:
        if self._module:
            setattr(self._of, _ATTRIBUTES.get(name, name), value)
        elif value is None:
            self._of.pop(name, None)
        else:
            self._of[name] = value
        # The official client may keep a copy.
        return self.get(name)

    def reference(self, reference: Mapping[str, Any]) -> Any:
        if not self._module:
            return dict(reference)
        fields = {"apiVersion": "api_version", "blockOwnerDeletion": "block_owner_deletion"}
        return import_module(self._module).V1OwnerReference(**{fields.get(k, k): v for k, v in reference.items()})


def append_owner_reference(
    objs: Any,
    owner: Mapping[str, Any] | None = None,
    *,
    controller: bool | None = True,
    block_owner_deletion: bool | None = True,
) -> None:
    """Make objects owned, by default by the object of the handler; LookupError outside of one."""
    reference = build_owner_reference(_owner(owner), controller=controller, block_owner_deletion=block_owner_deletion)
    for obj in walk(objs):
        metadata = _Metadata(obj)
        references = metadata.get("ownerReferences") or metadata.set("ownerReferences", [])
        if reference["uid"] not in map(_uid, references):
            references.append(metadata.reference(reference))


def remove_owner_reference(objs: Any, owner: Mapping[str, Any] | None = None) -> None:
    """Make objects not owned, by default by the object of the handler; LookupError outside of one."""
    uid = build_owner_reference(_owner(owner))["uid"]
    for obj in walk(objs):
        metadata = _Metadata(obj)
        references = metadata.get("ownerReferences") or []
        metadata.set("ownerReferences", [reference for reference in references if _uid(reference) != uid])


def label(
    objs: Any,
    labels: Mapping[str, str | None] = _GUESSED,
    *,
    forced: bool = False,
    nested: str | Iterable[FieldSpec] | None = None,
    force: bool | None = None,
) -> None:
    """Add labels to objects and to what is at the paths `nested` in them, by default those of the handler's object."""
    if force is not None:
        warnings.warn("force= is deprecated, use forced=", DeprecationWarning, stacklevel=2)
    forced = forced if force is None else force
    if labels is _GUESSED:
        labels = (_owner(None).get("metadata") or {}).get("labels") or {}
    for obj in walk(objs, [nested] if isinstance(nested, str) else nested or ()):
        metadata = _Metadata(obj)
        known = metadata.get("labels")
        known = metadata.set("labels", {}) if known is None else known
        for key, value in labels.items():
            if forced or key not in known:
                known[key] = value


def harmonize_naming(objs: Any, name: str | None = _GUESSED, *, forced: bool = False, strict: bool = False) -> None:
    """Name objects after one, by default the handler's: with a random suffix, or with `strict` exactly so."""
    name = _owner(None)["metadata"].get("name") if name is _GUESSED else name
    if name is None:
        raise LookupError("the objects need a name, which the owner does not have")
    for obj in walk(objs):
        metadata = _Metadata(obj)
        if forced or not (metadata.get("name") or metadata.get("generateName")):
            metadata.set("name", name if strict else None)
            metadata.set("generateName", None if strict else f"{name}-")


def adjust_namespace(objs: Any, namespace: str | None = _GUESSED, *, forced: bool = False) -> None:
    """Put objects without a namespace into one, by default that of the handler's object."""
    namespace = _owner(None)["metadata"].get("namespace") if namespace is _GUESSED else namespace
    for obj in walk(objs):
        metadata = _Metadata(obj)
        if forced or metadata.get("namespace") is None:
            metadata.set("namespace", namespace)


def adopt(
    objs: Any,
    owner: Mapping[str, Any] | None = None,
    *,
    forced: bool = False,
    strict: bool = False,
    nested: str | Iterable[FieldSpec] | None = None,
) -> None:
    """Make objects owned, and give them name, namespace and labels of the owner, where they have none."""
    owner = _owner(owner)
    metadata = owner.get("metadata") or {}
    append_owner_reference(objs, owner)
    harmonize_naming(objs, metadata.get("name"), forced=forced, strict=strict)
    adjust_namespace(objs, metadata.get("namespace"), forced=forced)
    label(objs, metadata.get("labels") or {}, forced=forced, nested=nested)


def _uid(reference: Any) -> Any:
    return reference.get("uid") if isinstance(reference, Mapping) else reference.uid


def _owner(owner: Mapping[str, Any] | None) -> Mapping[str, Any]:
    cause = cause_var.get(None)
    if owner is None and (cause is None or cause.body is None):
        raise LookupError("outside of a handler, the owner must be named")
    return cause.body if owner is None else owner  # type: ignore[union-attr] # checked above
