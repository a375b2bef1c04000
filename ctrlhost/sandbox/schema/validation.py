"""Validation of custom resources by their schema, with the causes of a real server."""

from __future__ import annotations

import ipaddress
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ctrlhost._core import Pattern
from ctrlhost.sandbox.apimachinery import status, times
from ctrlhost.sandbox.apimachinery.objects import same
from ctrlhost.sandbox.apimachinery.status import Cause
from ctrlhost.sandbox.schema.structural import EMBEDDED, INT_OR_STRING, Schema, additional, properties

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


def validate(schema: Schema, value: Any, path: str = "", old: Any = ABSENT) -> list[Cause]:
    """Check `value`; unchanged parts of `old` are skipped, so that a stored object can be repaired in steps."""
    if old is not ABSENT and same(old, value):
        return []
    if value is None and schema.get("nullable"):
        return []
    wrong = _type_cause(schema, value, path)
    if wrong is not None:
        return [wrong]
    causes: list[Cause] = []
    if "enum" in schema and not any(same(value, item) for item in schema["enum"]):
        allowed = [item if isinstance(item, str) else status.shown(item) for item in schema["enum"]]
        causes.append(status.not_supported(path, value, allowed))
    if type(value) is dict:
        causes += _object_causes(schema, value, path, old)
    elif type(value) is list:
        causes += _list_causes(schema, value, path, old)
    elif type(value) is str:
        causes += _string_causes(schema, value, path)
    elif type(value) in (int, float):
        causes += _number_causes(schema, value, path)
    return causes + _combined_causes(schema, value, path)


def _type_cause(schema: Schema, value: Any, path: str) -> Cause | None:
    found = _TYPES.get(type(value), "object")
    if schema.get(INT_OR_STRING):
        wanted, fits = "integer,string", type(value) in (int, str)
    else:
        wanted = schema.get("type") or ""
        whole = type(value) is float and value.is_integer()
        fits = not wanted or found == wanted or (wanted == "number" and found == "integer")
        fits = fits or (wanted == "integer" and whole)
    if fits:
        return None
    text = f'{path} in body must be of type {wanted}: "{found}"'
    return Cause("FieldValueTypeInvalid", f'Invalid value: "{found}": {text}', path or "<nil>")


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _object_causes(schema: Schema, value: dict[str, Any], path: str, old: Any) -> list[Cause]:
    before = old if type(old) is dict else {}
    causes: list[Cause] = []
    for name in schema.get("required") or ():
        if name not in value:
            causes.append(status.required(_join(path, name)))
    if schema.get(EMBEDDED):
        missing = (name for name in ("apiVersion", "kind") if not value.get(name))
        causes += [status.required(_join(path, name), "must not be empty") for name in missing]
    declared, rest = properties(schema), additional(schema)
    for name, item in value.items():
        if (child := declared.get(name, rest)) is not None:
            causes += validate(child, item, _join(path, name), before.get(name, ABSENT))
    size = len(value)
    if (limit := schema.get("maxProperties")) is not None and size > limit:
        causes.append(Cause("FieldValueTooMany", f"Too many: {size}: must have at most {limit} items", path))
    if (limit := schema.get("minProperties")) is not None and size < limit:
        causes.append(status.invalid_value(path, size, f"{path} in body should have at least {limit} properties"))
    return causes


def _list_causes(schema: Schema, value: list[Any], path: str, old: Any) -> list[Cause]:
    causes: list[Cause] = []
    items = schema.get("items")
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    if isinstance(items, Mapping):
        before = {_key(item, keys): item for item in old} if keys and type(old) is list else {}
        for index, item in enumerate(value):
            was = before.get(_key(item, keys), ABSENT) if keys else ABSENT
            causes += validate(items, item, f"{path}[{index}]", was)
    size = len(value)
    if (limit := schema.get("maxItems")) is not None and size > limit:
        causes.append(Cause("FieldValueTooMany", f"Too many: {size}: must have at most {limit} items", path))
    if (limit := schema.get("minItems")) is not None and size < limit:
        causes.append(status.invalid_value(path, size, f"{path} in body should have at least {limit} items"))
    kind = schema.get("x-kubernetes-list-type")
    stray = next((at for at, item in enumerate(value) if kind == "map" and type(item) not in (dict, type(None))), None)
    if stray is not None:
        text = "must be an object for an array of list-type map"
        causes.append(status.invalid_value(f"{path}[{stray}]", value[stray], text))
    elif kind in ("set", "map"):
        seen: dict[str, int] = {}
        for index, item in enumerate(value):
            identity = _key(item, keys) if kind == "map" else msgspec.json.encode(item, order="sorted").decode()
            seen[identity] = seen.get(identity, 0) + 1
            if seen[identity] == 2:
                shown = {key: item[key] for key in keys if key in (item or ())} if kind == "map" else item
                causes.append(status.duplicate(f"{path}[{index}]", shown))
    return causes


def _key(item: Any, keys: Any) -> str:
    return msgspec.json.encode([item.get(key) if type(item) is dict else None for key in keys]).decode()


def _string_causes(schema: Schema, value: str, path: str) -> list[Cause]:
    causes = []
    if (limit := schema.get("maxLength")) is not None and len(value) > limit:
        causes.append(Cause("FieldValueTooLong", f"Too long: may not be more than {limit} bytes", path))
    if (limit := schema.get("minLength")) is not None and len(value) < limit:
        causes.append(status.invalid_value(path, value, f"{path} in body should be at least {limit} chars long"))
    if (pattern := schema.get("pattern")) and (cause := _pattern_cause(pattern, value, path)):
        causes.append(cause)
    check = FORMATS.get(schema.get("format") or "")
    if check is not None and not check(value):
        name = schema["format"]
        causes.append(status.wrong_type(path, value, f"{path} in body must be of type {name}: {status.shown(value)}"))
    return causes


def _number_causes(schema: Schema, value: float, path: str) -> list[Cause]:
    causes = []
    if (limit := schema.get("maximum")) is not None:
        strict = schema.get("exclusiveMaximum")
        if value > limit or (strict and value == limit):
            words = "less than" if strict else "less than or equal to"
            causes.append(status.invalid_value(path, value, f"{path} in body should be {words} {limit:g}"))
    if (limit := schema.get("minimum")) is not None:
        strict = schema.get("exclusiveMinimum")
        if value < limit or (strict and value == limit):
            words = "greater than" if strict else "greater than or equal to"
            causes.append(status.invalid_value(path, value, f"{path} in body should be {words} {limit:g}"))
    if (step := schema.get("multipleOf")) and abs(value / step - round(value / step)) > 1e-9:
        causes.append(status.invalid_value(path, value, f"{path} in body should be a multiple of {step:g}"))
    bits = {"int32": 31, "int64": 63}.get(schema.get("format") or "")
    if bits and not -(2**bits) <= value < 2**bits:
        text = f"{path} in body must be of type {schema['format']}: {status.shown(value)}"
        causes.append(status.wrong_type(path, value, text))
    return causes


def _combined_causes(schema: Schema, value: Any, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for part in schema.get("allOf") or ():
        causes += validate(part, value, path)
    if any_of := schema.get("anyOf"):
        tried = [validate(part, value, path) for part in any_of]
        if all(tried):
            text = f"{path} in body must validate at least one schema (anyOf)"
            causes += [*_fewest(tried), status.invalid_value(path, value, text)]
    if one_of := schema.get("oneOf"):
        tried = [validate(part, value, path) for part in one_of]
        if sum(not failed for failed in tried) != 1:
            text = f"{path} in body must validate one and only one schema (oneOf)"
            causes += [*_fewest(tried), status.invalid_value(path, value, text)]
    if (negated := schema.get("not")) and not validate(negated, value, path):
        causes.append(status.invalid_value(path, value, f"{path} in body must not validate the schema (not)"))
    return causes


def _fewest(tried: list[list[Cause]]) -> list[Cause]:
    """Return the causes of the alternative with the fewest."""
    return min(tried, key=lambda causes: len(causes))  # noqa: PLW0108 - `len` accepts too many types for the key


_patterns: dict[str, Pattern] = {}


def compiled(pattern: str) -> Pattern:
    """Compile a schema's pattern, in Go's syntax; ValueError if it is invalid."""
    found = _patterns.get(pattern)
    if found is None:
        found = Pattern(pattern)
        # A large pattern may take a thousand times the usual memory, so it is not cached.
        if found.size <= _KEPT_BYTES:
            if len(_patterns) >= _KEPT_PATTERNS:
                _patterns.clear()
            _patterns[pattern] = found
    return found


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


def _accepts(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(value: str) -> bool:
        try:
            return parse(value) is not False
        except (ValueError, OverflowError):
            return False

    return check


def _fits(pattern: str) -> Callable[[str], bool]:
    whole = f"^(?:{pattern})$"
    return _accepts(lambda value: matches(whole, value))


FORMATS: Mapping[str, Callable[[str], bool]] = {
    "date-time": _accepts(times.parse),
    "datetime": _accepts(times.parse),
    "date": _accepts(lambda value: times.parse(f"{value}T00:00:00Z")),
    "ipv4": _accepts(ipaddress.IPv4Address),
    "ipv6": _accepts(ipaddress.IPv6Address),
    "cidr": _accepts(lambda value: ipaddress.ip_network(value, strict=False)),
    "uuid": _accepts(uuid.UUID),
    "email": _fits(r"[^@\s]+@[^@\s]+"),
    "hostname": _fits(r"[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?(\.[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?)*\.?"),
    "uri": _fits(r"[a-zA-Z][-+.a-zA-Z0-9]*:\S+|/\S*"),
    "duration": _fits(r"-?(\d+(\.\d*)?\s*(ns|us|µs|ms|s|m|h|d|w|[a-z]+)\s*)+|0"),
    "byte": _fits(r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}([A-Za-z0-9+/]|=)=|[A-Za-z0-9+/]{4})"),
}
