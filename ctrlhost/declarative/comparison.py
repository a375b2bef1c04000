"""Compare what a plugin wants of an object with the live one, by the kind's schema.

The schema tells which lists and maps are replaced as a whole, and which values are quantities. Fields that only the
live object has are compared only in what is replaced as a whole. Without a schema, everything is taken as that, and
each value as it is written: then equal objects may differ, but different ones are never equal.
"""

from __future__ import annotations

import math
import re
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ctrlhost.client.kind_schemas import Schema

if TYPE_CHECKING:
    from collections.abc import Iterable

Path: TypeAlias = tuple[str | int, ...]

#: Longer texts are not tried as quantities.
_MAX_QUANTITY = 64
_QUANTITY = re.compile(
    r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([KMGTPE]i)|([numkMGTPE])|[eE]([+-]?\d{1,3}))?", re.ASCII
).fullmatch
#: Enough digits for each product of a number and a scale to be exact.
_EXACT = Context(prec=2 * _MAX_QUANTITY)
_BINARY = {f"{letter}i": Decimal(1024**power) for power, letter in enumerate("KMGTPE", 1)}
_DECIMAL = {
    letter: Decimal((0, (1,), 3 * power))
    for letter, power in zip("numkMGTPE", (-3, -2, -1, 1, 2, 3, 4, 5, 6), strict=True)
}


#: The schema of what a schema does not describe.
_ANYTHING = Schema()


class Leaf(NamedTuple):
    """A value that differs: its path, the desired value, and the live one, None if it is absent."""

    path: Path
    desired: Any
    live: Any


def path_text(path: Path) -> str:
    """Return a path as in messages: `spec.ports[0].port`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")


def differing(desired: dict[str, Any], live: dict[str, Any], schema: Schema | None, path: Path = ()) -> list[Leaf]:
    """Return the leaves of `desired` that differ in `live`, both as JSON decodes; `path` is where they are.

    A null in a mapping of `desired` counts as not named.
    """
    leaves: list[Leaf] = []
    _compare_fields(desired, live, schema or _ANYTHING, path, leaves, whole=schema is None)
    # Fields of protobuf come in another order than those of JSON.
    return sorted(leaves, key=lambda leaf: path_text(leaf.path)) if len(leaves) > 1 else leaves


def leaf_paths(desired: Any, path: Path = ()) -> Iterable[Path]:
    """Return the paths of the leaves, also of empty mappings and lists, in the order of `desired`."""
    below: Iterable[tuple[str | int, Any]] = ()
    if isinstance(desired, dict):
        below = desired.items()
    elif isinstance(desired, list):
        below = enumerate(desired)
    empty = True
    for step, value in below:
        empty = False
        yield from leaf_paths(value, (*path, step))
    if empty:
        yield path


def _compare(desired: Any, live: Any, schema: Schema, path: Path, leaves: list[Leaf], *, whole: bool) -> None:
    """Compare two values; `whole` is true within what is replaced as a whole."""
    if type(desired) is dict and type(live) is dict:
        _compare_fields(desired, live, schema, path, leaves, whole=whole)
    elif type(desired) is list and type(live) is list:
        if schema.list_type != "atomic" and not whole:
            _compare_members(desired, live, schema, path, leaves)
        else:
            _compare_items(desired, live, schema, path, leaves)
    elif live is None and type(desired) is dict and desired:
        before = len(leaves)
        _compare_fields(desired, {}, schema, path, leaves, whole=whole)
        if len(leaves) == before and not schema.omits_empty:
            leaves.append(Leaf(path, desired, live))
    elif not _equal(desired, live, schema):
        leaves.append(Leaf(path, desired, live))


def _compare_fields(
    desired: dict[str, Any],
    live: dict[str, Any],
    schema: Schema,
    path: Path,
    leaves: list[Leaf],
    *,
    whole: bool,
) -> None:
    whole = whole or schema.atomic
    for name, value in desired.items():
        other = live.get(name)
        # Most fields are equal texts: they need no path.
        if value is None or (type(value) is str and value == other):
            continue
        if other is None and schema.values is not None:
            # A map keeps what is empty, as in the labels of nodes.
            leaves.append(Leaf((*path, name), value, None))
        else:
            below = schema.fields.get(name) or schema.values or _ANYTHING
            _compare(value, other, below, (*path, name), leaves, whole=whole)
    if whole:
        for name, other in live.items():
            if desired.get(name) is None and other is not None and other != schema.defaults.get(name):
                leaves.append(Leaf((*path, name), None, other))


def _compare_items(desired: list[Any], live: list[Any], schema: Schema, path: Path, leaves: list[Leaf]) -> None:
    """Compare a list that is replaced as a whole: item by item, with all their fields."""
    if len(desired) != len(live):
        leaves.append(Leaf(path, desired, live))
        return
    items = schema.items or _ANYTHING
    for position, (item, other) in enumerate(zip(desired, live, strict=True)):
        _compare(item, other, items, (*path, position), leaves, whole=True)


def _compare_members(desired: list[Any], live: list[Any], schema: Schema, path: Path, leaves: list[Leaf]) -> None:
    """Compare a list that others may add to: each desired item has to be in it, in the order of `desired`."""
    places = _places(desired, live, schema)
    for position, (item, place) in enumerate(zip(desired, places, strict=True)):
        if place is None:
            leaves.append(Leaf((*path, position), item, None))
        elif type(item) is dict:
            _compare_fields(item, live[place], schema.items or _ANYTHING, (*path, position), leaves, whole=False)
    present = [place for place in places if place is not None]
    if present != sorted(present):
        leaves.append(Leaf(path, desired, live))


def _places(desired: list[Any], live: list[Any], schema: Schema) -> list[int | None]:
    """Return where each desired item is among the live ones, None for those that are missing."""
    defaults = schema.items.defaults if schema.items is not None else {}
    wanted = [_key(item, schema.keys, defaults) for item in desired]
    present = [_key(item, schema.keys, defaults) for item in live]
    places: list[int | None] = [None] * len(desired)
    free = set(range(len(live)))
    # First those that name all of their key: a field of it that is not named may have a default that is not known.
    for position in sorted(range(len(desired)), key=lambda position: wanted[position].count(None)):
        key = wanted[position]
        place = next((place for place in sorted(free) if _matches(key, present[place])), None)
        if place is not None:
            free.remove(place)
            places[position] = place
    return places


def _key(item: Any, keys: tuple[str, ...], defaults: dict[str, Any]) -> tuple[Any, ...]:
    """Return what identifies an item of a list; a scalar of a set is its own key."""
    if type(item) is not dict or not keys:
        return (item,)
    return tuple(item.get(key, defaults.get(key)) for key in keys)


def _matches(key: tuple[Any, ...], present: tuple[Any, ...]) -> bool:
    return len(key) == len(present) and all(
        wanted is None or wanted == other for wanted, other in zip(key, present, strict=True)
    )


def _equal(desired: Any, live: Any, schema: Schema) -> bool:
    """Return whether two values are equal that are not both mappings or lists."""
    if live is None:
        # An empty object of a type with fields is a choice, as `emptyDir: {}` is; an empty map is not.
        is_choice = type(desired) is dict and schema.values is None
        return schema.omits_empty and desired in ("", {}, []) and not is_choice
    if type(desired) is bool or type(live) is bool:
        return desired is live
    if desired == live:
        return True
    if not schema.quantity:
        return False
    number = _number(desired)
    return number is not None and number == _number(live)


def _number(value: Any) -> Decimal | None:
    """Return the value of a number or a quantity, None for others."""
    if type(value) is str and len(value) <= _MAX_QUANTITY and (parts := _QUANTITY(value)):
        digits, binary, decimal, exponent = parts.groups()
        number = Decimal(digits)
        if exponent:
            return _EXACT.scaleb(number, int(exponent))
        scale = _BINARY.get(binary) or _DECIMAL.get(decimal)
        return number if scale is None else _EXACT.multiply(number, scale)
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        # As it is written: 0.1 is 100m.
        return Decimal(repr(value))
    return None
