"""Objects that a label ties to their owner: those for which the garbage collector takes no owner reference.

That is a cluster-scoped object, or one in another namespace than its owner. One name, the mark, is the label with the
owner's uid, the annotation with the owner's namespace and name, which the changes of the object enqueue, and the
finalizer of the owner, with which the host deletes the objects before the owner goes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from ctrlhost.controller.caches import OWNERS, TRACKED
from ctrlhost.controller.sources import Owns
from ctrlhost.declarative.finalizers import NAME
from ctrlhost.errors import PluginLoadError
from ctrlhost.request import Request

if TYPE_CHECKING:
    from ctrlhost.cache import Object
    from ctrlhost.controller.attachment import AttachScope
    from ctrlhost.declarative.desired import Desired


@dataclass(frozen=True, slots=True)
class Tracked(Owns):
    """The kind of `Owns(…, track=True)` in a host: only the marked objects are watched and cached."""

    mark: str = ""

    def _mapping(self, scope: AttachScope) -> Any:
        def owner(obj: Object) -> list[Request]:
            named = owner_of(obj, self.mark)
            if named is not None:
                return [named]
            # Without the annotation, and without the object before: two changes may arrive as one. That is too rare for
            # an index of the owners by uid.
            uid = obj.labels.get(self.mark)
            owners = scope.primary.lister.list() if uid and scope.primary is not None else ()
            return [Request(owner.name, owner.namespace) for owner in owners if owner.uid == uid]

        return owner


def mark_of(plugin: str, controller: str) -> str:
    """Return the mark of a controller; PluginLoadError if no label and no finalizer can have the name."""
    mark = f"{TRACKED}{plugin}.{controller}"
    if not NAME.fullmatch(mark):
        problem = f"controller {controller}: `track=True` needs the label {mark}, and no label can have that name"
        hint = 'give it another `name="…"`: letters and digits, and with that of the plugin at most 62 characters'
        raise PluginLoadError(plugin, problem, hint=hint)
    return mark


def may_track(owns: Any) -> bool:
    """Return whether the option `owns` of a controller has a tracked kind; true if the settings decide."""
    return callable(owns) or any(isinstance(own, Owns) and own.track for own in owns or ())


def tracked_source(own: Owns, mark: str) -> Tracked:
    """Return the source of the marked objects of a kind."""
    options = {option.name: getattr(own, option.name) for option in fields(own) if option.init}
    options["label_selector"] = f"{own.label_selector},{mark}" if own.label_selector else mark
    options["indexes"] = {**own.indexes, OWNERS: f'metadata.labels["{mark}"]'}
    return Tracked(**options, mark=mark)


def marked(desired: Desired, mark: str, owner: Object) -> Desired:
    """Return the object with the label and the annotation of its owner."""

    def add(content: dict[str, Any]) -> dict[str, Any]:
        metadata = content["metadata"]
        labels = {**(metadata.get("labels") or {}), mark: owner.uid}
        annotations = {**(metadata.get("annotations") or {}), mark: f"{owner.namespace}/{owner.name}"}
        return {**content, "metadata": {**metadata, "labels": labels, "annotations": annotations}}

    initial = None if desired.initial is None else add(desired.initial)
    return replace(desired, content=add(desired.content), initial=initial)


def owner_of(obj: Object, mark: str) -> Request | None:
    """Return the owner that the annotation names; None for what is no name, since anybody can write it."""
    namespace, _, name = obj.annotations.get(mark, "").partition("/")
    return Request(name, namespace) if name and "/" not in name and f"{namespace}{name}".isprintable() else None
