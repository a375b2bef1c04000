"""Merging an applied configuration into the live object, and removing fields without a manager."""

from __future__ import annotations

from typing import Any

from ctrlhost_sandbox.schema.fieldset import FieldSet, Path, children, covers, element_of, is_granular, is_keyed
from ctrlhost_sandbox.schema.shapes import ANY, Shape


def merge(shape: Shape, live: Any, applied: Any) -> Any:
    """Return `live` merged with `applied`; neither is changed. A null keeps parts, and replaces all else."""
    if applied is None and live and is_granular(shape, live):
        return live
    if type(live) is not type(applied) or not is_granular(shape, applied) or not is_granular(shape, live):
        return applied
    if type(applied) is list:
        return _merge_list(shape, live, applied)
    result = dict(live)
    for key, value in applied.items():
        child = ANY if shape.type == "any" else shape.child(key) or ANY
        result[key] = merge(child, live.get(key), value)
    return result


def _merge_list(shape: Shape, live: list[Any], applied: list[Any]) -> list[Any]:
    """Merge by keys: the applied items in their order, the live ones at their place among them."""
    wanted = {element_of(shape, item): item for item in applied}
    present = {element_of(shape, item): item for item in live}
    result: list[Any] = []
    waiting = list(wanted)
    for name, item in present.items():
        if name not in wanted:
            result.append(item)
            continue
        # Items before it in the applied list come first.
        if name in waiting:
            index = waiting.index(name)
            result += [_joined(shape, present, wanted, other) for other in waiting[: index + 1]]
            del waiting[: index + 1]
    result += [_joined(shape, present, wanted, other) for other in waiting]
    return result


def _joined(shape: Shape, present: dict[str, Any], wanted: dict[str, Any], name: str) -> Any:
    if is_keyed(shape) and name in present:
        return merge(shape.element or ANY, present[name], wanted[name])
    return wanted[name]


def remove(shape: Shape, value: Any, gone: FieldSet, kept: FieldSet, path: Path = ()) -> Any:
    """Return `value` without the members in `gone` that `kept` does not cover; None if nothing is left."""
    if not covers(gone, path) and path:
        return value
    if not is_granular(shape, value):
        return None if path in gone and path not in kept else value
    left: list[tuple[str, Any]] = []
    for element, child, item in children(shape, value):
        below = (*path, element)
        if not covers(gone, below):
            left.append((element, item))
            continue
        # A named field goes with all that its applier set in it, whatever the server added.
        named = shape.type == "object" and element.startswith("f:")
        if (named or below in gone) and not covers(kept, below):
            continue
        remaining = remove(child, item, gone, kept, below)
        # What a real server has emptied is null.
        if remaining is not None or below in kept:
            left.append((element, remaining))
    if type(value) is dict:
        known = {element[2:] for element, _, _ in children(shape, value)}
        result = {key: item for key, item in value.items() if key not in known}
        result.update({element[2:]: item for element, item in left})
        return result if result or not value else None
    return [item for _, item in left] or None
