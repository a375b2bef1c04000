"""The history of a pod template, kept as ControllerRevisions by StatefulSets and DaemonSets."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost_sandbox.controllers.controller import controller_of
from ctrlhost_sandbox.registry import meta

if TYPE_CHECKING:
    from collections.abc import Container

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.controllers.controller import Controller

LABEL = "controller-revision-hash"


class History:
    """The revisions of one owner, read for each reconcile."""

    def __init__(self, controller: Controller, owner: Object) -> None:
        """Read the revisions, and create one of the current template if missing."""
        self._controller, self._owner = controller, owner
        self._kind = controller.kind("apps", "ControllerRevision")
        uid, namespace = owner["metadata"]["uid"], owner["metadata"]["namespace"]
        own = [stored for stored in controller.listed(self._kind, namespace) if controller_of(stored) == uid]
        self._all = {stored["metadata"]["name"]: stored for stored in own}
        self.newest = self._present()
        """The revision of the owner's current template, with the highest number."""

    def named(self, name: str | None) -> Object | None:
        """Return a revision by name."""
        return self._all.get(name or "")

    def template(self, revision: Object) -> Any:
        """Return the pod template of a revision."""
        return {key: value for key, value in revision["data"]["spec"]["template"].items() if key != "$patch"}

    def forget(self, live: Container[str]) -> None:
        """Delete the oldest revisions beyond the limit; `live` ones stay."""
        idle = sorted((item for name, item in self._all.items() if name not in live), key=_number)
        for revision in idle[: max(len(idle) - self._owner["spec"].get("revisionHistoryLimit", 10), 0)]:
            self._controller.delete(self._kind, revision)

    def _present(self) -> Object:
        owner = self._owner
        template = owner["spec"]["template"]
        name = f"{owner['metadata']['name']}-{template_hash(template)}"
        highest = max(map(_number, self._all.values()), default=0)
        known = self._all.get(name)
        if known is None:
            labels = (template.get("metadata") or {}).get("labels") or {}
            known = self._controller.create(
                self._kind,
                owner["metadata"]["namespace"],
                {
                    "apiVersion": "apps/v1",
                    "kind": "ControllerRevision",
                    "metadata": {
                        "name": name,
                        "labels": {**labels, "controller.kubernetes.io/hash": hash_of(name)},
                        "ownerReferences": [meta.owner_reference(owner)],
                    },
                    "data": {"spec": {"template": {**template, "$patch": "replace"}}},
                    "revision": highest + 1,
                },
            )
        elif _number(known) < highest:
            # The template has returned to an earlier revision.
            known = self._controller.update(self._kind, {**known, "revision": highest + 1})
        self._all[name] = known
        return known


def template_hash(template: Any) -> str:
    """Return a hash of a pod template, ten characters long."""
    data = msgspec.json.encode(template, order="sorted")
    return hashlib.sha256(data).hexdigest()[:10].translate(str.maketrans("0123aeiou", "bcdfghjkl"))


def hash_of(name: str) -> str:
    """Return the hash in a revision's name."""
    return name.rpartition("-")[2]


def _number(revision: Object) -> int:
    number: int = revision.get("revision", 0)
    return number
