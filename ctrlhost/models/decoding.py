"""Whether msgspec can decode a struct, which else shows at the first object."""

from __future__ import annotations

import inspect
import re
import typing
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator


class Undecodable(NamedTuple):
    """A struct that msgspec cannot decode, its field, empty if unknown, what is wrong, and what to write instead."""

    struct: type[Any]
    field: str
    problem: str
    hint: str


def undecodable(kind: Any, seen: frozenset[Any] = frozenset()) -> Undecodable | None:
    """Return why msgspec cannot decode a struct, with the innermost struct; None if it can.

    `seen` are the structs around it.
    """
    error = _try_decoder(kind)
    if error is None or kind in seen:
        return None
    struct: type[Any] = typing.get_origin(kind) or kind
    try:
        fields = msgspec.structs.fields(kind)
    except Exception as unevaluated:  # noqa: BLE001 - an annotation may raise anything
        hint = "import the types at run time, and define the structs at the top level of a module"
        return Undecodable(struct, _field_with(struct, unevaluated), _one_line(unevaluated), hint)
    hint = (
        "write a type that msgspec decodes; the limits of an optional one as `Annotated[int, msgspec.Meta(…)] | None`"
    )
    around = seen | {kind}
    for field in fields:
        if (reason := _try_decoder(field.type)) is None:
            continue
        structs = list(_structs_in(field.type))
        if (inner := next(filter(None, (undecodable(candidate, around) for candidate in structs)), None)) is not None:
            return inner
        # A recursive field fails because of another one.
        if around.isdisjoint(structs):
            return Undecodable(struct, field.name, _one_line(reason), hint)
    return Undecodable(struct, "", _one_line(error), hint)


def _try_decoder(kind: Any) -> Exception | None:
    try:
        msgspec.json.Decoder(kind)
    except Exception as error:  # noqa: BLE001 - an annotation may raise anything
        return error
    return None


def _structs_in(kind: Any) -> Iterator[Any]:
    origin = typing.get_origin(kind) or kind
    if isinstance(origin, type) and issubclass(origin, msgspec.Struct):
        yield kind
    for argument in typing.get_args(kind):
        yield from _structs_in(argument)


def _field_with(struct: type[Any], error: Exception) -> str:
    """Return the field whose annotation has the name that is not defined."""
    name = re.escape(getattr(error, "name", None) or "")
    try:
        annotations = {
            key: annotation for base in struct.__mro__ for key, annotation in inspect.get_annotations(base).items()
        }
    except NameError:
        return ""
    return next(
        (key for key, annotation in annotations.items() if name and re.search(rf"\b{name}\b", str(annotation))), ""
    )


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
