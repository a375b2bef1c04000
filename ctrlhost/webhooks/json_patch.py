"""The smallest JSON patch between two objects, and what a function has changed of the part that it was shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.webhooks.list_items import key_of, matched

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    #: An operation of a JSON patch.
    Operation = dict[str, Any]
    #: A structural schema, which says which lists are list maps.
    Schema = Mapping[str, Any]

_NO_SCHEMA: dict[str, Any] = {}


def patch_of(before: Any, after: Any, schema: Schema = _NO_SCHEMA, path: str = "") -> Iterator[Operation]:
    """Return the operations `add`, `replace` and `remove` that lead from `before` to `after`.

    A list is replaced as a whole, unless the schema says that it is a list map.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted(before.keys() - after.keys()):
            yield {"op": "remove", "path": _joined(path, name)}
        for name, value in after.items():
            if name not in before:
                yield {"op": "add", "path": _joined(path, name), "value": value}
            else:
                yield from patch_of(before[name], value, _member(schema, name), _joined(path, name))
    elif not is_same(before, after):
        keys = schema.get("x-kubernetes-list-map-keys")
        items = _patch_of_items(before, after, schema, path) if keys else None
        yield from [{"op": "replace", "path": path, "value": after}] if items is None else items


def field_of(operation: Operation) -> str:
    """Return the path of an operation as messages have it: `spec.ports[0].name`."""
    names = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
    text = "".join(f"[{name}]" if name.isdecimal() or name == "-" else f".{name}" for name in names)
    return text.lstrip(".")


def is_same(one: Any, other: Any) -> bool:
    """Return whether two values are the same in JSON, where true is not 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_same(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def changed(whole: Any, before: Any, after: Any, schema: Schema = _NO_SCHEMA) -> Any:
    """Return `whole` with what differs between `before` and `after`, which are shown parts of it.

    What a struct does not declare stays. Items of lists are found again by equality, then by the keys of a list map or
    their `name`, then by what stands before them.
    """
    if is_same(before, after):
        return whole
    if isinstance(whole, dict) and isinstance(before, dict) and isinstance(after, dict):
        result = {name: value for name, value in whole.items() if name in after or name not in before}
        for name, value in after.items():
            if name not in before or name not in whole:
                # A default of the struct that nobody has changed is not written.
                if name not in before or not is_same(before[name], value):
                    result[name] = value
            else:
                result[name] = changed(whole[name], before[name], value, _member(schema, name))
        return result
    lists = all(isinstance(value, list) for value in (whole, before, after))
    if lists and len(whole) == len(before):
        return _changed_items(whole, before, after, schema)
    return after


def _changed_items(whole: Sequence[Any], before: Sequence[Any], after: Sequence[Any], schema: Schema) -> list[Any]:
    places = matched(before, after, schema.get("x-kubernetes-list-map-keys") or ("name",))
    items = schema.get("items", _NO_SCHEMA)
    # Scalars are as returned, also of a set, which has no order.
    return [
        changed(whole[places[place]], before[places[place]], item, items) if place in places else item
        for place, item in enumerate(after)
    ]


def _patch_of_items(before: Any, after: Any, schema: Schema, path: str) -> list[Operation] | None:
    """Return the operations on the items of a list map; None if it must be replaced, since the order changes."""
    if not (isinstance(before, list) and isinstance(after, list)):
        return None
    keys = schema["x-kubernetes-list-map-keys"]
    old, new = [key_of(item, keys) for item in before], [key_of(item, keys) for item in after]
    if None in old or None in new or len(set(old)) < len(old) or len(set(new)) < len(new):
        return None
    kept = [key for key in old if key in new]
    if new[: len(kept)] != kept:
        return None
    removed = [place for place, key in enumerate(old) if key not in new]
    operations: list[Operation] = [{"op": "remove", "path": f"{path}/{place}"} for place in reversed(removed)]
    for place, key in enumerate(kept):
        item = before[old.index(key)]
        operations += patch_of(item, after[place], schema.get("items", _NO_SCHEMA), f"{path}/{place}")
    return operations + [{"op": "add", "path": f"{path}/-", "value": item} for item in after[len(kept) :]]


def _member(schema: Schema, name: str) -> Schema:
    properties = schema.get("properties") or _NO_SCHEMA
    member = properties.get(name, schema.get("additionalProperties"))
    return member if isinstance(member, dict) else _NO_SCHEMA


def _joined(path: str, name: str) -> str:
    return f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
