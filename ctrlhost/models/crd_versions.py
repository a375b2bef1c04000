"""The CustomResourceDefinition of a kind whose versions are models of their own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ctrlhost.errors import ConfigError
from ctrlhost.models.crd import crd_of
from ctrlhost.models.kinds import names_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_VERSION = re.compile(r"v(?P<major>\d+)(?:(?P<stage>alpha|beta)(?P<minor>\d+))?")
_STAGES = ("alpha", "beta", None)


def crd_of_versions(models: Sequence[type[Any]], *, converted: bool) -> dict[str, Any]:
    """Return the CRD of the models of one kind, the newest version first; `converted` if functions convert it.

    ConfigError for a version that two models have, unless exactly one version has `storage=True`, for names or scopes
    that differ, and without functions also for schemas that differ, with the field.
    """
    crds = sorted(((crd_of(model), model) for model in models), key=lambda crd: _rank(_name(crd[0])), reverse=True)
    merged = crds[0][0]
    if len(crds) == 1:
        return merged
    names = [_name(crd) for crd, _ in crds]
    what = f"CRD {merged['metadata']['name']}"
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigError(
            f"{names.count(twice)} models define the version {twice} of the {what}",
            hint="keep one `ctrlhost.Model`, and make the others a `msgspec.Struct`",
        )
    stored = [_name(crd) for crd, model in crds if getattr(names_of(model), "storage", False)]
    if len(stored) != 1:
        raise ConfigError(
            f"the {what} has the versions {', '.join(names)}, of which {len(stored)} have `storage=True`",
            hint="write `@ctrlhost.resource(…, storage=True)` above the model of the version that is stored",
        )
    for other, _ in crds[1:]:
        _check_names(what, merged, other)
        field = None if converted else _difference(_schema(merged), _schema(other))
        if field is not None:
            raise ConfigError(
                f"the {what}: {names[0]} and {_name(other)} differ in {field}, and nothing converts it",
                hint="convert it both ways with `@plugin.convert`, or declare the field alike",
            )
    versions = [crd["spec"]["versions"][0] | {"storage": _name(crd) in stored} for crd, _ in crds]
    return {**merged, "spec": {**merged["spec"], "versions": versions}}


def _check_names(what: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    first, second = ({"scope": crd["spec"]["scope"], **crd["spec"]["names"]} for crd in (one, other))
    for name in sorted({*first, *second}):
        if first.get(name) != second.get(name):
            raise ConfigError(
                f"the {what}: {_name(one)} and {_name(other)} differ in {name}",
                hint="give both models the same names and scope in `@ctrlhost.resource(…)`",
            )


def _difference(one: Any, other: Any, path: str = "") -> str | None:
    """Return the path of the first field in which two schemas differ but by its description; None if in none."""
    first, second = one.get("properties", {}), other.get("properties", {})
    for name in sorted({*first, *second}):
        inner = f"{path}.{name}".lstrip(".")
        if name not in first or name not in second:
            return inner
        if (difference := _difference(first[name], second[name], inner)) is not None:
            return difference
    return None if _rest(one) == _rest(other) else path or "the whole object"


def _rest(schema: Any) -> Any:
    """Return a schema without descriptions, and at its top without the fields."""
    return {name: _bare(value) for name, value in schema.items() if name not in ("properties", "description")}


def _bare(value: Any) -> Any:
    if isinstance(value, list):
        return [_bare(item) for item in value]
    if not isinstance(value, dict):
        return value
    # A field may have the name, but its schema is no text.
    return {name: _bare(item) for name, item in value.items() if name != "description" or not isinstance(item, str)}


def _rank(version: str) -> tuple[int, int, int, str]:
    """Return the place of a version among others, as Kubernetes orders them: v2, v1, v1beta1, v1alpha1, others."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return -1, 0, 0, version
    return _STAGES.index(match["stage"]), int(match["major"]), int(match["minor"] or 0), ""


def _name(crd: Mapping[str, Any]) -> str:
    return str(crd["spec"]["versions"][0]["name"])


def _schema(crd: Mapping[str, Any]) -> Any:
    return crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
