"""Label selectors in the syntax of `kubectl -l`: `a=b,c!=d,e in (f,g),h notin (i),j,!k`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY = rf"(?:[a-z0-9](?:[-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_NAME}"
_VALUE = rf"(?:{_NAME})?"
_REQUIREMENT = re.compile(
    rf"""\s*(?:
        (?P<key>{_KEY})\s*(?P<set>(?:\s|(?<=\s))(?:in|notin))\s*\((?P<values>[^()]*)\)
      | (?P<equal>{_KEY})\s*(?P<op>==|=|!=)\s*(?P<value>{_VALUE})
      | (?P<exists>{_KEY})
      | !\s*(?P<missing>{_KEY})
    )\s*(?:,|$)""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition; without `values` it only requires the key."""

    key: str
    values: frozenset[str] | None
    negated: bool

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether the labels meet the condition; a missing key meets every negated one."""
        value = labels.get(self.key)
        present = value is not None and (self.values is None or value in self.values)
        return present != self.negated


@lru_cache(maxsize=256)
def parse(selector: str) -> tuple[Requirement, ...]:
    """Parse a selector; ValueError names the invalid part. An empty one selects everything."""
    requirements, at = [], 0
    while at < len(selector.rstrip()):
        match = _REQUIREMENT.match(selector, at)
        if match is None:
            raise ValueError(f"label selector {selector!r} is invalid from {selector[at:]!r} on")
        requirements.append(_requirement(match, selector))
        at = match.end()
    if selector.rstrip().endswith(","):
        raise ValueError(f"label selector {selector!r} ends with a comma")
    return tuple(requirements)


def _requirement(match: re.Match[str], selector: str) -> Requirement:
    if match["exists"]:
        return Requirement(match["exists"], None, negated=False)
    if match["missing"]:
        return Requirement(match["missing"], None, negated=True)
    if match["equal"]:
        return Requirement(match["equal"], frozenset({match["value"]}), negated=match["op"] == "!=")
    values = frozenset(value.strip() for value in match["values"].split(","))
    if not all(re.fullmatch(_VALUE, value) for value in values):
        raise ValueError(f"label selector {selector!r} has values that are invalid for labels")
    return Requirement(match["key"], values, negated=match["set"].strip() == "notin")


@lru_cache(maxsize=256)
def native(requirements: tuple[Requirement, ...]) -> list[tuple[str, frozenset[str] | None, bool]]:
    """Return the conditions as `_core` takes them."""
    return [(requirement.key, requirement.values, requirement.negated) for requirement in requirements]


def matches(requirements: tuple[Requirement, ...], labels: Mapping[str, str]) -> bool:
    """Return whether the labels meet all conditions."""
    return all(requirement.matches(labels) for requirement in requirements)
