"""Strategic merge patch: like a merge patch, but lists with a merge key are merged item by item."""

from __future__ import annotations

from typing import Any

from ctrlhost_sandbox.apimachinery.status import Failure
from ctrlhost_sandbox.schema import go_text
from ctrlhost_sandbox.schema.shapes import ANY, Shape

_PATCH = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETE = "$deleteFromPrimitiveList/"


def strategic_merge(shape: Shape, original: Any, patch: dict[str, Any]) -> dict[str, Any]:
    """Return `original` with `patch` applied; neither is changed."""
    base: dict[str, Any] = original if type(original) is dict else {}
    if _PATCH in patch:
        directive = patch[_PATCH]
        if directive == "replace":
            return {key: value for key, value in patch.items() if key != _PATCH}
        if directive == "delete":
            return {}
        why = f"unknown patch type: {go_text.show(directive)} in map: {go_text.show(patch)}"
        raise Failure(500, "", why)
    result = dict(base)
    retained = patch.get(_RETAIN)
    if type(retained) is list:
        result = {key: value for key, value in result.items() if key in retained}
    for key, value in patch.items():
        if key.startswith("$"):
            continue
        child = shape.child(key) or ANY
        if value is None:
            result.pop(key, None)
        elif type(value) is dict:
            if type(result.get(key)) is dict:
                result[key] = strategic_merge(child, result[key], value)
            elif _PATCH not in value:
                result[key] = _plain(value)
        elif type(value) is list:
            order = patch.get(_ORDER + key)
            result[key] = _merge_list(child, result.get(key), value, order if type(order) is list else None)
        else:
            result[key] = value
    for key, value in patch.items():
        name = key.partition("/")[2]
        if type(value) is not list or type(result.get(name)) is not list:
            continue
        if key.startswith(_DELETE):
            result[name] = [item for item in result[name] if item not in value]
        elif key.startswith(_ORDER) and name not in patch:
            result[name] = _ordered(shape.child(name) or ANY, result[name], value, result[name])
    return result


def _merge_list(shape: Shape, original: Any, patch: list[Any], order: list[Any] | None) -> list[Any]:
    if type(original) is not list:
        added: list[Any] = _plain(patch)
        return added
    base: list[Any] = original
    if (shape.merge_scalars or shape.merge_key) and len({type(item) for item in (*base, *patch)}) > 1:
        values = go_text.show([base, patch])
        raise Failure(500, "", f"list element types are not identical: {values}")
    if shape.merge_scalars and not shape.merge_key:
        merged = [*base, *(item for item in patch if item not in base)]
        return _ordered(shape, merged, patch if order is None else order, base)
    if not shape.merge_key:
        return patch
    key, element = shape.merge_key, shape.element or ANY
    if any(type(item) is dict and item.get(_PATCH) == "replace" and len(item) == 1 for item in patch):
        return [item for item in patch if _PATCH not in item]
    result = list(base)
    for item in (*base, *patch):
        if type(item) is not dict or key not in item:
            raise Failure(500, "", f"map: {go_text.show(item)} does not contain declared merge key: {key}")
    for item in patch:
        index = next(
            (at for at, other in enumerate(result) if type(other) is dict and other.get(key) == item[key]), None
        )
        if item.get(_PATCH) == "delete":
            result = [other for other in result if other.get(key) != item[key]]
        elif index is None:
            result.append(strategic_merge(element, None, item))
        else:
            result[index] = strategic_merge(element, result[index], item)
    return _ordered(shape, result, patch if order is None else order, base)


def _plain(value: Any) -> Any:
    """Remove directives and nulls from a value that there is no old one for."""
    if type(value) is dict:
        kept = {key: item for key, item in value.items() if not key.startswith("$") and item is not None}
        return {key: _plain(item) for key, item in kept.items() if type(item) is not dict or _PATCH not in item}
    if type(value) is list:
        return [_plain(item) for item in value if type(item) is not dict or _PATCH not in item]
    return value


def _ordered(shape: Shape, items: list[Any], order: list[Any], before: list[Any]) -> list[Any]:
    """Sort the items that `order` names by it. The others keep their order, and precede a named one only if both
    existed `before` in that order; so new items come first."""
    key = shape.merge_key

    def identity(item: Any) -> Any:
        return item.get(key) if key and type(item) is dict else item

    wanted, old = [identity(item) for item in order], [identity(item) for item in before]
    named = sorted((item for item in items if identity(item) in wanted), key=lambda item: wanted.index(identity(item)))
    others = [item for item in items if identity(item) not in wanted]
    result: list[Any] = []
    while named and others:
        left, right = identity(others[0]), identity(named[0])
        first = left in old and right in old and old.index(left) < old.index(right)
        result.append(others.pop(0) if first else named.pop(0))
    return result + others + named
