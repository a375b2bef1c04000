"""Checks of fields as data: a strategy lists them in `checks`, in the order in which a real server makes them.

A path is `spec.rules[*].name`; a part behind `[*]` is checked in each item of the list. A field whose parent is missing
is not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.apimachinery.names import name_problems
from ctrlhost_sandbox.apimachinery.status import Cause
from ctrlhost_sandbox.kinds import fields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ctrlhost_sandbox.apimachinery.objects import Object

Check = Callable[["Object", "Object | None"], Iterator[Cause]]
"""Takes the new and the old object, None for a creation, and yields what is wrong."""
_EMPTY: tuple[Any, ...] = (None, "", [], {})


def each(obj: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    """Yield the place and the value of a field, None if it is missing but its parent is not."""
    yield from _each(obj, path.split("."), "")


def _each(value: Any, parts: Sequence[str], where: str) -> Iterator[tuple[str, Any]]:
    if type(value) is not dict:
        return
    name, rest = parts[0].removesuffix("[*]"), parts[1:]
    item, spot = value.get(name), f"{where}.{name}" if where else name
    items = [(spot, item)]
    if parts[0].endswith("[*]"):
        items = [(f"{spot}[{index}]", element) for index, element in enumerate(item or ())]
    for place, element in items:
        if rest:
            yield from _each(element, rest, place)
        else:
            yield place, element


def of_each(path: str, problem: Callable[[str, Any], Iterator[Cause]]) -> Check:
    """Check each value that is set with a function of its place and the value."""

    def check(obj: Object, old: Object | None) -> Iterator[Cause]:
        for where, value in each(obj, path):
            if value not in _EMPTY:
                yield from problem(where, value)

    return check


def required(*paths: str) -> Check:
    """Check that fields are set and not empty."""

    def check(obj: Object, old: Object | None) -> Iterator[Cause]:
        for path in paths:
            for where, value in each(obj, path):
                if value in _EMPTY:
                    yield status.required(where)

    return check


def one_of(path: str, *values: str, always: bool = False) -> Check:
    """Check that a field has one of these values; `always` also checks an empty one."""

    def check(obj: Object, old: Object | None) -> Iterator[Cause]:
        for where, value in each(obj, path):
            if value not in values and (always or value not in _EMPTY):
                yield status.not_supported(where, value or "", values)

    return check


def at_least(least: int, *paths: str, text: str = "") -> Check:
    """Check numbers that are set."""

    def check(obj: Object, old: Object | None) -> Iterator[Cause]:
        for path in paths:
            for where, value in each(obj, path):
                if type(value) is int and value < least:
                    yield status.invalid_value(where, value, text or f"must be greater than or equal to {least}")

    return check


def named(rule: str, *paths: str) -> Check:
    """Check texts that are names, by a rule of `names.name_problems`."""

    def check(obj: Object, old: Object | None) -> Iterator[Cause]:
        for path in paths:
            for where, value in each(obj, path):
                if value and (problems := name_problems(rule, value)):
                    yield from status.invalid_values(where, value, problems)

    return check


def selectors(*paths: str) -> Check:
    """Check label selectors."""

    def check(obj: Object, old: Object | None) -> Iterator[Cause]:
        for path in paths:
            for where, value in each(obj, path):
                if value:
                    yield from fields.selector_causes(value, where)

    return check


def unchanged(*paths: str) -> Check:
    """Check that an update does not change fields."""

    def check(obj: Object, old: Object | None) -> Iterator[Cause]:
        for path in paths:
            yield from fields.immutable(obj, old, *path.split("."))

    return check
