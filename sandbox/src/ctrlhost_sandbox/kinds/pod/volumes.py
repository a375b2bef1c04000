"""Validation of the volumes of a pod."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.apimachinery.names import is_label, name_problems
from ctrlhost_sandbox.kinds.fields import descending_causes
from ctrlhost_sandbox.kinds.persistent_volumes import claim_causes
from ctrlhost_sandbox.kinds.pod.containers import VOLUME_FIELDS, field_causes, resource_field_causes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ctrlhost_sandbox.apimachinery.status import Cause

#: In the order in which a real server checks them.
_SOURCES = (
    *("emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi"),
    *("glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "downwardAPI", "fc", "flexVolume"),
    *("azureFile", "configMap", "vsphereVolume", "quobyte", "azureDisk", "storageos", "photonPersistentDisk"),
    *("portworxVolume", "scaleIO", "projected", "csi", "ephemeral", "image"),
)
_NAMES = {"secret": "secretName", "configMap": "name", "persistentVolumeClaim": "claimName", "hostPath": "path"}
_LONGEST_DRIVER, _SHORTEST_TOKEN = 63, 600
_HOST_TYPES = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")


def volume_causes(volumes: Sequence[Mapping[str, Any]], path: str, names: set[str]) -> Iterator[Cause]:
    """Check volumes, and collect the names of the valid ones."""
    seen: set[str] = set()
    for index, volume in enumerate(volumes):
        problems = list(_volume_causes(volume, f"{path}[{index}]", seen))
        yield from problems
        if not problems:
            names.add(volume.get("name", ""))


def _volume_causes(volume: Mapping[str, Any], where: str, names: set[str]) -> Iterator[Cause]:
    """Check a volume; `names` collects all names."""
    name = volume.get("name", "")
    kinds = [kind for kind in _SOURCES if volume.get(kind) is not None]
    if kinds:
        yield from _source_causes(kinds[0], volume[kinds[0]], f"{where}.{kinds[0]}")
    yield from [
        status.forbidden_field(f"{where}.{kind}", "may not specify more than 1 volume type") for kind in kinds[1:]
    ]
    if not name:
        yield status.required(f"{where}.name")
    elif not is_label(name):
        yield from status.invalid_values(f"{where}.name", name, name_problems("label", name))
    elif name in names:
        yield status.duplicate(f"{where}.name", name)
    names.add(name)


def _source_causes(kind: str, source: Mapping[str, Any], where: str) -> Iterator[Cause]:
    if kind in _NAMES and not source.get(_NAMES[kind]):
        yield status.required(f"{where}.{_NAMES[kind]}")
    if kind == "hostPath" and source.get("path"):
        if ".." in source["path"].split("/"):
            yield status.invalid_value(f"{where}.path", source["path"], "must not contain '..'")
        if source.get("type", "") not in _HOST_TYPES:
            yield status.not_supported(f"{where}.type", source["type"], _HOST_TYPES)
    elif kind in ("secret", "configMap"):
        yield from _mode_causes(source, f"{where}.defaultMode")
        yield from _item_causes(source, where)
    elif kind == "downwardAPI":
        yield from _mode_causes(source, f"{where}.defaultMode")
        for item in source.get("items") or ():
            yield from _downward_causes(item, where)
    elif kind == "projected":
        yield from _mode_causes(source, f"{where}.defaultMode")
        yield from _projection_causes(source.get("sources") or (), where)
    elif kind == "nfs":
        yield from [status.required(f"{where}.{name}") for name in ("server", "path") if not source.get(name)]
        if not source.get("path", "").startswith("/"):
            yield status.invalid_value(f"{where}.path", source.get("path", ""), "must be an absolute path")
    elif kind == "csi":
        yield from _driver_causes(source.get("driver", ""), f"{where}.driver")
    elif kind == "ephemeral" and source.get("volumeClaimTemplate") is None:
        yield status.required(f"{where}.volumeClaimTemplate")
    elif kind == "ephemeral":
        template = source["volumeClaimTemplate"]
        yield from claim_causes({"spec": template.get("spec")}, f"{where}.volumeClaimTemplate")


def _driver_causes(driver: str, where: str) -> Iterator[Cause]:
    if not driver:
        yield status.required(where)
    if len(driver) > _LONGEST_DRIVER:
        yield status.too_long(where, _LONGEST_DRIVER)
    if problems := name_problems("subdomain", driver.lower()):
        yield from status.invalid_values(where, driver, problems)


def _mode_causes(source: Mapping[str, Any], where: str) -> Iterator[Cause]:
    mode = source.get(where.rpartition(".")[2])
    if mode is not None and not 0 <= mode <= 0o777:
        text = "must be a number between 0 and 0777 (octal), both inclusive"
        yield status.invalid_value(where, mode, text)


def _path_causes(path: str, where: str) -> Iterator[Cause]:
    """Check the path of a file in a volume."""
    if not path:
        yield status.required(where)
    yield from descending_causes(path, where)
    if path.startswith("..") and not path.startswith("../"):
        yield status.invalid_value(where, path, "must not start with '..'")


def _item_causes(source: Mapping[str, Any], where: str) -> Iterator[Cause]:
    """Check which keys become which files."""
    for index, item in enumerate(source.get("items") or ()):
        place = f"{where}.items[{index}]"
        if not item.get("key"):
            yield status.required(f"{place}.key")
        yield from _path_causes(item.get("path", ""), f"{place}.path")
        yield from _mode_causes(item, f"{place}.mode")


def _downward_causes(item: Mapping[str, Any], where: str) -> Iterator[Cause]:
    """Check a file of the downward API. The field names have no index, as in a real server's messages."""
    yield from _path_causes(item.get("path", ""), f"{where}.path")
    field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if field is not None:
        yield from field_causes(field, f"{where}.fieldRef", VOLUME_FIELDS)
        if resource is not None:
            yield status.invalid_value(
                where, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"
            )
    elif resource is not None:
        yield from resource_field_causes(resource, f"{where}.resourceFieldRef", volume=True)
    else:
        yield status.required(where, "one of fieldRef and resourceFieldRef is required")
    yield from _mode_causes(item, f"{where}.mode")


def _projection_causes(sources: Sequence[Mapping[str, Any]], path: str) -> Iterator[Cause]:
    used: set[str] = set()
    for index, part in enumerate(sources):
        where = f"{path}.sources[{index}]"
        for kind in ("secret", "configMap"):
            if (source := part.get(kind)) is not None:
                if not source.get("name"):
                    yield status.required(f"{where}.{kind}.name")
                yield from _item_causes(source, f"{where}.{kind}")
                yield from _repeated_causes(source, path, source.get("name", ""), used)
        if (source := part.get("downwardAPI")) is not None:
            for item in source.get("items") or ():
                yield from _downward_causes(item, f"{where}.downwardAPI")
            yield from _repeated_causes(source, path, "", used)
        if (token := part.get("serviceAccountToken")) is not None:
            seconds, place = token.get("expirationSeconds", 0), f"{where}.serviceAccountToken"
            if seconds < _SHORTEST_TOKEN:
                text = "may not specify a duration less than 10 minutes"
                yield status.invalid_value(f"{place}.expirationSeconds", seconds, text)
            elif seconds > 1 << 32:
                text = "may not specify a duration larger than 2^32 seconds"
                yield status.invalid_value(f"{place}.expirationSeconds", seconds, text)
            # The field is that of the volume, as in a real server's messages.
            yield from _path_causes(token.get("path", ""), f"{path}.path")
        if sum(value is not None for value in part.values()) > 1:
            yield status.forbidden_field(where, "may not specify more than 1 volume type per source")


def _repeated_causes(source: Mapping[str, Any], where: str, name: str, used: set[str]) -> Iterator[Cause]:
    """Check that the files of a source have paths of their own; without a `name`, a cause shows the path."""
    for item in source.get("items") or ():
        path = item.get("path", "")
        if path and path in used:
            yield status.invalid_value(where, name or path, "conflicting duplicate paths")
        used.add(path)
