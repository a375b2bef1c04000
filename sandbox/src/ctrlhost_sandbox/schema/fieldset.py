"""Sets of fields, as managedFields records them: each member is a path of elements.

An element is `f:name` for a field, `k:{"name":"a"}` for an item of a keyed list, `v:"x"` for a member of a set, and
`i:0` for an item of another list, in messages only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from ctrlhost_sandbox.schema.shapes import ANY, Shape

Path = tuple[str, ...]
FieldSet = set[Path]
_encoder = msgspec.json.Encoder(order="sorted")


@dataclass(eq=False)
class DuplicateItem(Exception):
    """Two items of a keyed list, or of a set, are the same."""

    path: Path


def is_keyed(shape: Shape) -> bool:
    """Return whether a list's items are identified by keys."""
    return shape.type == "array" and shape.list_type == "map" and bool(shape.keys)


def is_granular(shape: Shape, value: Any) -> bool:
    """Return whether the parts of a value are managed one by one."""
    if shape.atomic:
        return False
    if type(value) is dict:
        return shape.type in ("object", "map", "any")
    return type(value) is list and shape.type == "array" and (is_keyed(shape) or shape.list_type == "set")


def element_of(shape: Shape, item: Any) -> str:
    """Return the path element of a list's item."""
    if is_keyed(shape):
        members = item if type(item) is dict else {}
        keys = {key: members.get(key, shape.key_defaults.get(key)) for key in shape.keys}
        return "k:" + _encoder.encode({key: value for key, value in keys.items() if value is not None}).decode()
    return "v:" + _encoder.encode(item).decode()


def children(shape: Shape, value: Any) -> list[tuple[str, Shape, Any]]:
    """Return the parts of a granular value: path element, shape, value."""
    if type(value) is dict:
        parts = []
        for key, item in value.items():
            child = ANY if shape.type == "any" else shape.child(key)
            if child is not None:
                parts.append((f"f:{key}", child, item))
        return parts
    element = shape.element or ANY
    return [(element_of(shape, item), element, item) for item in value]


def fields_of(shape: Shape, value: Any, *, strict: bool = True) -> FieldSet:
    """Return the members that a document sets; if `strict`, DuplicateItem for duplicate items of a list."""
    fields: FieldSet = set()
    _collect(shape, value, (), fields, strict=strict)
    return fields


def _collect(shape: Shape, value: Any, path: Path, fields: FieldSet, *, strict: bool) -> None:
    if not value or not is_granular(shape, value):
        if value != [] or not is_granular(shape, value):
            fields.add(path)
        return
    keyed, seen = type(value) is list, set[str]()
    for element, child, item in children(shape, value):
        below = (*path, element)
        if keyed:
            if element in seen and strict:
                raise DuplicateItem(below)
            seen.add(element)
            fields.add(below)
            if element.startswith("v:"):
                continue
        _collect(child, item, below, fields, strict=strict)


def differences(shape: Shape, old: Any, new: Any) -> tuple[FieldSet, FieldSet]:
    """Return the members that were added or changed, and those that were removed."""
    changed: FieldSet = set()
    removed: FieldSet = set()
    _compare(shape, old, new, (), changed, removed)
    return changed, removed


def _compare(shape: Shape, old: Any, new: Any, path: Path, changed: FieldSet, removed: FieldSet) -> None:
    if old == new and type(old) is type(new):
        return
    if not is_granular(shape, new) or (old is not None and not is_granular(shape, old)):
        changed.add(path)
        return
    before = {element: (child, item) for element, child, item in children(shape, old or type(new)())}
    after = {element: (child, item) for element, child, item in children(shape, new)}
    if not after:
        changed.add(path)
    for element, (child, item) in after.items():
        below = (*path, element)
        if element not in before:
            _add_all(child, item, below, changed)
        else:
            _compare(child, before[element][1], item, below, changed, removed)
    for element, (child, item) in before.items():
        if element not in after:
            _add_all(child, item, (*path, element), removed)


def _add_all(shape: Shape, value: Any, path: Path, fields: FieldSet, *, fresh: bool = False) -> None:
    """Add a value and all its parts; an added or removed container counts itself.

    A part that Go always has counts only if its parent is new too, which `fresh` says.
    """
    always = shape.value_struct or shape.written
    counts = fresh or not always or (bool(value) and not is_granular(shape, value))
    if counts:
        fields.add(path)
    if value and is_granular(shape, value):
        for element, child, item in children(shape, value):
            _add_all(child, item, (*path, element), fields, fresh=counts)


def encode(members: FieldSet) -> dict[str, Any]:
    """Encode a set as FieldsV1."""
    root: dict[str, Any] = {}
    for path in sorted(members):
        node = root
        for element in path:
            node = node.setdefault(element, {})
        node["."] = {}
    _drop_leaf_marks(root)
    return root


def _drop_leaf_marks(node: dict[str, Any]) -> None:
    for key, child in node.items():
        if key != ".":
            _drop_leaf_marks(child)
    if len(node) == 1 and "." in node:
        del node["."]


def decode(tree: Any, path: Path = ()) -> FieldSet:
    """Decode FieldsV1."""
    if type(tree) is not dict or not tree:
        return {path} if path else set()
    fields: FieldSet = set()
    for element, child in tree.items():
        if element == ".":
            fields.add(path)
        elif len(path) < 100:
            fields |= decode(child, (*path, element))
    return fields


def covers(members: FieldSet, path: Path) -> bool:
    """Return whether a set contains `path` or a member below it."""
    size = len(path)
    return path in members or any(len(member) > size and member[:size] == path for member in members)


def dotted(path: Path) -> str:
    """Format a path as conflict messages show it: `.spec.containers[name="main"].image`."""
    text = ""
    for element in path:
        if element.startswith("f:"):
            text += f".{element[2:]}"
        elif element.startswith("k:"):
            keys = msgspec.json.decode(element[2:])
            inner = ",".join(f"{key}={msgspec.json.encode(value).decode()}" for key, value in keys.items())
            text += f"[{inner}]"
        elif element.startswith("i:"):
            text += f"[{element[2:]}]"
        else:
            text += f"[={element[2:]}]"
    return text
