"""Validation of CRDs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.apimachinery.names import is_label_1035, is_subdomain
from ctrlhost_sandbox.crds import schema_rules, selectable_fields
from ctrlhost_sandbox.schema import formats, rules

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.apimachinery.status import Cause
    from ctrlhost_sandbox.schema.structural import Schema

    Version = dict[str, Any]

_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")


def _placed(versions: Sequence[Version], key: str) -> Iterator[tuple[Version, str]]:
    """Yield each version and its field in causes.

    A real server stores what all versions share in the field of the first API.
    """
    if versions and all(version.get(key) == versions[0].get(key) for version in versions):
        yield versions[0], "spec"
    else:
        for index, version in enumerate(versions):
            yield version, f"spec.versions[{index}]"


def _schemas(versions: Sequence[Version]) -> Iterator[tuple[Schema, str, bool]]:
    """Yield each schema, its field in causes, and whether its objects have the subresource `status`."""
    for version, field in _placed(versions, "schema"):
        shared = field == "spec"
        if isinstance(schema := (version.get("schema") or {}).get("openAPIV3Schema"), dict):
            users = versions if shared else [version]
            has_status = any((user.get("subresources") or {}).get("status") is not None for user in users)
            yield schema, f"{field}.{'validation' if shared else 'schema'}.openAPIV3Schema", has_status


def warn(crd: Object, warnings: list[str], old: Object | None = None, *, enforced: bool) -> None:
    """Add warnings about parts without effect; `enforced` says whether validation rules have one."""
    before = _unknown_formats(old)
    warnings += [f'unrecognized format "{form}"' for form in _unknown_formats(crd) if form not in before]
    if not enforced and any(rules.has_rules(schema) for schema, _, _ in _schemas(crd["spec"].get("versions") or ())):
        warnings.append("sandbox: CEL validation rules are stored but not evaluated")
    if (crd["spec"].get("conversion") or {}).get("strategy") == "Webhook":
        warnings.append("sandbox: conversion webhooks are not called, objects are converted as with strategy None")


def _unknown_formats(crd: Object | None) -> dict[str, None]:
    """Return the formats that are not checked, in order."""
    versions = crd["spec"].get("versions") or () if crd is not None else ()
    return dict.fromkeys(form for schema, _, _ in _schemas(versions) for form in formats.unknown(schema))


def rule_causes(crd: Object) -> Iterator[Cause]:
    """Check the validation rules of a CRD that is valid otherwise."""
    for schema, field, _ in _schemas(crd["spec"]["versions"]):
        yield from rules.problems(schema, field)


def causes(crd: Object) -> Iterator[Cause]:
    """Check a CRD."""
    spec, name = crd["spec"], crd["metadata"].get("name", "")
    names, group = spec.get("names") or {}, spec.get("group", "")
    wanted = f"{names.get('plural', '')}.{group}"
    if name != wanted:
        yield status.invalid_value("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    if not group:
        yield status.required("spec.group")
    elif not is_subdomain(group):
        yield status.invalid_value("spec.group", group, "must be a DNS subdomain")
    elif "." not in group:
        yield status.invalid_value("spec.group", group, "should be a domain with at least one dot")
    if group in ("k8s.io", "kubernetes.io") or group.endswith((".k8s.io", ".kubernetes.io")):
        yield from _approval_causes(crd)
    if spec.get("scope") not in ("Namespaced", "Cluster"):
        yield status.not_supported("spec.scope", spec.get("scope", ""), ("Cluster", "Namespaced"))
    if spec.get("preserveUnknownFields"):
        text = "set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        yield status.invalid_value("spec.preserveUnknownFields", True, f"cannot set to true, {text}")
    accepted = (crd.get("status") or {}).get("acceptedNames") or {}
    yield from _name_causes(names, "spec.names")
    yield from _name_causes(accepted, "status.acceptedNames", required=False)
    yield from _version_causes(spec.get("versions") or [])


def _approval_causes(crd: Object) -> Iterator[Cause]:
    """Check the annotation that a CRD in a group of the Kubernetes community needs."""
    field = "metadata.annotations[api-approved.kubernetes.io]"
    found = (crd["metadata"].get("annotations") or {}).get("api-approved.kubernetes.io", "")
    text = 'protected groups must have approval annotation "api-approved.kubernetes.io"'
    see = "see https://github.com/kubernetes/enhancements/pull/1111"
    if not found:
        yield status.required(field, f"{text}, {see}")
    elif not found.startswith("unapproved") and not _is_url(found):
        choice = 'with either a URL or a reason starting with "unapproved"'
        yield status.invalid_value(field, found, f"{text} {choice}, {see}")


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme and parts.netloc)


def _name_causes(names: dict[str, Any], where: str, *, required: bool = True) -> Iterator[Cause]:
    """Check requested names, or accepted ones, which may be missing."""
    for field in ("plural", "singular", "kind", "listKind"):
        text = names.get(field) or ""
        if not text:
            if required:
                yield status.required(f"{where}.{field}")
        elif not is_label_1035(text.lower() if field in ("kind", "listKind") else text):
            yield status.invalid_value(f"{where}.{field}", text, "must be a DNS-1035 label")
    for field in ("shortNames", "categories"):
        for index, text in enumerate(names.get(field) or ()):
            if not is_label_1035(text):
                yield status.invalid_value(f"{where}.{field}[{index}]", text, "must be a DNS-1035 label")
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        yield status.invalid_value(f"{where}.listKind", names["listKind"], "kind and listKind may not be the same")


def _version_causes(versions: list[Version]) -> Iterator[Cause]:
    if not versions:
        yield status.required("spec.versions")
        return
    names = [version.get("name", "") for version in versions]
    for index, version in enumerate(versions):
        field = f"spec.versions[{index}]"
        if not is_label_1035(names[index]):
            yield status.invalid_value(f"{field}.name", names[index], "must be a DNS-1035 label")
        if not isinstance((version.get("schema") or {}).get("openAPIV3Schema"), dict):
            yield status.required(f"{field}.schema.openAPIV3Schema")
        if version.get("deprecationWarning") is not None and not version.get("deprecated"):
            text = "can only be set for deprecated versions"
            yield status.invalid_value(f"{field}.deprecationWarning", version["deprecationWarning"], text)
    for schema, field, has_status in _schemas(versions):
        yield from schema_rules.causes(schema, field, has_status=has_status)
    for key, check in (("additionalPrinterColumns", _column_causes), ("subresources", _scale_causes)):
        for version, field in _placed(versions, key):
            yield from check(version, field)
    yield from _selectable_field_causes(versions)
    if len(set(names)) < len(names):
        yield status.invalid_value("spec.versions", names, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield status.invalid_value("spec.versions", names, "must have exactly one version marked as storage version")


def stored_version_causes(crd: Object) -> Iterator[Cause]:
    """Check the list of stored versions against the versions of the CRD."""
    field, stored = "status.storedVersions", (crd.get("status") or {}).get("storedVersions") or []
    if not stored:
        yield status.invalid_value(field, None, "must have at least one stored version")
        return
    versions = crd["spec"].get("versions") or ()
    for version in versions:
        if version.get("storage") and version.get("name") not in stored:
            yield status.invalid_value(field, stored, f"must have the storage version {version.get('name')}")
    names = [version.get("name") for version in versions]
    for index, name in enumerate(stored):
        if name not in names:
            text = f"missing from spec.versions; {name} was previously a storage version"
            yield status.invalid_value(f"{field}[{index}]", name, text)


def _selectable_field_causes(versions: Sequence[Version]) -> Iterator[Cause]:
    """Check selectable fields, which must be in the same API as the schema: shared if it is shared."""
    shared = any(field == "spec" for _, field in _placed(versions, "schema"))
    for version, place in _placed(versions, "selectableFields"):
        field, fields = f"{place}.selectableFields", version.get("selectableFields") or ()
        schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        if not fields:
            continue
        if place == "spec" and not shared:
            yield status.invalid_value(field, "", "may only be set when validations.schema is included")
        elif place != "spec" and shared:
            text = "may only be set when `version.schema.openAPIV3Schema` is not included"
            yield status.invalid_value(field, "", text)
        else:
            yield from selectable_fields.causes(fields, schema, field)


def _column_causes(version: dict[str, Any], field: str) -> Iterator[Cause]:
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        where = f"{field}.additionalPrinterColumns[{index}]"
        if not column.get("name"):
            yield status.required(f"{where}.name")
        types = f"must be one of {','.join(_COLUMN_TYPES)}"
        if not column.get("type"):
            yield status.required(f"{where}.type", types)
        elif column["type"] not in _COLUMN_TYPES:
            yield status.invalid_value(f"{where}.type", column["type"], types)
        if column.get("format") and column["format"] not in _COLUMN_FORMATS:
            text = f"must be one of {','.join(_COLUMN_FORMATS)}"
            yield status.invalid_value(f"{where}.format", column["format"], text)
        yield from _path_causes(column.get("jsonPath", ""), f"{where}.JSONPath")


def _path_causes(path: str, field: str) -> Iterator[Cause]:
    """Check a path only by its first character, as a real server does."""
    if not path:
        yield status.required(field)
    elif not path.startswith("."):
        yield status.invalid_value(field, path, "must be a simple json path starting with .")


def _scale_causes(version: dict[str, Any], field: str) -> Iterator[Cause]:
    scale = (version.get("subresources") or {}).get("scale")
    if scale is None:
        return
    for name, start in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status."), ("labelSelectorPath", ".")):
        where, path = f"{field}.subresources.scale.{name}", scale.get(name, "")
        if path.startswith(".") and not path.startswith(start):
            yield status.invalid_value(where, path, f"should be a json path under {start.rstrip('.')}")
        elif path or name != "labelSelectorPath":
            yield from _path_causes(path, where)
