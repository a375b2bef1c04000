"""The validation rules of CRDs (`x-kubernetes-validations`): compiled, checked and evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost_sandbox._native import CelValidator
from ctrlhost_sandbox.apimachinery.status import Cause
from ctrlhost_sandbox.schema.structural import VALIDATIONS, Schema, children, properties

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctrlhost_sandbox.apimachinery.objects import Object

_BLOCKING = frozenset(
    {"FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid"}
)
"""Reasons after which an object's values may lack the types that rules rely on."""
_UNCHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
_WORDS = {
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueNotSupported": "Unsupported value",
    "FieldValueRequired": "Required value",
    "InternalError": "Internal error",
}
_WITHOUT_VALUE = frozenset({"FieldValueForbidden", "FieldValueRequired", "InternalError"})


def has_rules(schema: Schema) -> bool:
    """Return whether the schema contains any rule."""
    return bool(schema.get(VALIDATIONS)) or any(map(has_rules, children(schema)))


def compiled(schema: Schema) -> CelValidator | None:
    """Compile the rules of a schema, cached; None if it has none."""
    return _compiled(msgspec.json.encode(schema)) if has_rules(schema) else None


@lru_cache(maxsize=64)
def _compiled(schema: bytes) -> CelValidator:
    return CelValidator(schema.decode())


def problems(schema: Schema, field: str) -> list[Cause]:
    """Return the problems of the rules of the schema at `field`."""
    validator = compiled(schema)
    causes = []
    for below, reason, value, message, within in validator.problems if validator is not None else ():
        text = message if within is None else f"{message}{field}{within}"
        causes.append(_cause(f"{field}{below}", reason, value, text))
    return causes or (_default_causes(schema, field) if validator is not None else [])


def _default_causes(schema: Schema, field: str) -> list[Cause]:
    """Evaluate the rules on the defaults of a schema and its children."""
    causes = []
    value = schema.get("default")
    if value is not None and has_rules(schema):
        validator = CelValidator(msgspec.json.encode(schema).decode(), root=False)
        for below, reason, part, message, _ in validator.validate(msgspec.json.encode(value).decode()):
            where = ".".join(filter(None, (f"{field}.default", below)))
            causes.append(_cause(where, reason, part, message))
    for name, child in properties(schema).items():
        causes += _default_causes(child, f"{field}.properties[{name}]")
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), Mapping):
            causes += _default_causes(schema[name], f"{field}.{name}")
    return causes


def findings(
    validator: CelValidator, causes: Iterable[Cause], obj: Object, old: Object | None, warnings: list[str]
) -> list[Cause]:
    """Evaluate the rules on an object, unless `causes` show that it does not fit its schema."""
    if any(cause.reason in _BLOCKING for cause in causes):
        return [Cause("FieldValueInvalid", f"Invalid value: null: {_UNCHECKED}", "<nil>")]
    problems = []
    for field, reason, value, message, warning in validator.validate(
        _encoded(obj), None if old is None else _encoded(old)
    ):
        cause = _cause(field or "<nil>", reason, value, message)
        if warning:
            warnings.append(f"{cause.field}: {cause.message}")
        else:
            problems.append(cause)
    return problems


def _encoded(obj: Object) -> str:
    metadata: dict[str, Any] = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return msgspec.json.encode({**obj, "metadata": metadata}).decode()


def _cause(field: str, reason: str, value: str, message: str) -> Cause:
    words = _WORDS.get(reason, "Invalid value")
    if value and reason not in _WITHOUT_VALUE:
        words += f": {value}"
    return Cause(reason, words if reason == "FieldValueDuplicate" else f"{words}: {message}", field)
