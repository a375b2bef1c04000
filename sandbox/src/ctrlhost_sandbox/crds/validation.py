"""Validation of CRDs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.apimachinery.names import name_problems
from ctrlhost_sandbox.crds import approval, schema_rules, selectable_fields
from ctrlhost_sandbox.schema import formats, rules

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.apimachinery.status import Cause
    from ctrlhost_sandbox.schema.structural import Schema

    Version = dict[str, Any]

_KINDS = ("kind", "listKind")
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


def _unknown_formats(crd: Object | None) -> dict[str, None]:
    """Return the formats that are not checked, in order."""
    versions = crd["spec"].get("versions") or () if crd is not None else ()
    return dict.fromkeys(form for schema, _, _ in _schemas(versions) for form in formats.unknown(schema))


def rule_causes(crd: Object) -> Iterator[Cause]:
    """Check the validation rules of a CRD that is valid otherwise."""
    for schema, field, _ in _schemas(crd["spec"]["versions"]):
        yield from rules.problems(schema, field)


def causes(crd: Object, old: Object | None = None) -> Iterator[Cause]:
    """Check a CRD, or an update of `old`."""
    spec, name = crd["spec"], crd["metadata"].get("name", "")
    names, group = spec.get("names") or {}, spec.get("group", "")
    wanted = f"{names.get('plural', '')}.{group}"
    if name != wanted:
        yield status.invalid_value("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    if not group:
        yield status.required("spec.group")
    elif problem := ",".join(name_problems("subdomain", group)):
        yield status.invalid_value("spec.group", group, problem)
    elif "." not in group:
        yield status.invalid_value("spec.group", group, "should be a domain with at least one dot")
    yield from _approval_causes(crd, old)
    if spec.get("scope") not in ("Namespaced", "Cluster"):
        yield status.not_supported("spec.scope", spec.get("scope", ""), ("Cluster", "Namespaced"))
    if spec.get("preserveUnknownFields"):
        text = "set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        yield status.invalid_value("spec.preserveUnknownFields", True, f"cannot set to true, {text}")
    yield from _name_causes(names, "spec.names")
    yield from status_causes(crd)
    yield from _version_causes(spec.get("versions") or [])


def status_causes(crd: Object) -> Iterator[Cause]:
    """Check the status of a CRD, of which only the accepted names have rules."""
    accepted = (crd.get("status") or {}).get("acceptedNames") or {}
    yield from _name_causes(accepted, "status.acceptedNames", required=False)


def _approval_causes(crd: Object, old: Object | None) -> Iterator[Cause]:
    """Check the approval of a CRD, unless an update leaves it as it is."""
    judgement, field = approval.judge(crd), f"metadata.annotations[{approval.ANNOTATION}]"
    if judgement is None:
        return
    reason, message = judgement
    if old is not None and (approval.judge(old) or ("",))[0] == reason:
        return
    if reason == approval.MISSING:
        yield status.required(field, message)
    elif reason == approval.INVALID:
        yield status.invalid_value(field, approval.value_of(crd), message)


def _name_causes(names: dict[str, Any], where: str, *, required: bool = True) -> Iterator[Cause]:
    """Check requested names, or accepted ones, which may be missing."""
    for field in ("plural", "singular", "kind", "listKind"):
        text = names.get(field) or ""
        if not text:
            if required:
                yield status.required(f"{where}.{field}")
        elif problem := ",".join(name_problems("label_1035", text.lower() if field in _KINDS else text)):
            mixed = "may have mixed case, but should otherwise match: " if field in _KINDS else ""
            yield status.invalid_value(f"{where}.{field}", text, f"{mixed}{problem}")
    for field in ("shortNames", "categories"):
        for index, text in enumerate(names.get(field) or ()):
            if problem := ",".join(name_problems("label_1035", text)):
                yield status.invalid_value(f"{where}.{field}[{index}]", text, problem)
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        yield status.invalid_value(f"{where}.listKind", names["listKind"], "kind and listKind may not be the same")


def _version_causes(versions: list[Version]) -> Iterator[Cause]:
    if not versions:
        yield status.required("spec.versions")
        return
    names = [version.get("name", "") for version in versions]
    for index, version in enumerate(versions):
        field = f"spec.versions[{index}]"
        if problem := ",".join(name_problems("label_1035", names[index])):
            yield status.invalid_value(f"{field}.name", names[index], problem)
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
            text = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {name} "
                f"and removes {name} from status.storedVersions"
            )
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
