"""The CustomResourceDefinition of a model."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, TypeVar

from ctrlhost.errors import ConfigError
from ctrlhost.models.kinds import ResourceNames, names_of, plural_of
from ctrlhost.models.model import AnyModel
from ctrlhost.models.schema import fields_of, generate_schema, rule_of

if TYPE_CHECKING:
    from ctrlhost.models.markers import Column

#: What the subresource calls its paths.
_SCALE = ("specReplicasPath", "statusReplicasPath", "labelSelectorPath")
#: The server knows their schemas.
_GIVEN = frozenset({"apiVersion", "kind", "metadata"})


def defines_kind(struct: object) -> bool:
    """Return whether a struct is a model that a CRD can be generated from, not only a view of another's kind."""
    return isinstance(struct, type) and issubclass(struct, AnyModel) and names_of(struct) is not None


def crd_of(model: type[Any]) -> dict[str, Any]:
    """Return the CustomResourceDefinition of a subclass of `ctrlhost.Model`, the same for the same model.

    It has one version, which is served and stored. ConfigError with the field's path for a type that a structural
    schema cannot express, and for a class that is no model. For any thread.
    """
    names = names_of(model)
    if names is None or not defines_kind(model):
        name = getattr(model, "__name__", repr(model))
        raise ConfigError(
            f"{name} is not a model",
            hint="derive it from `ctrlhost.Model[Spec, Status]` and put `@ctrlhost.resource(…)` above it",
        )
    group, _, version = names.api_version.rpartition("/")
    if "." not in group:
        raise ConfigError(
            f"{model.__name__}: {names.api_version} is not of a custom kind, whose group is a domain",
            hint='write `@ctrlhost.resource("example.com/v1")`; a struct of a built-in kind is a `msgspec.Struct`',
        )
    plural = names.plural or plural_of(names.kind)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": _names(names, plural),
            "scope": names.scope,
            "versions": [_version(model, names, version)],
        },
    }


def _names(names: ResourceNames, plural: str) -> dict[str, Any]:
    names_shown = {
        "kind": names.kind,
        "listKind": f"{names.kind}List",
        "plural": plural,
        "singular": names.kind.lower(),
    }
    more = {"shortNames": list(names.short_names), "categories": list(names.categories)}
    return names_shown | {name: texts for name, texts in more.items() if texts}


def _column(column: Column) -> dict[str, Any]:
    entry = {"name": column.name, "type": column.type, "jsonPath": column.json_path}
    more = {"format": column.format, "priority": column.priority}
    return entry | {name: value for name, value in more.items() if value}


def _version(model: type[Any], names: ResourceNames, version: str) -> dict[str, Any]:
    fields = fields_of(model)
    if any(isinstance(field.type, TypeVar) for field in fields.values()):
        raise ConfigError(
            f"{model.__name__}: the types of spec and status are missing",
            hint="write `ctrlhost.Model[Spec, Status]`, or `ctrlhost.Model[Spec, None]`",
        )
    has_status = fields["status"].type is not types.NoneType
    schema = generate_schema(model, without=_GIVEN if has_status else _GIVEN | {"status"})
    if names.rules:
        schema["x-kubernetes-validations"] = [rule_of(rule) for rule in names.rules]
    entry = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    subresources: dict[str, Any] = {"status": {}} if has_status else {}
    if names.scale:
        subresources["scale"] = dict(zip(_SCALE, names.scale, strict=False))
    if subresources:
        entry["subresources"] = subresources
    if names.deprecated:
        entry["deprecated"] = True
        if isinstance(names.deprecated, str):
            entry["deprecationWarning"] = names.deprecated
    if names.selectable_fields:
        entry["selectableFields"] = [{"jsonPath": path} for path in names.selectable_fields]
    if names.columns:
        entry["additionalPrinterColumns"] = [_column(column) for column in names.columns]
    return entry
