"""Checks of a CRD's regular expressions: each is valid in Go, and their total size is bounded.

Go's engine has neither look-around nor back references, so each match takes linear time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.schema.validation import compiled

if TYPE_CHECKING:
    from ctrlhost_sandbox.apimachinery.status import Cause
    from ctrlhost_sandbox.schema.structural import Schema

_MAX_TOTAL_BYTES = 64 << 20
_REFUSED_BYTES = 32 << 20
"""The size counted for an invalid pattern, which took as long as the largest valid one."""
_ONE = ("items", "additionalProperties", "not")
_LISTS = ("allOf", "anyOf", "oneOf")


def pattern_causes(schema: Schema, field: str) -> list[Cause]:
    """Check every pattern of a schema, until their total size is too large."""
    causes: list[Cause] = []
    total = 0
    for where, pattern in _patterns(schema, field):
        try:
            total += compiled(pattern).size
        except ValueError as bad:
            text = f"must be a valid regular expression, but isn't: {bad}"
            causes.append(status.invalid_value(where, pattern, text))
            total += _REFUSED_BYTES
        if total > _MAX_TOTAL_BYTES:
            causes.append(status.forbidden_field(where, "the schema's regular expressions are too large together"))
            break
    return causes


def _patterns(schema: Schema, field: str) -> Iterator[tuple[str, str]]:
    """Yield each pattern and its field; without recursion, since the depth is not checked yet."""
    nodes: list[tuple[Any, str]] = [(schema, field)]
    while nodes:
        node, where = nodes.pop()
        if not isinstance(node, Mapping):
            continue
        if isinstance(node.get("pattern"), str) and node["pattern"]:
            yield f"{where}.pattern", node["pattern"]
        nodes += [(node.get(name), f"{where}.{name}") for name in _ONE]
        for name in _LISTS:
            nodes += [(part, f"{where}.{name}[{index}]") for index, part in enumerate(node.get(name) or ())]
        nodes += [(part, f"{where}.properties[{name}]") for name, part in (node.get("properties") or {}).items()]
