"""Typed objects, also of other libraries, which are known by what they offer: none of these libraries is imported."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec

from ctrlhost.models.kinds import names_of
from ctrlhost.models.model import to_dict

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class ToDict(Protocol):
    """An object of lightkube or kr8s, or of the official client."""

    def to_dict(self) -> Mapping[str, Any]:
        """Return the fields."""


class ModelDump(Protocol):
    """A model of pydantic, such as one of cloudcoil."""

    def model_dump(self, *, mode: str, by_alias: bool, exclude_none: bool) -> dict[str, Any]:
        """Return the fields."""


if TYPE_CHECKING:
    #: An object as authors give it: a mapping, a cached object, a model, or a typed object of another library.
    AnyObject: TypeAlias = Mapping[str, Any] | msgspec.Struct | ToDict | ModelDump | DataclassInstance


def mapping_of(obj: AnyObject) -> Mapping[str, Any]:
    """Return an object as a mapping with the names of the wire; TypeError for what is none."""
    if isinstance(obj, Mapping):
        return obj
    if isinstance(obj, msgspec.Struct) and (names_of(type(obj)) or not hasattr(obj, "to_dict")):
        return to_dict(obj)
    mapping = form_of(obj)
    if not isinstance(mapping, Mapping):
        raise TypeError(f"an object must be a mapping or a model, got {obj!r:.80}")
    return {str(name): _plain(value) for name, value in mapping.items()}


def form_of(value: Any) -> Any:
    """Return what a typed value offers, whose parts may be typed themselves; the value itself if that is nothing."""
    if isinstance(value, type):
        return value
    # Of the official client, whose `to_dict` and `model_dump` differ by version.
    names = getattr(value, "attribute_map", None)
    if isinstance(names, Mapping):
        return {name: part for attribute, name in names.items() if (part := getattr(value, attribute)) is not None}
    if callable(convert := getattr(value, "to_dict", None)):
        return convert()
    if callable(dump := getattr(value, "model_dump", None)):
        return dump(mode="json", by_alias=True, exclude_none=True)
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    form = form_of(value)
    return value if form is value else _plain(form)
