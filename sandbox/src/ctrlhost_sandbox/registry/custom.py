"""Custom kinds: the versions of a CRD in the form that requests need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ctrlhost_sandbox.apimachinery.objects import is_true
from ctrlhost_sandbox.registry.registry import (
    Converter,
    CustomVersion,
    FieldPath,
    Kind,
    Scale,
    Subresource,
    content_hash,
    version_order,
)
from ctrlhost_sandbox.schema.shapes import Shape, builtin
from ctrlhost_sandbox.schema.structural import shape_of

Crd = Mapping[str, Any]
"""A CRD, or a part of it."""
_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
"""In the order in which discovery lists them for custom kinds."""
_WRITES = frozenset({"create", "patch", "update"})


def simple_path(text: str) -> FieldPath:
    """Split `.spec.replicas` into its parts."""
    return tuple(part for part in text.removeprefix(".").split(".") if part)


def build_kinds(crd: Crd, shapes: Mapping[str, Shape], converter: Converter | None = None) -> list[tuple[Kind, bool]]:
    """Return a kind for each version that the CRD serves; the flag says whether discovery lists it.

    `shapes` are existing shapes to reuse, by marker; `converter` converts between the versions.
    """
    established = is_true(crd, "Established")
    if not established and not is_true(crd, "NamesAccepted"):
        return []
    spec, status = crd["spec"], crd.get("status") or {}
    names = status.get("acceptedNames") or spec["names"]
    if not names.get("plural") or not names.get("kind"):
        names = spec["names"]
    served = (version for version in spec["versions"] if version.get("served"))
    return [(_kind(crd, names, version, shapes, converter), established) for version in served]


def _deprecation(spec: Crd, version: str) -> str:
    """Return the warning for a deprecated version, with the best version that is not, if it is newer."""
    group, kind = spec["group"], spec["names"]["kind"]
    text = f"{group}/{version} {kind} is deprecated"
    served = [
        version["name"] for version in spec["versions"] if version.get("served") and not version.get("deprecated")
    ]
    best = min([version, *served], key=version_order)
    return text if best == version else f"{text}; use {group}/{best} {kind}"


def _schema(version: Crd) -> Crd:
    return (version.get("schema") or {}).get("openAPIV3Schema") or {}


def _kind(crd: Crd, names: Crd, version: Crd, shapes: Mapping[str, Shape], converter: Converter | None) -> Kind:
    spec = crd["spec"]
    group, plural, kind = spec["group"], spec["names"]["plural"], spec["names"]["kind"]
    storage = next(other["name"] for other in spec["versions"] if other.get("storage"))
    terminating = is_true(crd, "Terminating")
    schemas = {version["name"]: _schema(version) for version in spec["versions"]}
    schema = schemas[version["name"]]
    subresources = version.get("subresources") or {}
    listed: list[Subresource] = []
    scale = None
    if "status" in subresources:
        listed.append(Subresource("status"))
    if "scale" in subresources:
        paths = subresources["scale"]
        members = ("specReplicasPath", "statusReplicasPath", "labelSelectorPath")
        scale = Scale(*(simple_path(paths.get(member, "")) for member in members))
        listed.append(Subresource("scale", group="autoscaling", version="v1", kind="Scale"))
    selectable = (simple_path(item["jsonPath"]) for item in version.get("selectableFields") or ())
    deprecation = ""
    if version.get("deprecated"):
        deprecation = version.get("deprecationWarning") or _deprecation(spec, version["name"])
    marker = f"{version['name']}:{content_hash(msgspec.json.encode(schema))}"
    shape = shapes.get(marker)
    if shape is None:
        shape = shape_of(schema)
        shape.fields = {**shape.fields, "metadata": builtin("meta.ObjectMeta")}
    return Kind(
        group,
        version["name"],
        kind,
        plural,
        names.get("singular") or kind.lower(),
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        list_kind=names.get("listKind") or f"{kind}List",
        verbs=tuple(verb for verb in _VERBS if not terminating or verb not in _WRITES),
        subresources=tuple(listed),
        scale=scale,
        table=f"{group}/{plural}",
        generation=True,
        needs_version=True,
        field_selectors={".".join(path): path for path in selectable},
        deprecation=deprecation,
        custom=CustomVersion(
            crd["metadata"]["name"],
            schema,
            shape,
            storage,
            schemas,
            tuple(version.get("additionalPrinterColumns") or ()),
            terminating,
            marker,
            converter,
        ),
    )
