"""Field selectors in the syntax of `kubectl --field-selector`: `metadata.name=a,status.phase!=Failed`."""

from __future__ import annotations

import re

_TERM = re.compile(r"(?:[^,\\]|\\.|\\$)+", re.DOTALL)
_REQUIREMENT = re.compile(r"(?P<key>[^=!\\]+)(?:==|=|!=)(?P<value>(?:[^=,\\]|\\[\\,=])*)", re.DOTALL)


def parse(selector: str) -> tuple[str, ...]:
    """Return the fields that a selector names; ValueError names an invalid part. An empty one selects everything."""
    found = []
    for term in _TERM.findall(selector):
        requirement = _REQUIREMENT.fullmatch(term)
        if requirement is None:
            raise ValueError(f"field selector {selector!r} is invalid at {term!r}")
        found.append(requirement["key"].strip())
    return tuple(found)
