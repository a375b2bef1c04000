"""Claims and volumes: bound to each other, provisioned without any storage, reclaimed, and kept while they are used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery.selectors import match_selector
from ctrlhost_sandbox.controllers import claims
from ctrlhost_sandbox.controllers.controller import Controller, Key
from ctrlhost_sandbox.kinds.persistent_volumes import PROTECTION
from ctrlhost_sandbox.schema.normalize import amount

if TYPE_CHECKING:
    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.registry.registry import Kind
    from ctrlhost_sandbox.storage.store import Event, Table

CLAIMS = "persistentvolumeclaims"
VOLUMES = "persistentvolumes"
CLASSES = "storage.k8s.io/storageclasses"
ATTRIBUTES = "storage.k8s.io/volumeattributesclasses"
_PROVISIONED = "pv.kubernetes.io/provisioned-by"
_BOUND = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
_PROVISIONERS = ("volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner")
_NONE = "kubernetes.io/no-provisioner"


class VolumeController(Controller):
    """Keys are a table, a namespace and a name."""

    name = "persistentvolume"

    def touched(self, table: Table, event: Event) -> list[Key]:
        """Return a changed claim with its volume, a changed volume with its claims, and the claims of a pod."""
        latest = event.latest
        if table.name == "pods":
            if not any(word in latest.raw for word in (b'"persistentVolumeClaim"', b'"ephemeral"')):
                return []
            return [(CLAIMS, latest.namespace, name) for name in claims_of(latest.decode())]
        if table.name not in (CLAIMS, VOLUMES, CLASSES, ATTRIBUTES):
            return []
        keys: list[Key] = [] if table.name == CLASSES else [(table.name, *latest.key)]
        spec = latest.decode().get("spec") or {}
        named = ((VOLUMES, spec.get("volumeName")), (ATTRIBUTES, spec.get("volumeAttributesClassName")))
        keys += [(kind, "", name) for kind, name in named if name]
        if table.name == CLAIMS:
            return keys
        waiting = [entry for entry in self.context.store.table(CLAIMS).list() if not _is_bound(entry.decode())]
        return [*keys, *((CLAIMS, *entry.key) for entry in waiting)]

    def reconcile(self, key: Key) -> None:
        """Bind a claim or reclaim a volume, and release what is being deleted and unused."""
        kind = self.context.registry.tables()[key[0]]
        obj = self.read(kind, *key[1:])
        if obj is None:
            return
        if claims.is_going(obj):
            self._release(kind, obj)
        elif key[0] == VOLUMES:
            self._reclaim(obj)
        elif key[0] == CLAIMS:
            self._bind(obj)

    def _release(self, kind: Kind, obj: Object) -> None:
        """Remove the finalizer of an object that nothing uses."""
        metadata, finalizer = obj["metadata"], PROTECTION[kind.kind]
        if finalizer in (metadata.get("finalizers") or ()) and not self._is_used(kind, obj):
            metadata["finalizers"].remove(finalizer)
            self.update(kind, obj)

    def _is_used(self, kind: Kind, used: Object) -> bool:
        """Return whether a pod uses a claim, a claim a volume, or either a class of attributes."""
        if kind.table == CLAIMS:
            return any(not claims.has_ended(pod) for pod in self._find_pods(used))
        if kind.table == VOLUMES:
            return used["status"].get("phase") == "Bound" and self._find_claim(used) is not None
        objects = [
            entry
            for name in ("PersistentVolumeClaim", "PersistentVolume")
            for entry in self.listed(self.kind("", name))
        ]
        return any(obj["spec"].get("volumeAttributesClassName") == used["metadata"]["name"] for obj in objects)

    def _find_pods(self, claim: Object) -> list[Object]:
        metadata = claim["metadata"]
        pods = self.listed(self.kind("", "Pod"), metadata["namespace"])
        return [pod for pod in pods if metadata["name"] in claims_of(pod)]

    # volumes

    def _find_claim(self, volume: Object) -> Object | None:
        """Return the claim that a volume belongs to."""
        reference = volume["spec"].get("claimRef") or {}
        kind = self.kind("", "PersistentVolumeClaim")
        claim = self.read(kind, reference.get("namespace", ""), reference.get("name", ""))
        same = claim is not None and reference.get("uid") in (None, claim["metadata"]["uid"])
        return claim if same else None

    def _reclaim(self, volume: Object) -> None:
        """Set a volume's phase; delete it after its claim if the policy says so."""
        spec, kind = volume["spec"], self.kind("", "PersistentVolume")
        if not (spec.get("claimRef") or {}).get("uid"):
            self._set_phase(volume, "Available")
        elif self._find_claim(volume) is not None:
            self._set_phase(volume, "Bound")
        else:
            self._set_phase(volume, "Released")
            if spec.get("persistentVolumeReclaimPolicy") == "Delete":
                self.delete(kind, volume)

    def _set_phase(self, volume: Object, phase: str) -> None:
        volume["status"] = {**(volume.get("status") or {}), "phase": phase}
        volume.update(self.update(self.kind("", "PersistentVolume"), volume, "status"))

    # claims

    def _bind(self, claim: Object) -> None:
        if _is_bound(claim):
            return
        kind, chosen = self.kind("", "PersistentVolume"), claim["spec"].get("volumeName")
        volumes = [candidate for candidate in self.listed(kind) if not claims.is_going(candidate)]
        fitting = [
            candidate
            for candidate in volumes
            if _fits(candidate, claim, by_name=chosen == candidate["metadata"]["name"])
        ]
        if chosen:
            fitting = [candidate for candidate in fitting if candidate["metadata"]["name"] == chosen]
        # A volume that was reserved for the claim comes first, then the smallest.
        fitting.sort(
            key=lambda candidate: (
                "claimRef" not in candidate["spec"],
                amount(candidate["spec"]["capacity"]["storage"]),
            )
        )
        volume = fitting[0] if fitting else None if chosen else self._provision(claim)
        if volume is None:
            return
        volume["spec"]["claimRef"] = _reference(claim)
        volume = self.update(kind, volume)
        self._set_phase(volume, "Bound")
        claim["metadata"].setdefault("annotations", {}).update(_BOUND)
        claim["spec"]["volumeName"] = volume["metadata"]["name"]
        claim = self.update(self.kind("", "PersistentVolumeClaim"), claim)
        spec = volume["spec"]
        claim["status"] = {"phase": "Bound", "accessModes": spec["accessModes"], "capacity": spec["capacity"]}
        self.update(self.kind("", "PersistentVolumeClaim"), claim, "status")

    def _provision(self, claim: Object) -> Object | None:
        """Create a volume of the claim's class; None if it has none, or waits for its first pod."""
        name = claim["spec"].get("storageClassName", "")
        if not name:
            text = "no persistent volumes available for this claim and no storage class is set"
            self.event(claim, "FailedBinding", text, "persistentvolume-controller")
            return None
        storage_class = self.read(self.kind("storage.k8s.io", "StorageClass"), "", name)
        if storage_class is None:
            text = f'storageclass.storage.k8s.io "{name}" not found'
            self.event(claim, "ProvisioningFailed", text, "persistentvolume-controller", warning=True)
            return None
        if storage_class.get("volumeBindingMode") == "WaitForFirstConsumer" and not self._find_pods(claim):
            text = "waiting for first consumer to be created before binding"
            self.event(claim, "WaitForFirstConsumer", text, "persistentvolume-controller")
            return None
        provisioner = storage_class["provisioner"]
        if provisioner == _NONE:
            return None
        volume = self._volume(claim, storage_class)
        claim["metadata"].setdefault("annotations", {}).update(dict.fromkeys(_PROVISIONERS, provisioner))
        text = f"Successfully provisioned volume {volume['metadata']['name']}"
        self.event(claim, "ProvisioningSucceeded", text, provisioner)
        return volume

    def _volume(self, claim: Object, storage_class: Object) -> Object:
        """Create a volume; one from an interrupted attempt is used again."""
        name, spec, kind = f"pvc-{claim['metadata']['uid']}", claim["spec"], self.kind("", "PersistentVolume")
        volume = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name, "annotations": {_PROVISIONED: storage_class["provisioner"]}},
            "spec": {
                "accessModes": spec["accessModes"],
                "capacity": {"storage": spec["resources"]["requests"]["storage"]},
                "claimRef": _reference(claim),
                "hostPath": {"path": f"/var/lib/sandbox/{name}", "type": ""},
                "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
                "storageClassName": storage_class["metadata"]["name"],
                "volumeMode": spec.get("volumeMode", "Filesystem"),
                **({"mountOptions": storage_class["mountOptions"]} if storage_class.get("mountOptions") else {}),
            },
        }
        return self.read(kind, "", name) or self.create(kind, "", volume)


def claims_of(pod: Object) -> list[str]:
    """Return the names of the claims that a pod uses."""
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    named = [volume["persistentVolumeClaim"]["claimName"] for volume in volumes if "persistentVolumeClaim" in volume]
    return named + [f"{pod['metadata']['name']}-{volume['name']}" for volume in volumes if "ephemeral" in volume]


def _is_bound(claim: Object) -> bool:
    return (claim.get("status") or {}).get("phase") == "Bound"


def _reference(claim: Object) -> dict[str, Any]:
    named = {field: claim["metadata"][field] for field in ("namespace", "name", "uid", "resourceVersion")}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **named}


def _fits(volume: Object, claim: Object, *, by_name: bool) -> bool:
    """Return whether a claim may be bound to a volume, which must be free or reserved for it."""
    spec, wanted, metadata = volume["spec"], claim["spec"], claim["metadata"]
    reference = spec.get("claimRef")
    if reference:
        own = (reference.get("namespace"), reference.get("name")) == (metadata["namespace"], metadata["name"])
        if not own or reference.get("uid") not in (None, metadata["uid"]):
            return False
    selector = wanted.get("selector")
    return (
        spec.get("storageClassName", "") == wanted.get("storageClassName", "")
        and spec.get("volumeMode", "Filesystem") == wanted.get("volumeMode", "Filesystem")
        and set(wanted["accessModes"]) <= set(spec["accessModes"])
        and amount(spec["capacity"]["storage"]) >= amount(wanted["resources"]["requests"]["storage"])
        and (by_name or not selector or match_selector(selector, volume["metadata"].get("labels") or {}))
    )
