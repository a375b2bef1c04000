"""Namespaces in settings and sources, by name, by glob, or by label.

`["team-a", "shop-*", "label:env in (dev, test)"]` selects the namespace `team-a`, those whose names begin with `shop-`,
and those whose labels meet the selector, among the namespaces that exist at the time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypeAlias

from ctrlhost.selectors.labels import matches, parse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LABEL = "label:"

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_GLOB = re.compile(r"[-a-z0-9*?\[\]!]{1,253}")


@dataclass(frozen=True, slots=True)
class NamespaceSelector:
    """A selection that depends on the existing namespaces; equal selectors select the same ones."""

    names: tuple[str, ...] = ()
    globs: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    #: A second selector, which must select the namespace, too.
    within: NamespaceSelector | None = None

    def selects(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether a namespace of this name, with these labels, is selected."""
        if self.within is not None and not self.within.selects(name, labels):
            return False
        return self._by_name(name) or any(matches(parse(selector), labels) for selector in self.labels)

    def always_selects(self, name: str) -> bool:
        """Return whether a namespace of this name is selected whatever its labels."""
        return self._by_name(name) and (self.within is None or self.within.always_selects(name))

    def _by_name(self, name: str) -> bool:
        return name in self.names or any(fnmatchcase(name, glob) for glob in self.globs)

    def __str__(self) -> str:
        """Return the entries as settings write them."""
        entries = ",".join([*self.names, *self.globs, *(LABEL + selector for selector in self.labels)])
        return entries if self.within is None else f"{entries} within {self.within}"


#: Fixed names, a selector, or all.
Namespaces: TypeAlias = "tuple[str, ...] | NamespaceSelector | None"


def read(entries: Sequence[str]) -> tuple[str, ...] | NamespaceSelector:
    """Parse a list of names, globs and `label:SELECTOR`; ValueError names an invalid entry."""
    if isinstance(entries, str):
        raise TypeError(f"namespaces must be a sequence of names, not the string {entries!r}")
    names, globs, labels = [], [], []
    for entry in entries:
        if not isinstance(entry, str):
            raise TypeError(f"a namespace must be a string, got {entry!r}")
        if entry.startswith(LABEL):
            labels.append(_selector(entry))
        elif _NAME.fullmatch(entry):
            names.append(entry)
        elif _GLOB.fullmatch(entry) and any(sign in entry for sign in "*?["):
            globs.append(entry)
        else:
            hint = f"; a label selector is written `{LABEL}{entry}`" if "=" in entry or " in " in entry else ""
            raise ValueError(
                f"invalid namespace `{entry}`: must be a glob, or a name of up to 63 lower-case letters, digits and "
                f"inner `-`{hint}"
            )
    if not globs and not labels:
        return tuple(dict.fromkeys(names))
    return NamespaceSelector(tuple(sorted(set(names))), tuple(sorted(set(globs))), tuple(sorted(set(labels))))


def narrowed(wanted: Sequence[str] | None, limit: Sequence[str] | None) -> Namespaces:
    """Return the wanted namespaces within the operator's limit; no limit allows all."""
    chosen = None if wanted is None else read(wanted)
    if not limit:
        return chosen
    allowed = read(limit)
    if chosen is None:
        return allowed
    if isinstance(chosen, tuple) and isinstance(allowed, tuple):
        return tuple(namespace for namespace in chosen if namespace in allowed)
    if isinstance(chosen, tuple):
        chosen = NamespaceSelector(names=tuple(sorted(chosen)))
    if isinstance(allowed, tuple):
        allowed = NamespaceSelector(names=tuple(sorted(allowed)))
    if not chosen.globs and not chosen.labels and all(allowed.always_selects(name) for name in chosen.names):
        return chosen.names
    return chosen if chosen == allowed else NamespaceSelector(chosen.names, chosen.globs, chosen.labels, allowed)


def _selector(entry: str) -> str:
    selector = entry.removeprefix(LABEL).strip()
    if not parse(selector):
        raise ValueError(f"`{entry}` selects every namespace; omit `namespaces` for all")
    return selector
