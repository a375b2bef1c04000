"""Validation of custom resources by their schema, with the causes of a real server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ctrlhost_sandbox._native import Pattern
from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.apimachinery.objects import same
from ctrlhost_sandbox.apimachinery.status import Cause
from ctrlhost_sandbox.schema import embedded, formats, numbers
from ctrlhost_sandbox.schema.list_types import key
from ctrlhost_sandbox.schema.structural import EMBEDDED, INT_OR_STRING, Schema, additional, properties

ABSENT = object()
_KEPT_BYTES, _KEPT_PATTERNS = 64 << 10, 1024
_TYPES = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}


#: The formats of numbers in memory.
_FORMATS_OF = {int: "int64", float: "float64"}


def validate(schema: Schema, value: Any, path: str = "", old: Any = ABSENT) -> list[Cause]:
    """Check `value`; unchanged parts of `old` are skipped, so that a stored object can be repaired in steps."""
    if old is not ABSENT and (same(old, value) or _is_reordered(schema, old, value)):
        return []
    if value is None and schema.get("nullable"):
        return _enum_causes(schema, value, path)
    causes = _type_causes(schema, value, path)
    if value is not None:
        causes += _combined_causes(schema, value, path)
        if type(value) is str:
            causes += _string_causes(schema, value, path)
        elif type(value) in (int, float):
            causes += numbers.causes(schema, value, path)
        elif type(value) is list:
            causes += _list_causes(schema, value, path, old)
    causes += _enum_causes(schema, value, path)
    if type(value) is dict:
        causes += _object_causes(schema, value, path, old)
    # A real server reports equal causes of several alternatives once.
    return list(dict.fromkeys(causes)) if len(causes) > 1 else causes


def _is_reordered(schema: Schema, old: Any, value: Any) -> bool:
    """Return whether values differ only in the order of lists with keys."""
    if type(value) is not type(old) or type(value) not in (dict, list) or len(value) != len(old):
        return False
    if type(value) is list:
        items, keys = schema.get("items"), schema.get("x-kubernetes-list-map-keys")
        if not keys or not isinstance(items, Mapping):
            return False
        before = {key(item, keys): item for item in old}
        return all(_is_equal(items, before.get(key(item, keys), ABSENT), item) for item in value)
    declared, rest = properties(schema), additional(schema)
    return all(
        (child := declared.get(name, rest)) is not None and _is_equal(child, old.get(name, ABSENT), item)
        for name, item in value.items()
    )


def _is_equal(schema: Schema, old: Any, value: Any) -> bool:
    return old is not ABSENT and (same(old, value) or _is_reordered(schema, old, value))


def _enum_causes(schema: Schema, value: Any, path: str) -> list[Cause]:
    """Check the enum of a schema; null is never one of its values, also where it lists null."""
    if "enum" not in schema or (value is not None and any(_is_choice(value, item) for item in schema["enum"])):
        return []
    allowed = [item if isinstance(item, str) else status.show(item) for item in schema["enum"]]
    return [status.not_supported(path, value, allowed)]


def _is_choice(value: Any, item: Any) -> bool:
    """Return whether a value is this one of an enum; a fraction is converted to the type of the item first."""
    return same(value, item) or (type(value) is float and type(item) is int and int(value) == item)


def _type_causes(schema: Schema, value: Any, path: str) -> list[Cause]:
    if type(value) is int:
        value = numbers.as_decoded(value)
    kind = _TYPES.get(type(value), "object")
    wanted = ("integer", "string") if schema.get(INT_OR_STRING) else tuple(filter(None, (schema.get("type"),)))
    form = formats.effective(schema)
    numeric = "integer" in wanted or "number" in wanted
    fits = kind in wanted or (kind == "integer" and "number" in wanted)
    fits = fits or (type(value) is float and "integer" in wanted and numbers.is_whole(value))
    if fits or not (wanted or form) or (form and not numeric and type(value) in (str, list)):
        return []
    name = ",".join(wanted)
    if form and type(value) not in (str, list, type(None)):
        name, kind = form, _FORMATS_OF.get(type(value), "")
    text = f'{path} in body must be of type {name}: "{kind}"'
    return [Cause("FieldValueTypeInvalid", f'Invalid value: "{kind}": {text}', path or "<nil>")]


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _object_causes(schema: Schema, value: dict[str, Any], path: str, old: Any) -> list[Cause]:
    before = old if type(old) is dict else {}
    causes: list[Cause] = []
    if schema.get(EMBEDDED):
        causes += embedded.causes(value, path)
    declared, rest = properties(schema), additional(schema)
    for name, item in value.items():
        if (child := declared.get(name, rest)) is not None:
            causes += validate(child, item, _join(path, name), before.get(name, ABSENT))
    size = len(value)
    if (limit := schema.get("maxProperties")) is not None and size > limit:
        causes.append(status.too_many(path, size, limit))
    if (limit := schema.get("minProperties")) is not None and size < limit:
        causes.append(status.invalid_value(path, size, f"{path} in body should have at least {limit} properties"))
    for name in schema.get("required") or ():
        if name not in value:
            causes.append(status.required(_join(path, name)))
    return causes


def _list_causes(schema: Schema, value: list[Any], path: str, old: Any) -> list[Cause]:
    causes: list[Cause] = []
    items = schema.get("items")
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    if isinstance(items, Mapping):
        before = {key(item, keys): item for item in old} if keys and type(old) is list else {}
        for index, item in enumerate(value):
            was = before.get(key(item, keys), ABSENT) if keys else ABSENT
            causes += validate(items, item, f"{path}[{index}]", was)
    size = len(value)
    if (limit := schema.get("maxItems")) is not None and size > limit:
        causes.append(status.too_many(path, size, limit))
    if (limit := schema.get("minItems")) is not None and size < limit:
        causes.append(status.invalid_value(path, size, f"{path} in body should have at least {limit} items"))
    return causes


def _string_causes(schema: Schema, value: str, path: str) -> list[Cause]:
    causes = []
    if (limit := schema.get("maxLength")) is not None and len(value) > limit:
        causes.append(status.too_long(path, limit))
    elif (limit := schema.get("minLength")) is not None and len(value) < limit:
        causes.append(status.invalid_value(path, value, f"{path} in body should be at least {limit} chars long"))
    elif (pattern := schema.get("pattern")) and (cause := _pattern_cause(pattern, value, path)):
        causes.append(cause)
    if (name := formats.effective(schema)) and not formats.fits(name, value):
        causes.append(status.wrong_type(path, value, f"{path} in body must be of type {name}: {status.show(value)}"))
    return causes


def _combined_causes(schema: Schema, value: Any, path: str) -> list[Cause]:
    causes: list[Cause] = []
    if any_of := schema.get("anyOf"):
        tried = [validate(part, value, path) for part in any_of]
        if all(tried):
            text = f'"{path}" must validate at least one schema (anyOf)'
            causes += [numbers.unplaced(text), *_closest(any_of, tried, value)]
    if one_of := schema.get("oneOf"):
        tried = [validate(part, value, path) for part in one_of]
        if (valid := tried.count([])) != 1:
            count = f"Found {valid} valid alternatives" if valid else "Found none valid"
            text = f'"{path}" must validate one and only one schema (oneOf). {count}'
            causes += [numbers.unplaced(text), *(() if valid else _closest(one_of, tried, value))]
    if all_of := schema.get("allOf"):
        tried = [validate(part, value, path) for part in all_of]
        causes += [cause for failed in tried for cause in failed]
        if any(tried):
            none = ". None validated" if all(tried) else ""
            causes.append(numbers.unplaced(f'"{path}" must validate all the schemas (allOf){none}'))
    if (negated := schema.get("not")) and not validate(negated, value, path):
        causes.append(numbers.unplaced(f'"{path}" must not validate the schema (not)'))
    return causes


def _closest(parts: Sequence[Schema], tried: list[list[Cause]], value: Any) -> list[Cause]:
    """Return the causes of the alternative that has made most checks; of several the first."""
    return tried[max(range(len(parts)), key=lambda index: _checks(parts[index], value))]


def _checks(schema: Schema, value: Any) -> int:
    """Count the checks of a value: those of its parts, and one for its right type."""
    count = 0 if _type_causes(schema, value, "") else 1
    if type(value) is dict:
        declared, rest = properties(schema), additional(schema)
        below = ((declared.get(name, rest), item) for name, item in value.items())
        count += sum(1 + _checks(child, item) for child, item in below if child is not None)
    elif type(value) is list and isinstance(items := schema.get("items"), Mapping):
        count += sum(1 + _checks(items, item) for item in value)
    return count


_patterns: dict[str, Pattern] = {}


def compiled(pattern: str) -> Pattern:
    """Compile a schema's pattern, in Go's syntax; ValueError if it is invalid."""
    program = _patterns.get(pattern)
    if program is None:
        program = Pattern(pattern)
        # A large pattern may take a thousand times the usual memory, so it is not cached.
        if program.size <= _KEPT_BYTES:
            if len(_patterns) >= _KEPT_PATTERNS:
                _patterns.clear()
            _patterns[pattern] = program
    return program


def matches(pattern: str, value: str) -> bool:
    """Search `value` for a schema's pattern; ValueError if it exceeds the time limit."""
    return compiled(pattern).occurs_in(value.encode(errors="replace"))


def _pattern_cause(pattern: str, value: str, path: str) -> Cause | None:
    try:
        if matches(pattern, value):
            return None
    except ValueError as error:
        return status.invalid_value(path, value, f"{path} in body can not be matched with '{pattern}': {error}")
    return status.invalid_value(path, value, f"{path} in body should match '{pattern}'")
