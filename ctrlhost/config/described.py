"""The settings of a struct with their types, values, defaults and origins, as `ctrlhost settings` prints them."""

from __future__ import annotations

import types
import typing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ctrlhost.config.secret import Secret
from ctrlhost.config.types import RawValue, canonical
from ctrlhost.models.docstrings import docstrings

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAMES = {str: "text", bool: "true or false", int: "number", float: "number", types.NoneType: "", Secret: "secret"}


@dataclass(frozen=True, slots=True)
class DescribedSetting:
    """One setting; values and defaults are as in JSON, and secrets `***`."""

    name: str
    type: str
    value: Any
    default: Any
    #: Where the value comes from: a file, a variable of the environment, a flag, or `default`.
    source: str
    description: str


def described(settings: msgspec.Struct, table: Mapping[str, Any], file: str) -> list[DescribedSetting]:
    """Return the settings of a struct, of which `table` holds those that differ from the defaults, from `file`."""
    texts = docstrings(type(settings))
    origins = {canonical(name): _origin(value) or file for name, value in table.items()}
    return [
        DescribedSetting(
            name=field.encode_name,
            type=type_name(field.type),
            value=_plain(getattr(settings, field.name)),
            default=_plain(_default(field)),
            source=_source(canonical(field.encode_name), origins),
            description=texts.get(field.name) or _meta(field.type, "description"),
        )
        for field in msgspec.structs.fields(settings)
    ]


def type_name(kind: Any) -> str:
    """Return the name of a setting's type for users."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        extra = next((meta.extra for meta in arguments if isinstance(meta, msgspec.Meta) and meta.extra), {})
        return str(extra.get("type") or type_name(arguments[0]))
    if origin is Literal:
        return " or ".join(map(str, arguments))
    if origin in (typing.Union, types.UnionType):
        return " or ".join(filter(None, map(type_name, arguments)))
    if origin in (tuple, list, set, frozenset):
        return "list"
    if origin is dict or (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return "table"
    return _NAMES.get(kind, getattr(kind, "__name__", str(kind)).lower())


def _meta(kind: Any, name: str) -> str:
    """Return what the `msgspec.Meta` of a type says."""
    metas = (meta for meta in typing.get_args(kind) if isinstance(meta, msgspec.Meta))
    return next((text for meta in metas if (text := getattr(meta, name))), "")


def _source(name: str, origins: Mapping[str, str]) -> str:
    # A secret may be given as `NAME_file`.
    return origins.get(name) or origins.get(f"{name}_file") or "default"


def _origin(value: Any) -> str:
    if isinstance(value, RawValue):
        return value.origin
    if isinstance(value, dict):
        return ", ".join(dict.fromkeys(filter(None, map(_origin, value.values()))))
    return ""


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return None if field.default is msgspec.NODEFAULT else field.default


def _plain(value: Any) -> Any:
    """Return a value in the types of JSON; durations and sizes as settings accept them."""
    if isinstance(value, (bool, str)) or value is None or type(value) in (int, float):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted(map(_plain, value), key=str)
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, msgspec.Struct):
        return {field.encode_name: _plain(getattr(value, field.name)) for field in msgspec.structs.fields(value)}
    return "" if isinstance(value, Secret) and not value else str(value)
