"""The structural schema of a struct, as a CRD has it."""

from __future__ import annotations

import collections.abc
import enum
import inspect
import types
import typing
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, Literal, TypeAlias, Union
from uuid import UUID

import msgspec

from ctrlhost.errors import ConfigError
from ctrlhost.models.docstrings import docstrings
from ctrlhost.models.markers import ListMap, Rule
from ctrlhost.models.model import Condition, default_of

Schema: TypeAlias = dict[str, Any]

_SCALARS: dict[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    bytes: {"type": "string", "format": "byte"},
    datetime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
    UUID: {"type": "string", "format": "uuid"},
}
_LISTS = (list, tuple, collections.abc.Sequence, collections.abc.MutableSequence, collections.abc.Collection)
_SETS = (set, frozenset, collections.abc.Set, collections.abc.MutableSet)
_MAPS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_SCALAR_TYPES = ("string", "integer", "number", "boolean")
_PRESERVE: Schema = {"x-kubernetes-preserve-unknown-fields": True}

#: As in `metav1.Condition`, so that other writers' conditions are checked alike.
_CONDITION: Schema = {
    "description": "A condition of the object.",
    "type": "object",
    "required": ["type", "status", "lastTransitionTime", "reason", "message"],
    "properties": {
        "type": {
            "type": "string",
            "maxLength": 316,
            "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
            r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
        },
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "reason": {
            "type": "string",
            "minLength": 1,
            "maxLength": 1024,
            "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        },
        "message": {"type": "string", "maxLength": 32768},
    },
}


def generate_schema(struct: type, *, without: frozenset[str] = frozenset()) -> Schema:
    """Return the schema of a struct's objects but for the fields `without`; the same for the same struct.

    ConfigError with the field's path for a type that a structural schema cannot express.
    """
    return _Node(struct.__name__).struct(struct, without)


def rule_of(rule: Rule) -> Schema:
    """Return a rule as schemas have it."""
    return {"rule": rule.rule} | ({} if rule.message is None else {"message": rule.message})


def fields_of(struct: type) -> dict[str, msgspec.structs.FieldInfo]:
    """Return the fields of a struct by name; ConfigError if an annotation cannot be evaluated."""
    return {field.name: field for field in _Node(struct.__name__).fields(struct)}


@dataclass(frozen=True, slots=True)
class _Node:
    """A value's place in the struct."""

    name: str
    path: str = ""
    #: The structs around it.
    around: tuple[Any, ...] = ()

    def below(self, step: str) -> _Node:
        return replace(self, path=f"{self.path}{step}".lstrip("."))

    def error(self, problem: str, hint: str | None = None) -> ConfigError:
        place = f"{self.name}: {self.path}" if self.path else self.name
        return ConfigError(f"{place}: {problem}", hint=hint)

    def schema(self, kind: Any, *, nullable: bool = True) -> Schema:
        """Return the schema of a value of this type; without `nullable` it cannot be null."""
        described = _Type.of(kind)
        schema = self._alternatives(described)
        if described.optional and nullable:
            schema["nullable"] = True
            if "enum" in schema:
                # No enum of the server has null, but it checks nothing within `allOf` for null.
                schema["allOf"] = [{"enum": schema.pop("enum")}]
        return self._constrained(schema, described.marks)

    def _alternatives(self, described: _Type) -> Schema:
        if not described.alternatives:
            raise self.error("a field that can only be null has no schema")
        if len(described.alternatives) == 1:
            return self._one(described.alternatives[0])
        if all(typing.get_origin(part) is Literal for part in described.alternatives):
            return self.enum([value for part in described.alternatives for value in typing.get_args(part)])
        kinds = set(map(_plain, described.alternatives))
        if kinds == {int, str}:
            return {"x-kubernetes-int-or-string": True}
        if kinds == {int, float}:
            return {"type": "number"}
        what = "structs" if all(map(_is_struct, kinds)) else "types"
        raise self.error(
            f"a structural schema cannot express a union of {what}: {' | '.join(map(_name, described.alternatives))}",
            hint="use one struct with an optional field for each alternative; see Unions in the reference of models"
            if what == "structs"
            else "only `int | str` and a type with None are possible",
        )

    def _one(self, kind: Any) -> Schema:
        origin, arguments = typing.get_origin(kind) or kind, typing.get_args(kind)
        if origin in _SCALARS:
            return dict(_SCALARS[origin])
        if kind is Any or kind is object:
            return dict(_PRESERVE)
        if origin is Literal:
            return self.enum(arguments)
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return self.enum([member.value for member in kind])
        if kind is Condition:
            return typing.cast(Schema, msgspec.to_builtins(_CONDITION))
        if _is_struct(origin):
            return self.struct(kind)
        if origin in _SETS:
            return self._set(arguments)
        if origin in _LISTS:
            return self._list(origin, arguments)
        if origin in _MAPS:
            return self._map(arguments)
        if isinstance(kind, typing.ForwardRef):
            raise self.error(
                f"the type {kind.__forward_arg__!r} is a text",
                hint="define the struct above the model, and write its name without quotes",
            )
        raise self.error(
            f"no schema for the type {_name(kind)}",
            hint="use str, int, float, bool, datetime, Literal, an enum, a struct, or a list, set or dict of these",
        )

    def struct(self, kind: Any, without: frozenset[str] = frozenset()) -> Schema:
        """Return the schema of a struct, generic or not."""
        if kind in self.around:
            raise self.error(
                f"a structural schema cannot express the recursive struct {_name(kind)}",
                hint="end the recursion with a field of the type `dict[str, Any]`",
            )
        struct: type[msgspec.Struct] = typing.get_origin(kind) or kind
        inner = replace(self, around=(*self.around, kind))
        if struct.__struct_config__.array_like:
            raise self.error(f"the struct {_name(kind)} is an array on the wire, which has no schema")
        texts, properties, required = docstrings(struct), {}, []
        if (tag := struct.__struct_config__.tag) is not None:
            tag_field = str(struct.__struct_config__.tag_field)
            properties[tag_field] = inner.enum([tag])
            required.append(tag_field)
        for field in self.fields(kind):
            if field.encode_name not in without:
                properties[field.encode_name] = inner.below(f".{field.encode_name}").field(field, texts.get(field.name))
                if field.required:
                    required.append(field.encode_name)
        schema: Schema = {"description": text} if (text := _text(struct)) else {}
        schema |= {"type": "object"}
        if required:
            schema["required"] = required
        return schema | {"properties": properties}

    def fields(self, kind: Any) -> tuple[msgspec.structs.FieldInfo, ...]:
        """Return the fields of a struct."""
        try:
            return msgspec.structs.fields(kind)
        except Exception as error:  # noqa: BLE001 - an annotation may raise anything
            raise self.error(
                f"cannot evaluate the annotations of {_name(kind)}: {error}",
                hint="import the types at run time, and define the structs at the top level of a module",
            ) from None

    def field(self, info: msgspec.structs.FieldInfo, text: str | None) -> Schema:
        # The server drops null from a field that is not nullable: it is absent then.
        schema = self.schema(info.type, nullable=info.required)
        if not info.required and (default := _default(info)) is not None:
            if default != _default(info):
                raise self.error(
                    "its default is another one at each call, but a schema has one for all objects",
                    hint="use a type with None, and None as the default; the controller then sets the value",
                )
            schema["default"] = default
        if text:
            schema = {"description": text, **{name: value for name, value in schema.items() if name != "description"}}
        return schema

    def enum(self, values: typing.Sequence[Any]) -> Schema:
        kinds = {type(value) for value in values}
        if kinds == {str}:
            return {"type": "string", "enum": list(values)}
        if kinds == {int}:
            return {"type": "integer", "enum": list(values)}
        raise self.error(f"the values of an enum must be texts or integers, one of the two, got {list(values)!r}")

    def _list(self, origin: Any, arguments: tuple[Any, ...]) -> Schema:
        if origin is tuple and arguments and arguments[-1] is not ...:
            if len(set(arguments)) > 1:
                raise self.error(
                    f"a structural schema cannot express the mixed tuple tuple[{', '.join(map(_name, arguments))}]",
                    hint="use a struct with a field for each item",
                )
            size = len(arguments)
            items = self.below("[]").schema(arguments[0])
            return {"type": "array", "items": items, "minItems": size, "maxItems": size}
        schema: Schema = {"type": "array", "items": self.below("[]").schema(arguments[0] if arguments else Any)}
        return schema | (self._list_map(ListMap("type"), schema) if Condition in arguments else {})

    def _set(self, arguments: tuple[Any, ...]) -> Schema:
        items = self.below("[]").schema(arguments[0] if arguments else Any)
        if items.get("type") not in _SCALAR_TYPES or items.get("nullable"):
            raise self.error("the items of a set must be texts, numbers or booleans, not null", hint="use a list")
        return {"type": "array", "items": items, "x-kubernetes-list-type": "set"}

    def _map(self, arguments: tuple[Any, ...]) -> Schema:
        keys, values = arguments if len(arguments) == 2 else (str, Any)
        described = _Type.of(keys)
        if [_plain(part) for part in described.alternatives] != [str] or described.marks:
            raise self.error(f"the keys of a map must be texts, got {_name(keys)}", hint="use `dict[str, …]`")
        if _Type.of(values).alternatives == (Any,):
            return {"type": "object", **_PRESERVE}
        return {"type": "object", "additionalProperties": self.below("{}").schema(values)}

    def _constrained(self, schema: Schema, marks: tuple[Any, ...]) -> Schema:
        rules = []
        for mark in marks:
            if isinstance(mark, msgspec.Meta):
                schema |= _constraints(mark, schema)
            elif isinstance(mark, ListMap):
                schema |= self._list_map(mark, schema)
            elif isinstance(mark, Rule):
                rules.append(rule_of(mark))
        if rules:
            schema["x-kubernetes-validations"] = [*schema.get("x-kubernetes-validations", ()), *rules]
        return schema

    def _list_map(self, mark: ListMap, schema: Schema) -> Schema:
        items = schema.get("items") or {}
        properties = items.get("properties") or {}
        if items.get("nullable"):
            raise self.error("the items of a list with ListMap cannot be null", hint="use a list of structs")
        for key in mark.keys:
            if key not in properties:
                raise self.error(
                    f"ListMap({key!r}): the items have no field {key!r}",
                    hint=f"they have {', '.join(properties)}" if properties else "use a list of structs",
                )
            known = properties[key]
            if known.get("nullable") or not (
                known.get("type") in _SCALAR_TYPES or "x-kubernetes-int-or-string" in known
            ):
                raise self.error(
                    f"ListMap({key!r}): the items' field {key!r} must be a text, number or boolean, not null"
                )
            if key not in items.get("required", ()) and "default" not in known:
                raise self.error(f"ListMap({key!r}): the items' field {key!r} must be required, or have a default")
        return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(mark.keys)}


@dataclass(frozen=True, slots=True)
class _Type:
    """A type without its wrappers."""

    alternatives: tuple[Any, ...]
    optional: bool = False
    #: The arguments of `Annotated`, the inner ones first.
    marks: tuple[Any, ...] = ()

    @classmethod
    def of(cls, kind: Any) -> _Type:
        """Take a type apart."""
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if origin is typing.Annotated:
            inner = cls.of(arguments[0])
            return replace(inner, marks=(*inner.marks, *kind.__metadata__))
        if isinstance(kind, typing.NewType):
            return cls.of(kind.__supertype__)
        if type(kind).__name__ == "TypeAliasType":
            return cls.of(kind.__value__)
        if origin in (Union, types.UnionType):
            parts = [cls.of(argument) for argument in arguments]
            return cls(
                tuple(other for part in parts for other in part.alternatives),
                any(part.optional for part in parts),
                tuple(mark for part in parts for mark in part.marks),
            )
        if kind is None or kind is types.NoneType:
            return cls((), optional=True)
        if kind is msgspec.UnsetType:
            return cls(())
        if origin is Literal and None in arguments:
            values = tuple(value for value in arguments if value is not None)
            return cls((Literal[values],) if values else (), optional=True)
        return cls((kind,))


def _constraints(meta: msgspec.Meta, schema: Schema) -> Schema:
    sized = {"array": "Items", "object": "Properties"}.get(schema.get("type", ""), "Length")
    lengths = [meta.min_length, meta.max_length]
    if schema.get("format") == "byte":
        # Base64 has four characters for up to three bytes.
        lengths = [None if length is None else -(-length // 3) * 4 for length in lengths]
    content: Schema = {
        "title": meta.title,
        "description": meta.description,
        "minimum": meta.gt if meta.ge is None else meta.ge,
        "exclusiveMinimum": True if meta.gt is not None else None,
        "maximum": meta.lt if meta.le is None else meta.le,
        "exclusiveMaximum": True if meta.lt is not None else None,
        "multipleOf": meta.multiple_of,
        "pattern": meta.pattern,
        f"min{sized}": lengths[0],
        f"max{sized}": lengths[1],
    }
    return {name: value for name, value in content.items() if value is not None} | (meta.extra_json_schema or {})


def _default(info: msgspec.structs.FieldInfo) -> Any:
    """Return a field's default as in JSON; None if it has none, or one that reads as absent."""
    value = default_of(info)
    if value is msgspec.UNSET:
        return None
    if isinstance(value, msgspec.Struct):
        return _differing(value)
    # The server refuses empty Base64.
    return None if value == b"" else _as_json(value)


def _differing(value: msgspec.Struct) -> dict[str, Any]:
    """Return the fields that differ from their defaults, which the server adds."""
    config = value.__struct_config__
    content: dict[str, Any] = {} if config.tag is None else {str(config.tag_field): config.tag}
    for field in msgspec.structs.fields(value):
        field_value = getattr(value, field.name)
        if field.required or field_value != default_of(field):
            content[field.encode_name] = (
                _differing(field_value) if isinstance(field_value, msgspec.Struct) else _as_json(field_value)
            )
    return content


def _as_json(value: Any) -> Any:
    """Return a value as its JSON is decoded: a tuple as a list."""
    return msgspec.json.decode(msgspec.json.encode(value, order="deterministic"))


def _text(struct: type) -> str:
    return inspect.cleandoc(struct.__doc__ or "")


def _is_struct(kind: Any) -> bool:
    kind = typing.get_origin(kind) or kind
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _plain(kind: Any) -> Any:
    return typing.get_origin(kind) or kind


def _name(kind: Any) -> str:
    if isinstance(kind, type) and typing.get_origin(kind) is None:
        return kind.__name__
    return str(kind).replace("typing.", "")
