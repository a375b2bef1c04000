"""What a CustomResourceDefinition would lose if another one replaced it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packaging.version import InvalidVersion, Version

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: The version of the distribution whose plugin installed a CRD.
INSTALLED_BY = "ctrlhost.dev/plugin-version"


def objection(live: Mapping[str, Any], new: Mapping[str, Any], *, force: bool) -> str:
    """Return why `new` must not replace `live`, "" if it may.

    `force` overrides all but the loss of a version that is served or stored, which would make objects unreadable.
    """
    if lost := sorted(_lost_versions(live, new)):
        return f"it has the versions {', '.join(lost)}, which that of the plugin lacks"
    if force:
        return ""
    theirs, own = _installed_by(live), _installed_by(new)
    if theirs is not None and own is not None and theirs > own:
        return f"version {theirs} of the plugin installed it, and this is {own}"
    if fields := sorted(lost_fields(live, new)):
        return f"it has the fields {', '.join(fields)}, which that of the plugin lacks"
    return ""


def lost_fields(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Return the paths of the fields that objects may have by `before` and not by `after`, for each common version."""
    schemas = {version["name"]: _schema(version) for version in after["spec"]["versions"]}
    for version in before["spec"]["versions"]:
        if version["name"] in schemas:
            yield from _lost(_schema(version), schemas[version["name"]], "")


def _lost_versions(live: Mapping[str, Any], new: Mapping[str, Any]) -> set[str]:
    served = {one["name"] for one in live["spec"]["versions"] if one.get("served")}
    stored = set((live.get("status") or {}).get("storedVersions") or ())
    versions = new["spec"]["versions"]
    return (served - {one["name"] for one in versions if one.get("served")}) | (
        stored - {one["name"] for one in versions}
    )


def _installed_by(crd: Mapping[str, Any]) -> Version | None:
    text = (crd["metadata"].get("annotations") or {}).get(INSTALLED_BY)
    try:
        return None if text is None else Version(text)
    except InvalidVersion:
        return None


def _schema(version: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    return found


def _lost(before: Mapping[str, Any], after: Mapping[str, Any], at: str) -> Iterator[str]:
    if after.get("x-kubernetes-preserve-unknown-fields"):
        return
    if "items" in before:
        yield from _lost(before["items"], after.get("items") or {}, f"{at}[]")
    known = after.get("properties") or {}
    for name, schema in (before.get("properties") or {}).items():
        path = f"{at}.{name}" if at else name
        if name in known:
            yield from _lost(schema, known[name], path)
        elif "additionalProperties" not in after:
            yield path
