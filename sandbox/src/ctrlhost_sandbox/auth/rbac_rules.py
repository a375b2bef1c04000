"""Rules of roles: what a rule allows, and whether a set of rules covers another."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ctrlhost_sandbox.http.messages import Attributes

ALL = "*"
Texts = tuple[str, ...]
_KEYS = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")


@dataclass(frozen=True, slots=True)
class Rule:
    """Verbs on resources of groups, optionally limited to names; or verbs on non-resource paths."""

    verbs: Texts = ()
    groups: Texts = ()
    resources: Texts = ()
    names: Texts = ()
    urls: Texts = ()

    @classmethod
    def of(cls, rule: dict[str, Any]) -> Rule:
        """Parse an entry of a role's `rules`."""
        return cls(*(tuple(rule.get(key) or ()) for key in _KEYS))

    def allows(self, attributes: Attributes) -> bool:
        """Return whether the rule alone allows the request."""
        if not (ALL in self.verbs or attributes.verb in self.verbs):
            return False
        if not attributes.resource:
            return any(_url_matches(url, attributes.path) for url in self.urls)
        return (
            (ALL in self.groups or attributes.group in self.groups)
            and (ALL in self.resources or self._has_resource(attributes.full_resource, attributes.subresource))
            and (not self.names or attributes.name in self.names)
        )

    def _has_resource(self, resource: str, subresource: str) -> bool:
        return resource in self.resources or (bool(subresource) and f"*/{subresource}" in self.resources)

    def parts(self) -> Iterator[Rule]:
        """Split the rule into rules of one verb and one resource, name or path each."""
        for verb, url in itertools.product(self.verbs, self.urls):
            yield Rule((verb,), urls=(url,))
        for group, resource, verb in itertools.product(self.groups, self.resources, self.verbs):
            if not self.names:
                yield Rule((verb,), (group,), (resource,))
            for name in self.names:
                yield Rule((verb,), (group,), (resource,), (name,))

    def covers(self, part: Rule) -> bool:
        """Return whether the rule allows everything that a part (as from `parts`) does."""
        if not _has(self.verbs, part.verbs):
            return False
        if part.urls:
            return all(any(_url_matches(url, wanted) for url in self.urls) for wanted in part.urls)
        resources = ((name, name.partition("/")[2]) for name in part.resources)
        return (
            _has(self.groups, part.groups)
            and (ALL in self.resources or all(self._has_resource(*resource) for resource in resources))
            and (not self.names or (bool(part.names) and set(part.names) <= set(self.names)))
        )

    def __str__(self) -> str:
        """Format the rule as messages about escalation show it."""
        members = zip(
            ("APIGroups", "Resources", "NonResourceURLs", "ResourceNames", "Verbs"),
            (self.groups, self.resources, self.urls, self.names, self.verbs),
            strict=True,
        )
        return "{" + ", ".join(f"{name}:{quoted(values)}" for name, values in members if values) + "}"

    def as_dict(self) -> dict[str, list[str]]:
        """Return the rule in the form of a rules review."""
        values = (self.verbs, self.groups, self.resources, self.names, self.urls)
        return {key: list(value) for key, value in zip(_KEYS, values, strict=True) if value}


EVERYTHING = (Rule((ALL,), (ALL,), (ALL,)), Rule((ALL,), urls=(ALL,)))


def missing(held: Sequence[Rule], wanted: Iterable[Rule]) -> list[Rule]:
    """Return the rules that are wanted but not held; verbs on one resource are grouped."""
    merged: dict[Rule, list[str]] = {}
    for part in (part for rule in wanted for part in rule.parts() if not any(own.covers(part) for own in held)):
        key = replace(part, verbs=()) if part.resources else part
        verbs = merged.setdefault(key, [])
        verbs += [verb for verb in part.verbs if verb not in verbs]
    return [replace(key, verbs=tuple(verbs)) for key, verbs in merged.items()]


def quoted(values: Iterable[str]) -> str:
    """Format a list of strings as Go does."""
    return "[" + " ".join(json.dumps(value, ensure_ascii=False) for value in values) + "]"


def _has(owned: Texts, wanted: Texts) -> bool:
    return ALL in owned or set(wanted) <= set(owned)


def _url_matches(rule: str, path: str) -> bool:
    return path.startswith(rule.rstrip(ALL)) if rule.endswith(ALL) else path == rule
