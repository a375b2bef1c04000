"""The status of a kind before the first run: what its model and its CRD say of it."""

from __future__ import annotations

from dataclasses import dataclass
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

import msgspec

from ctrlhost.client.builtin_kinds import has_status
from ctrlhost.errors import PluginError, PluginLoadError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class StatusShape:
    """What is known of the status of a controller's kind."""

    plugin: str
    kind: str
    #: The names in objects by the names of the model's fields; None without a model.
    fields: Mapping[str, str] | None = None
    #: Whether the status has `observedGeneration`.
    observed_generation: bool = False
    #: Whether the kind has the subresource; None if only the server knows.
    subresource: bool | None = None
    #: Whether the model or the plugin's own CRD has the status, so that the plugin is to write it.
    declared: bool = False
    #: Whether the model says that the kind has no status.
    without: bool = False
    #: Whether the server keeps `status.conditions`, as far as is known.
    conditions: bool = True
    #: Whether the cached objects have the status: without it, the conditions of other writers would be lost.
    cached: bool = True
    #: Whether it is a kind of Kubernetes itself.
    builtin: bool = False
    #: Whether the status is written with the object: the author says so of a kind without the subresource.
    in_object: bool = False

    @property
    def reports(self) -> bool:
        """Whether the host may write conditions of its own: the plugin declares the status with conditions."""
        return self.declared and self.conditions and self.cached

    def missing(self) -> PluginError:
        """Return the error of a kind without a status subresource."""
        if self.without:
            what = f"the model of {self.kind} has no status, which ctx.status writes"
            return PluginError(self.plugin, what, hint="derive it from `ctrlhost.Model[Spec, Status]`")
        hint = _BUILTIN_HINT if self.builtin else _HINT
        return PluginError(self.plugin, f"{self.kind} has no status subresource, which ctx.status writes", hint=hint)

    def check(self) -> None:
        """Raise PluginError if a run cannot write the status."""
        if self.subresource is False:
            raise self.missing()
        if not self.cached:
            what = f"the cached objects of {self.kind} have no status, with which ctx.status compares"
            raise PluginError(self.plugin, what, hint='add "status" to `reads` of its `For`')

    def check_conditions(self) -> None:
        """Raise PluginError if a run cannot write conditions: the server drops a field that the CRD lacks."""
        self.check()
        if not self.conditions:
            what = f"the status of {self.kind} has no field `conditions`, which ctx.status.condition writes"
            hint = "make it a `ctrlhost.ModelStatus`, or add `conditions` to the schema in its CustomResourceDefinition"
            raise PluginError(self.plugin, what, hint=hint)


_BUILTIN_HINT = "record it with `ctx.event(…)`, or write the status of a kind of the plugin's own"
_HINT = (
    "add `subresources: {status: {}}` to the version in its CustomResourceDefinition, or to write it with the object, "
    '`status="object"` to the controller'
)


def shape_of(
    plugin: str,
    api_version: str,
    kind: str,
    model: type[Any] | None,
    crds: Iterable[Mapping[str, Any]],
    *,
    in_object: bool = False,
) -> StatusShape:
    """Return the shape of a kind by its model, if it has one, and by its CRD, if that is among `crds`.

    Raises PluginLoadError if the model has a status, and the CRD no status subresource, unless it is `in_object`.
    """
    status = _status_of(model)
    fields = None
    if isinstance(status, type) and issubclass(status, msgspec.Struct):
        fields = {field.name: field.encode_name for field in msgspec.structs.fields(status)}
    observed = fields is not None and "observedGeneration" in fields.values()
    version, without = _version_of(api_version, kind, crds), status is NoneType
    if version is None:
        builtin = has_status(api_version, kind)
        subresource = False if without else in_object or builtin
        return StatusShape(plugin, kind, fields, observed, subresource, without=without, builtin=builtin is not None)
    served = in_object or "status" in (version.get("subresources") or {})
    if status not in (None, NoneType) and not served:
        raise PluginLoadError(
            plugin, f"{kind} ({api_version}): its model has a status, but its CRD has no status subresource", hint=_HINT
        )
    known = _names(version, "observedGeneration")
    # What the schema does not name but keeps is a field of the author's, who has it in the model.
    observed, conditions = observed if known is None else known, _names(version, "conditions") is not False
    return StatusShape(plugin, kind, fields, observed, served, served, without, conditions)


def _status_of(model: type[Any] | None) -> Any:
    """Return the type of the model's status; NoneType for a model without one, None if nothing is known."""
    if model is None:
        return None
    declared = next((field.type for field in msgspec.structs.fields(model) if field.encode_name == "status"), None)
    if get_origin(declared) in (Union, UnionType):
        some = [argument for argument in get_args(declared) if argument is not NoneType]
        return some[0] if len(some) == 1 else None
    return declared


def _version_of(api_version: str, kind: str, crds: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    group, _, name = api_version.rpartition("/")
    for crd in crds:
        spec = crd["spec"]
        if spec["group"] == group and spec["names"]["kind"] == kind:
            return next((version for version in spec["versions"] if version["name"] == name), None)
    return None


def _names(version: Mapping[str, Any], field: str) -> bool | None:
    """Return whether the schema names a field of the status; None if the server keeps it without that."""
    schema: Any = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    for step in ("status", field):
        properties = schema.get("properties") or {}
        if not isinstance(properties.get(step), dict):
            keeps = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
            return None if keeps else False
        schema = properties[step]
    return True
