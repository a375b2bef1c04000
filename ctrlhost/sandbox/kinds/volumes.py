"""Validation of the volumes of a pod."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.sandbox.apimachinery import status
from ctrlhost.sandbox.apimachinery.names import is_label, name_problem
from ctrlhost.sandbox.kinds.containers import VOLUME_FIELDS, field_causes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ctrlhost.sandbox.apimachinery.status import Cause

#: In the order in which a real server checks them.
_SOURCES = (
    *("emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi"),
    *("glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "downwardAPI", "fc", "flexVolume"),
    *("azureFile", "configMap", "vsphereVolume", "quobyte", "azureDisk", "storageos", "photonPersistentDisk"),
    *("portworxVolume", "scaleIO", "projected", "csi", "ephemeral", "image"),
)
_NAMES = {"secret": "secretName", "configMap": "name", "persistentVolumeClaim": "claimName", "hostPath": "path"}
_HOST_TYPES = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")


def volume_causes(volumes: Sequence[Mapping[str, Any]], path: str, names: set[str]) -> Iterator[Cause]:
    """Check volumes, and collect their names."""
    for index, volume in enumerate(volumes):
        where, name = f"{path}[{index}]", volume.get("name", "")
        given = [kind for kind in _SOURCES if volume.get(kind) is not None]
        if given:
            yield from _source_causes(given[0], volume[given[0]], f"{where}.{given[0]}")
        yield from [
            status.forbidden_field(f"{where}.{kind}", "may not specify more than 1 volume type") for kind in given[1:]
        ]
        if not name:
            yield status.required(f"{where}.name")
        elif not is_label(name):
            yield status.invalid_value(f"{where}.name", name, name_problem("label", name))
        elif name in names:
            yield status.duplicate(f"{where}.name", name)
        names.add(name)


def _source_causes(kind: str, source: Mapping[str, Any], where: str) -> Iterator[Cause]:
    if kind in _NAMES and not source.get(_NAMES[kind]):
        yield status.required(f"{where}.{_NAMES[kind]}")
    if kind == "hostPath":
        if ".." in source.get("path", "").split("/"):
            yield status.invalid_value(f"{where}.path", source["path"], "must not contain '..'")
        if source.get("type", "") not in _HOST_TYPES:
            yield status.not_supported(f"{where}.type", source["type"], _HOST_TYPES)
    elif kind == "downwardAPI":
        for item in source.get("items") or ():
            if item.get("fieldRef") is not None:
                yield from field_causes(item["fieldRef"], f"{where}.fieldRef", VOLUME_FIELDS)
            elif item.get("resourceFieldRef") is None:
                yield status.required(where, "one of fieldRef and resourceFieldRef is required")
    elif kind == "projected":
        for index, part in enumerate(source.get("sources") or ()):
            if len(part) > 1:
                text = "may not specify more than 1 volume type per source"
                yield status.forbidden_field(f"{where}.sources[{index}]", text)
