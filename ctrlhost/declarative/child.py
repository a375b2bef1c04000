"""An object that `ctx.ensure` is given: as it is desired, with its place and its owner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost.client.owner import with_owner
from ctrlhost.declarative.comparison import Leaf, path_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost.cache import Object
    from ctrlhost.client.kind_schemas import Schema
    from ctrlhost.controller.context import Context
    from ctrlhost.declarative.desired import Desired

#: The most fields that an event names.
_NAMED = 4
#: The annotation of an object that has its unmanaged values, and no more.
_BEGUN = "begun"


@dataclass(frozen=True, slots=True)
class Child:
    """A desired object with its place and its owner."""

    desired: Desired
    #: None for an object without an owner.
    owner: Mapping[str, Any] | None
    uid: str
    #: Empty for a cluster-scoped kind.
    namespace: str
    reconciled: Object | None
    #: The annotation with the digest of what was applied last.
    annotation: str
    #: The label with the uid of the reconciled object, which then is no owner; empty for none.
    mark: str = ""

    def __str__(self) -> str:
        """Return kind, namespace and name, as in messages."""
        name = f"{self.namespace}/{self.desired.name}" if self.namespace else self.desired.name
        return f"{self.desired.kind} {name}"

    @property
    def owners(self) -> tuple[str, ...]:
        """The uids of the controllers under which the object may be written."""
        if self.owner is not None:
            return (self.uid,)
        # An object that is no longer to have an owner has the reference until the next apply.
        return (self.reconciled.uid,) if self.reconciled is not None else ()

    def is_applied(self, live: Object) -> bool:
        """Return whether the live object was applied last as it is desired now."""
        return bool(live.annotations.get(self.annotation) == self.desired.digest)

    def differing(self, live: Object, schema: Schema | None) -> list[Leaf]:
        """Return what differs in the live object, its annotation and its controller included."""
        leaves = self.desired.differing(live, schema)
        if not self.is_applied(live):
            applied = live.annotations.get(self.annotation)
            leaves.append(Leaf(("metadata", "annotations", self.annotation), self.desired.digest, applied))
        owner = "" if live.controller is None else live.controller.uid
        if owner != self.uid:
            leaves.append(Leaf(("metadata", "ownerReferences"), self.uid, owner))
        return leaves

    def is_orphan(self, live: Object) -> bool:
        """Return whether nothing controls the live object, which is to have an owner."""
        if self.mark:
            return live.controller is None and self.annotation not in live.annotations
        return self.owner is not None and live.controller is None

    def tracked_by_other(self, live: Object) -> str:
        """Return the uid of another owner that tracks the live object; empty for none."""
        if not self.mark or self.reconciled is None:
            return ""
        uid = live.labels.get(self.mark, "")
        return uid if uid != self.reconciled.uid else ""

    def changed(self, leaves: list[Leaf]) -> str:
        """Return the first fields that differed, as in a message; never their values, which may be secret."""
        own = [("metadata", "annotations", self.annotation), ("metadata", "ownerReferences")]
        own += [("metadata", "annotations", self.mark), ("metadata", "labels", self.mark)]
        paths = [path_text(leaf.path) for leaf in leaves if leaf.path not in own]
        more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
        return f": {', '.join(paths[:_NAMED])}{more}" if paths else ""

    def left(self, leaves: list[Leaf]) -> tuple[str, bytes]:
        """Return what an apply that leaves these differences is remembered by."""
        return self.desired.digest, msgspec.json.encode(leaves)

    def content(self, *, initial: bool = False) -> dict[str, Any]:
        """Return what is sent: the object with its namespace, the annotation and the owner.

        With `initial`, all values that a new one gets.
        """
        sent = self.desired.initial if initial and self.desired.initial is not None else self.desired.content
        metadata = dict(sent["metadata"])
        if self.namespace:
            metadata["namespace"] = self.namespace
        mark = _BEGUN if initial else self.desired.digest
        metadata["annotations"] = {**(metadata.get("annotations") or {}), self.annotation: mark}
        content = {**sent, "metadata": metadata}
        return content if self.owner is None else with_owner(content, self.owner)

    def record(self, context: Context[Any, Any], reason: str, note: str, applied: Object) -> None:
        """Log a change, and record it as an event about the reconciled object."""
        context.log.info("%s", note)
        if self.reconciled is not None:
            context.events.normal(self.reconciled, reason, note, action="Apply", related=applied)
