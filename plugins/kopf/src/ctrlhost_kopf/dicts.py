"""Nested fields of mappings: parse their paths, read, set and remove them, and views that follow their source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from typing import Any, TypeAlias

FieldPath: TypeAlias = tuple[str, ...]
FieldSpec: TypeAlias = str | FieldPath | list[str] | None
#: The modules of the official client's objects, which can be iterable.
MODELS = ("kubernetes.client.models.", "kubernetes_asyncio.client.models.")
#: The default of what has none.
_RAISE: Any = object()


def parse_field(field: FieldSpec) -> FieldPath:
    """Return the path of a field; ValueError for anything but a text or a sequence of texts."""
    if field is None:
        return ()
    if isinstance(field, str):
        return tuple(field.split("."))
    if isinstance(field, list | tuple):
        return tuple(field)
    raise ValueError(f"a field must be a text or a sequence of texts, got {field!r}")


def resolve(source: Any, field: FieldSpec, default: Any = _RAISE) -> Any:
    """Return a nested value, or `default`; KeyError or TypeError without one."""
    value = source
    for key in parse_field(field):
        if not isinstance(value, Mapping):
            if default is _RAISE:
                raise TypeError(f"there is no field {key!r} in {value!r}, which is not a mapping")
            return default
        if key not in value:
            if default is _RAISE:
                raise KeyError(key)
            return default
        value = value[key]
    return value


def ensure(target: MutableMapping[Any, Any], field: FieldSpec, value: Any) -> None:
    """Set a nested value, and create the mappings that it needs; ValueError for an empty path."""
    path = parse_field(field)
    if not path:
        raise ValueError("the root of a mapping cannot be set; name a field")
    for key in path[:-1]:
        target = target[key] if key in target else target.setdefault(key, {})
    target[path[-1]] = value


def remove(target: MutableMapping[Any, Any], field: FieldSpec) -> None:
    """Remove a nested value, and the mappings that are empty then; ValueError for an empty path."""
    path = parse_field(field)
    if not path:
        raise ValueError("the root of a mapping cannot be removed; name a field")
    first, rest = path[0], path[1:]
    if not rest:
        target.pop(first, None)
    elif first in target:
        remove(target[first], rest)
        if target[first] == {}:
            del target[first]


def cherrypick(source: Mapping[Any, Any], target: dict[Any, Any], fields: Iterable[FieldSpec], pick: Any) -> None:
    """Copy those of the fields that `source` has."""
    for field in fields:
        with suppress(KeyError):
            ensure(target, field, pick(resolve(source, field)))


def walk(objs: Any, nested: Iterable[FieldSpec] = ()) -> Iterator[Any]:
    """Yield the objects of any nesting of iterables, with those at the paths `nested` in each."""
    objs = getattr(objs, "obj", objs)
    if objs is None:
        return
    if isinstance(objs, Mapping):
        yield objs
        for field in nested:
            with suppress(KeyError, TypeError):
                yield resolve(objs, field)
    elif isinstance(objs, Iterable) and not is_model(objs):
        for obj in objs:
            yield from walk(obj, nested)
    else:
        yield objs
        for field in nested:
            with suppress(AttributeError):
                yield _attribute(objs, parse_field(field))


def is_model(obj: Any) -> bool:
    """Return whether this is an object of the official client, or of its asynchronous kin."""
    return any(cls.__module__.startswith(MODELS) for cls in type(obj).__mro__)


def _attribute(obj: Any, path: FieldPath) -> Any:
    """Return the value at a path in an object of the official client, which renames the fields."""
    for key in path:
        names = {field: name for name, field in getattr(obj, "attribute_map", {}).items()}
        obj = obj[key] if isinstance(obj, Mapping) else getattr(obj, names.get(key, key))
    return obj


class View(Mapping[str, Any]):
    """A mapping inside another one, read each time that it is used; empty where that has none."""

    def __init__(self, source: Mapping[Any, Any], field: FieldSpec = None) -> None:
        self._source, self._path = source, parse_field(field)

    def _target(self) -> Any:
        value = resolve(self._source, self._path, None)
        return {} if value is None else value

    def __repr__(self) -> str:
        return repr(dict(self))

    def __len__(self) -> int:
        return len(self._target())

    def __iter__(self) -> Iterator[str]:
        return iter(self._target())

    def __getitem__(self, key: str) -> Any:
        return self._target()[key]


class MutableView(View, MutableMapping[str, Any]):
    """A view that creates its mapping in the source when it is written to."""

    _source: MutableMapping[Any, Any]

    def __setitem__(self, key: str, value: Any) -> None:
        ensure(self._source, (*self._path, key), value)

    def __delitem__(self, key: str) -> None:
        del self._target()[key]
