"""The claims of a StatefulSet's pods: created before the pod, and deleted as the retention policy says."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.controllers.controller import controller_of
from ctrlhost_sandbox.registry import meta

if TYPE_CHECKING:
    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.controllers.controller import Controller


class SetClaims:
    """The claims that the templates of one set ask for."""

    def __init__(self, controller: Controller, stateful_set: Object) -> None:
        """Act as `controller`."""
        self._controller, self._set = controller, stateful_set
        self._kind = controller.kind("", "PersistentVolumeClaim")
        policy = stateful_set["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
        self._scaled = policy.get("whenScaled") == "Delete"
        self._deleted = policy.get("whenDeleted") == "Delete"

    def create(self, pod_name: str) -> None:
        """Create a pod's missing claims; a Failure if one is still being deleted."""
        metadata, spec = self._set["metadata"], self._set["spec"]
        for template in spec.get("volumeClaimTemplates") or ():
            name = f"{template['metadata']['name']}-{pod_name}"
            stored = self._controller.read(self._kind, metadata["namespace"], name)
            if stored is None:
                claim = copy.deepcopy(template)
                claim |= {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
                labels = {**(claim["metadata"].get("labels") or {}), **(spec["selector"].get("matchLabels") or {})}
                claim["metadata"] |= {"name": name, "labels": labels, "ownerReferences": self._owners()}
                self._controller.create(self._kind, metadata["namespace"], claim)
                text = f"create Claim {name} Pod {pod_name} in StatefulSet {metadata['name']} success"
                self._controller.event(self._set, "SuccessfulCreate", text)
            elif "deletionTimestamp" in stored["metadata"] or self._is_stale(stored):
                raise status.conflict("persistentvolumeclaims", "", name, f"pvc {name} is being deleted")

    def _owners(self) -> list[dict[str, Any]]:
        return [meta.owner_reference(self._set)] if self._deleted else []

    def _is_stale(self, claim: Object) -> bool:
        """Return whether the claim belongs to a deleted pod."""
        return self._scaled and any(
            reference["kind"] == "Pod" for reference in claim["metadata"].get("ownerReferences") or ()
        )

    def update(self, pod: Object, *, condemned: bool) -> None:
        """Make the set, the pod or neither the owner of the pod's claims, as the retention policy says."""
        if condemned and self._scaled:
            wanted = [meta.owner_reference({"apiVersion": "v1", "kind": "Pod", **pod})]
        else:
            wanted = self._owners()
        own = {self._set["metadata"]["uid"], pod["metadata"]["uid"]}
        for template in self._set["spec"].get("volumeClaimTemplates") or ():
            name = f"{template['metadata']['name']}-{pod['metadata']['name']}"
            claim = self._controller.read(self._kind, pod["metadata"]["namespace"], name)
            if claim is None:
                continue
            references = claim["metadata"].get("ownerReferences") or []
            others = [reference for reference in references if reference["uid"] not in own]
            foreign = controller_of({"metadata": {"ownerReferences": others}}) is not None
            new = others if foreign else [*others, *wanted]
            if [reference["uid"] for reference in new] != [reference["uid"] for reference in references]:
                claim["metadata"]["ownerReferences"] = new
                self._controller.update(self._kind, claim)
