"""The shape of objects: one tree for built-in types and for CRD schemas.

Field tracking, strict decoding, pruning, strategic merge and OpenAPI all read the same tree.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

SCALARS = {
    "string": "string",
    "bytes": "bytes",
    "bool": "boolean",
    "int32": "integer",
    "int64": "integer",
    "float64": "number",
    "Time": "time",
    "MicroTime": "microtime",
    "Duration": "string",
    "IntOrString": "int-or-string",
    "Quantity": "quantity",
}
OPAQUE = {
    "FieldsV1",
    "RawExtension",
    "JSON",
    "JSONSchemaPropsOrArray",
    "JSONSchemaPropsOrBool",
    "JSONSchemaPropsOrStringArray",
}


@dataclass(slots=True, eq=False)
class Shape:
    """One node. `type` is object, map, array, any, or a scalar's name as in `SCALARS`."""

    type: str
    name: str = ""
    fields: dict[str, Shape] = field(default_factory=dict)
    element: Shape | None = None
    """The shape of a map's or an array's elements."""
    list_type: str = "atomic"
    keys: tuple[str, ...] = ()
    key_defaults: dict[str, Any] = field(default_factory=dict)
    atomic: bool = False
    merge_key: str = ""
    merge_scalars: bool = False
    pointer: bool = False
    """An explicit zero value is kept."""
    written: bool = False
    """Written even if it is zero."""
    value_struct: bool = False
    """Written as `{}` if it is absent."""
    required: bool = False
    enum: tuple[str, ...] = ()
    """The values of a text, if they are limited."""
    open: bool = False
    """Unknown fields are kept."""

    def child(self, name: str) -> Shape | None:
        """Return the shape of a field or map key; None if it is unknown."""
        if self.type == "map":
            return self.element
        child = self.fields.get(name)
        if child is None and self.open:
            return ANY
        return child


ANY = Shape("any", open=True)
_SHAPES: dict[str, Shape] = {}


@cache
def _types() -> dict[str, msgspec.Raw]:
    """Return the fields of each type as text: most processes use few of the types."""
    return msgspec.json.decode(types_text(), type=dict[str, msgspec.Raw])


def types_text() -> bytes:
    """Return the table of types."""
    return resources.files("ctrlhost_sandbox.registry.data").joinpath("types.json").read_bytes()


def builtin(name: str) -> Shape:
    """Return the shape of a built-in type, for example `core.Pod`. Shapes are shared and may be recursive."""
    shape = _SHAPES.get(name)
    if shape is None:
        shape = _SHAPES[name] = Shape("object", name)
        _fill(shape, msgspec.json.decode(_types()[name]))
    return shape


def _fill(shape: Shape, table: Mapping[str, Any]) -> None:
    for name, entry in table.items():
        if not name:
            shape.atomic = True
            continue
        type_name, flags = entry[0], entry[1].split()
        if "i" in flags:
            # The members of an inlined message belong to the parent.
            shape.fields.update(builtin(type_name).fields)
        else:
            shape.fields[name] = _field(type_name, flags)


def _field(type_name: str, flags: list[str]) -> Shape:
    """Create the node of a field; a struct's node shares the fields of its type."""
    shape = _node(type_name)
    shape.pointer = "p" in flags
    shape.written = "w" in flags
    shape.required = "q" in flags
    shape.atomic = shape.atomic or "a" in flags
    shape.merge_scalars = "m" in flags
    shape.value_struct = shape.type == "object" and not shape.pointer and "z" not in flags
    for flag in flags:
        if flag.startswith("m="):
            shape.merge_key = flag[2:]
        elif flag.startswith("l=map:"):
            shape.list_type, shape.keys = "map", tuple(flag[6:].split(","))
            members = {} if shape.element is None else shape.element.fields
            zeros = {"string": "", "integer": 0}
            shape.key_defaults = {
                key: zeros[members[key].type]
                for key in shape.keys
                if key in members and members[key].written and members[key].type in zeros
            }
            if "protocol" in shape.keys:
                shape.key_defaults["protocol"] = "TCP"
        elif flag.startswith("l="):
            shape.list_type = flag[2:]
        elif flag.startswith("e="):
            _limit(shape, tuple(flag[2:].replace("~", " ").split(",")))
    return shape


def _limit(shape: Shape, values: tuple[str, ...]) -> None:
    while shape.element is not None:
        shape = shape.element
    shape.enum = values


def _node(type_name: str) -> Shape:
    if type_name.startswith("[]"):
        return Shape("array", element=_node(type_name[2:]))
    if type_name.startswith("{}"):
        return Shape("map", element=_node(type_name[2:]))
    if type_name in SCALARS:
        return Shape(SCALARS[type_name], type_name)
    if type_name in OPAQUE:
        return Shape("any", type_name, open=True, atomic=True)
    target = builtin(type_name)
    return Shape("object", type_name, fields=target.fields, atomic=target.atomic)


def package_of(group: str, version: str) -> str:
    """Return the package of a built-in group version; "" for a group that cannot be built in."""
    if "." in group and not group.endswith(".k8s.io"):
        return ""
    name = group.partition(".")[0] or "core"
    return name if version == "v1" else f"{name}/{version}"


def of_kind(group: str, version: str, kind: str) -> Shape | None:
    """Return the shape of a built-in kind, None if there is no such kind."""
    name = f"{package_of(group, version)}.{kind}"
    return builtin(name) if name in _types() else None
