"""Compare what a plugin wants of an object with the live one, without a schema.

Values that the server rewrites to an equal form do not differ: numbers of one value, scalars that read as one quantity,
and empty values that it leaves out. What only the live object has is not compared.
"""

from __future__ import annotations

import math
import re
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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


class Leaf(NamedTuple):
    """A value that differs: its path, the desired value, and the live one, None if it is absent."""

    path: Path
    desired: Any
    live: Any


def path_text(path: Path) -> str:
    """Return a path as in messages: `spec.ports[0].port`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")


def differing(desired: dict[str, Any], live: dict[str, Any], path: Path = ()) -> list[Leaf]:
    """Return the leaves of `desired` that differ in `live`, both as JSON decodes; `path` is where they are.

    A null in a mapping of `desired` counts as not named.
    """
    found: list[Leaf] = []
    _compare_fields(desired, live, path, found)
    return found


def differing_texts(desired: Any, live: Mapping[str, Any] | None, path: Path) -> list[Leaf]:
    """Return the entries of a mapping of texts that differ in `live`, as labels do from `1.1` to `1.10`.

    The server keeps texts as they are, empty ones too.
    """
    if not isinstance(desired, dict):
        return []
    others = live or {}
    return [
        Leaf((*path, name), text, others.get(name))
        for name, text in desired.items()
        if text is not None and text != others.get(name)
    ]


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


def _compare_fields(desired: dict[str, Any], live: dict[str, Any], path: Path, found: list[Leaf]) -> None:
    for name, value in desired.items():
        other = live.get(name)
        # Most fields are equal texts: they need no path.
        if value is not None and not (type(value) is str and value == other):
            _compare(value, other, (*path, name), found)


def _compare(desired: Any, live: Any, path: Path, found: list[Leaf]) -> None:
    if type(desired) is dict and desired and (type(live) is dict or _is_empty(live)):
        _compare_fields(desired, live or {}, path, found)
    elif type(desired) is list and desired and type(live) is list:
        _compare_items(desired, live, path, found)
    elif not _equal(desired, live):
        found.append(Leaf(path, desired, live))


def _compare_items(desired: list[Any], live: list[Any], path: Path, found: list[Leaf]) -> None:
    """Compare the items by name if all desired ones have one of their own, else in order with equal length."""
    names = [_name_of(one) for one in desired]
    if None not in names and len(set(names)) == len(names):
        named = {_name_of(one): one for one in reversed(live)}
        live = [named.get(name) for name in names]
    elif len(desired) != len(live):
        found.append(Leaf(path, desired, live))
        return
    for position, (one, other) in enumerate(zip(desired, live, strict=True)):
        _compare(one, other, (*path, position), found)


def _name_of(item: Any) -> str | None:
    name = item.get("name") if type(item) is dict else None
    return name if type(name) is str else None


def _equal(desired: Any, live: Any) -> bool:
    """Return whether two values are equal, of which at least one is a scalar or empty."""
    if _is_empty(desired) or _is_empty(live):
        return _is_empty(desired) and _is_empty(live)
    if type(desired) is bool or type(live) is bool:
        return desired is live
    if desired == live:
        return True
    number = _number(desired)
    return number is not None and number == _number(live)


def _is_empty(value: Any) -> bool:
    return value is None or (type(value) in (str, dict, list) and not value)


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
