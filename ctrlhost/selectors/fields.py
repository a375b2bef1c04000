"""Field selectors in the syntax of `kubectl --field-selector`: `metadata.name=a,status.phase!=Failed`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

_TERM = re.compile(r"(?:[^,\\]|\\.|\\$)+", re.DOTALL)
_REQUIREMENT = re.compile(r"(?P<path>[^=!\\]+)(?P<operator>==|=|!=)(?P<value>(?:[^=,\\]|\\[\\,=])*)", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


class Requirement(NamedTuple):
    """One condition: the field at `path` has the value, or with `negated` another one."""

    path: str
    value: str
    negated: bool

    def matches(self, obj: Mapping[str, Any]) -> bool:
        """Return whether an object meets it, as the server compares: the field's text, empty for a missing field."""
        value: Any = obj
        for step in self.path.split("."):
            value = value.get(step) if hasattr(value, "get") else None
        text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        return (text == self.value) != self.negated


def parse(selector: str) -> tuple[Requirement, ...]:
    """Parse a selector; ValueError names an invalid part. An empty one selects everything."""
    requirements = []
    for term in _TERM.findall(selector):
        match = _REQUIREMENT.fullmatch(term)
        if match is None:
            raise ValueError(f"field selector {selector!r} is invalid at {term!r}")
        value = _ESCAPED.sub(r"\1", match["value"]).strip()
        requirements.append(Requirement(match["path"].strip(), value, negated=match["operator"] == "!="))
    return tuple(requirements)
