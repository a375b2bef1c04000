"""What a CustomResourceDefinition would lose if another one replaced it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packaging.version import Version

#: The version of the distribution whose plugin installed a CRD, or another object.
INSTALLED_BY = "ctrlhost.dev/plugin-version"

_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"
#: Fields that the server keeps whatever the schema has.
_OF_EVERY_RESOURCE = ("apiVersion", "kind", "metadata")


def marked(obj: Mapping[str, Any], version: str) -> dict[str, Any]:
    """Return the object with the version of the plugin's distribution, for comparisons; as it is without a version."""
    if not version:
        return dict(obj)
    annotations = {**(obj["metadata"].get("annotations") or {}), INSTALLED_BY: version}
    return {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}


def objection(live: Mapping[str, Any], new: Mapping[str, Any], *, force: bool) -> str:
    """Return why `new` must not replace `live`, "" if it may.

    `force` overrides all but the loss of a version that is served or stored, which would make objects unreadable.
    """
    if lost := sorted(_lost_versions(live, new)):
        return f"it has the versions {', '.join(lost)}, which that of the plugin lacks"
    if force:
        return ""
    if newer := newer_than(live, new):
        return newer
    if fields := sorted(lost_fields(live, new)):
        return f"it has the fields {', '.join(fields)}, which that of the plugin lacks"
    return ""


def newer_than(live: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Return that a newer version of the plugin installed `live` than that of `new`, "" if none did."""
    theirs, own = _installed_by(live), _installed_by(new)
    if theirs is not None and own is not None and theirs > own:
        return f"version {theirs} of the plugin installed it, and this is {own}"
    return ""


def lost_fields(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Return the paths of the fields that objects may have by `before` and not by `after`, for each common version."""
    schemas = {version["name"]: _schema(version) for version in after["spec"]["versions"]}
    for version in before["spec"]["versions"]:
        if version["name"] in schemas:
            yield from _lost(_schema(version), schemas[version["name"]], "", resource=True)


def newly_required(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Return the paths of the fields without a default that `after` requires and `before` does not.

    Objects that were stored without them become invalid.
    """
    schemas = {version["name"]: _schema(version) for version in after["spec"]["versions"]}
    for version in before["spec"]["versions"]:
        if version["name"] in schemas:
            yield from _required(_schema(version), schemas[version["name"]], "")


def _required(before: Mapping[str, Any], after: Mapping[str, Any], at: str) -> Iterator[str]:
    fields = after.get("properties") or {}
    for name in after.get("required") or ():
        if name not in (before.get("required") or ()) and "default" not in (fields.get(name) or {}):
            yield f"{at}.{name}".lstrip(".")
    known = before.get("properties") or {}
    for name in fields.keys() & known.keys():
        yield from _required(known[name] or {}, fields[name] or {}, f"{at}.{name}")
    for key, step in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(before.get(key), dict) and isinstance(after.get(key), dict):
            yield from _required(before[key], after[key], f"{at}{step}")


def _lost_versions(live: Mapping[str, Any], new: Mapping[str, Any]) -> set[str]:
    served = {version["name"] for version in live["spec"]["versions"] if version.get("served")}
    stored = set((live.get("status") or {}).get("storedVersions") or ())
    versions = new["spec"]["versions"]
    return (served - {version["name"] for version in versions if version.get("served")}) | (
        stored - {version["name"] for version in versions}
    )


def _installed_by(crd: Mapping[str, Any]) -> Version | None:
    # Here, since it takes a tenth of the time of a host's imports, and only a CRD that is replaced needs it.
    from packaging.version import InvalidVersion, Version

    text = (crd["metadata"].get("annotations") or {}).get(INSTALLED_BY)
    try:
        return None if text is None else Version(text)
    except InvalidVersion:
        return None


def _schema(version: Mapping[str, Any]) -> Mapping[str, Any]:
    schema: Mapping[str, Any] = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    return schema


def _lost(before: Mapping[str, Any], after: Mapping[str, Any], at: str, *, resource: bool = False) -> Iterator[str]:
    """Return what the server drops by `after` and not by `before`, at any depth; `resource` for a whole object.

    As in the server's pruning, `x-kubernetes-preserve-unknown-fields` keeps what a schema does not mention, and not
    what the schema of a mentioned field lacks.
    """
    keeps = bool(after.get(_PRESERVE))
    values, own_values = _values(before), _values(after)
    if before.get(_PRESERVE) and not keeps:
        yield f"{at}.*" if at else "*"
    elif values is not None and own_values is not None:
        yield from _lost(values, own_values, f"{at}.*" if at else "*")
    elif values is not None and not keeps:
        yield f"{at}.*" if at else "*"
    items, own_items = before.get("items"), after.get("items")
    if items and (own_items or not keeps):
        yield from _lost(items, own_items or {}, f"{at}[]")
    known = after.get("properties") or {}
    for name, schema in (before.get("properties") or {}).items():
        path = f"{at}.{name}" if at else name
        if resource and name in _OF_EVERY_RESOURCE:
            continue
        own = (known[name] or {}) if name in known else own_values
        if own is not None:
            yield from _lost(schema or {}, own, path, resource=bool(own.get(_EMBEDDED)))
        elif not keeps:
            yield path


def _values(schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the schema of the fields that are not properties, None if there may not be any."""
    additional = schema.get("additionalProperties")
    return additional if isinstance(additional, dict) else {} if additional else None
