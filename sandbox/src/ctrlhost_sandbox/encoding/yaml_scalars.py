"""Values of plain scalars in YAML: as in Kubernetes, `y` is true, `1e3` is a number, and `1:30` and dates are text."""

from __future__ import annotations

import math
import re
from typing import Any

import yaml

_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
_BASES = (16, 2, 8, 10)
_LONGEST_INTEGER = 70
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NAMED: dict[str, bool | float | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_PREFIX = "tag:yaml.org,2002:"
_MERGE, _TEXT = f"{_PREFIX}merge", f"{_PREFIX}str"
_OTHERS = ("seq", "map", "binary")
_TAGS = {
    bool: f"{_PREFIX}bool",
    int: f"{_PREFIX}int",
    float: f"{_PREFIX}float",
    type(None): f"{_PREFIX}null",
    str: _TEXT,
}


def meaning(text: str) -> str | bool | float | None:
    """Return the value of a plain scalar, which is its text unless it is a number, a boolean or null."""
    if text in _NAMED:
        return _NAMED[text]
    if text[0] not in "0123456789+-.":
        return text
    digits = text.replace("_", "")
    if len(digits) <= _LONGEST_INTEGER and (match := _INTEGER.fullmatch(digits)) and match.lastindex:
        number = int(match[1] + match[match.lastindex], _BASES[match.lastindex - 2])
        if -(2**63) <= number < 2**64:
            return number
    if _FLOAT.fullmatch(digits) and math.isfinite(fraction := float(digits)):
        return fraction
    return text


def _tag(text: str) -> str:
    return _MERGE if text == "<<" else _TAGS[type(meaning(text))]


class Loader(yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader):  # type: ignore[misc]
    """Loads values of JSON only; unknown tags are ignored."""

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> Any:
        """Return the tag of a node without one."""
        if kind is yaml.ScalarNode and implicit[0]:
            return _tag(value)
        return super().resolve(kind, value, implicit)


class Dumper(yaml.CSafeDumper if hasattr(yaml, "CSafeDumper") else yaml.SafeDumper):  # type: ignore[misc]
    """Quotes every text that a YAML 1.1 parser could read as another value."""

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> Any:
        """Return the tag that a parser would give to a node without one."""
        tag = super().resolve(kind, value, implicit)
        return _tag(value) if kind is yaml.ScalarNode and implicit[0] and tag == _TEXT else tag


def _typed(_: Any, node: yaml.ScalarNode) -> str | bool | float | None:
    """Return the value of a scalar with the tag of a type, explicit or not; raise ValueError if it does not fit."""
    value = meaning(node.value)
    if node.tag not in (_TAGS[type(value)], _TAGS[float] if type(value) is int else ""):
        msg = f"cannot decode {node.value!r} as a {node.tag.removeprefix(_PREFIX)}"
        raise ValueError(msg)
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        msg = f"unsupported value: {node.value}"
        raise ValueError(msg)
    # Go writes 1.0 as 1 where it converts YAML to JSON.
    return int(value) if value.is_integer() and abs(value) < 2**63 else value


Loader.yaml_constructors = {
    **dict.fromkeys((_TAGS[bool], _TAGS[int], _TAGS[float], _TAGS[type(None)]), _typed),
    **{tag: yaml.SafeLoader.yaml_constructors[tag] for tag in (_TEXT, *(f"{_PREFIX}{name}" for name in _OTHERS))},
}
