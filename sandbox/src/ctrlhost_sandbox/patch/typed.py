"""The check that an applied configuration fits its schema, with the words of structured-merge-diff."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.schema import fieldset, go_text
from ctrlhost_sandbox.schema.fieldset import is_keyed
from ctrlhost_sandbox.schema.shapes import ANY, Shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctrlhost_sandbox.schema.fieldset import Path

_ELEMENT = "associative list with keys"
_SET_ELEMENT = {
    dict: "associative list without keys has an element that's a map type",
    list: "not supported: associative list with lists as elements",
    type(None): "associative list without keys has an element that's an explicit null",
}


def problem(shape: Shape, document: dict[str, Any]) -> str:
    """Return why a document does not fit, "" if it does: unknown fields, wrong types and duplicate items."""
    root = {key: value for key, value in document.items() if key not in ("apiVersion", "kind")}
    problems = sorted(f"{fieldset.dotted(path)}: {text}" for path, text in _problems(shape, root, ()))
    return problems[0] if len(problems) == 1 else "\n  ".join(["errors:", *problems]) if problems else ""


def _problems(shape: Shape, value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    # A number or text may be anything here; decoding checks it.
    if value is None or shape.type in ("any", "int-or-string"):
        return
    if shape.type in ("object", "map"):
        yield from _of_map(shape, value, path)
    elif shape.type == "array":
        yield from _of_list(shape, value, path)
    elif text := _scalar(shape, value):
        yield path, text


def _of_map(shape: Shape, value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if type(value) is not dict:
        yield path, f"expected map, got {go_text.pointed(value)}"
        return
    for name, item in value.items():
        below, child = (*path, f"f:{name}"), shape.child(name)
        if child is None:
            yield below, "field not declared in schema"
            # The upstream walk stops at the first one.
            return
        yield from _problems(child, item, below)


def _of_list(shape: Shape, value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if type(value) is not list:
        yield path, f"expected list, got {go_text.pointed(value)}"
        return
    element = shape.element or ANY
    associative = is_keyed(shape) or shape.list_type == "set"
    seen: set[str] = set()
    for index, item in enumerate(value):
        name = f"i:{index}"
        if associative:
            if text := _element_problem(shape, item):
                yield path, f"element {index}: {text}"
                return
            name = fieldset.element_of(shape, item)
            if name in seen:
                yield path, f"duplicate entries for key {fieldset.dotted((name,))}"
            seen.add(name)
        yield from _problems(element, item, (*path, name))


def _element_problem(shape: Shape, item: Any) -> str:
    """Return why an element of an associative list has no identity."""
    if not is_keyed(shape):
        return _SET_ELEMENT.get(type(item), "")
    if item is None:
        return f"{_ELEMENT} may not have a null element"
    if type(item) is not dict:
        return f"{_ELEMENT} may not have non-map elements"
    if any(key in item or shape.key_defaults.get(key) is not None for key in shape.keys):
        return ""
    keys = " ".join(f'"{key}"' for key in shape.keys)
    omitted = f"has an element that omits all key fields [{keys}]"
    return f"{_ELEMENT} {omitted} (and doesn't have default values for any key fields)"


def _scalar(shape: Shape, value: Any) -> str:
    """Return why a value is not the scalar of its field."""
    kind = type(value)
    if shape.type in ("integer", "number"):
        return "" if kind in (int, float) else f"expected numeric (int or float), got {go_text.go_type(value)}"
    if shape.type in ("string", "bytes"):
        syntax = go_text.syntax(value)
        return "" if kind is str else f"expected string, got &value.valueUnstructured{{Value:{syntax}}}"
    if shape.type == "boolean":
        return "" if kind is bool else f"expected boolean, got {go_text.pointed(value)}"
    return f"expected any scalar, got {go_text.pointed(value)}" if kind in (dict, list) else ""
