"""Namespaces as settings and sources name them: by name, by glob, or by label.

`["team-a", "shop-*", "label:env in (dev, test)"]` is the namespace `team-a`, those whose names begin with `shop-`, and
those whose labels meet the selector, whichever of them there are at the time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LABEL = "label:"

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_GLOB = re.compile(r"[-a-z0-9*?\[\]!]{1,253}")


@dataclass(frozen=True, slots=True)
class NamespaceSelector:
    """A choice that depends on which namespaces there are; equal ones choose alike."""

    names: tuple[str, ...] = ()
    globs: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    #: A namespace must be chosen by this one, too.
    within: NamespaceSelector | None = None

    def selects(self, name: str, labels: Mapping[str, str]) -> bool:
        """Tell whether a namespace of this name, with these labels, is chosen."""
        if self.within is not None and not self.within.selects(name, labels):
            return False
        return self._by_name(name) or any(_meets(selector, labels) for selector in self.labels)

    def always_selects(self, name: str) -> bool:
        """Tell whether a namespace of this name is chosen whatever its labels."""
        return self._by_name(name) and (self.within is None or self.within.always_selects(name))

    def _by_name(self, name: str) -> bool:
        return name in self.names or any(fnmatchcase(name, glob) for glob in self.globs)

    def __str__(self) -> str:
        """Write it as it is given."""
        entries = ",".join([*self.names, *self.globs, *(LABEL + selector for selector in self.labels)])
        return entries if self.within is None else f"{entries} within {self.within}"


#: Fixed names, a choice that is followed, or all.
Namespaces: TypeAlias = "tuple[str, ...] | NamespaceSelector | None"


def read(entries: Sequence[str]) -> tuple[str, ...] | NamespaceSelector:
    """Read a list of names, globs and `label:SELECTOR`; ValueError says which entry is none of these."""
    if isinstance(entries, str):
        raise TypeError(f"namespaces is a sequence of names, not the string {entries!r}")
    names, globs, labels = [], [], []
    for entry in entries:
        if not isinstance(entry, str):
            raise TypeError(f"a namespace is named by a text, not by {entry!r}")
        if entry.startswith(LABEL):
            labels.append(_selector(entry))
        elif _NAME.fullmatch(entry):
            names.append(entry)
        elif _GLOB.fullmatch(entry) and any(sign in entry for sign in "*?["):
            globs.append(entry)
        else:
            hint = f"; a label selector is written `{LABEL}{entry}`" if "=" in entry or " in " in entry else ""
            raise ValueError(
                f"`{entry}` can not be a namespace's name, which has up to 63 lower-case letters, digits and inner `-`"
                f", and is no glob{hint}"
            )
    if not globs and not labels:
        return tuple(dict.fromkeys(names))
    return NamespaceSelector(tuple(sorted(set(names))), tuple(sorted(set(globs))), tuple(sorted(set(labels))))


def narrowed(wanted: Sequence[str] | None, limit: Sequence[str] | None) -> Namespaces:
    """Give what is wanted, within what the operator allows; no limit allows all."""
    chosen = None if wanted is None else read(wanted)
    if not limit:
        return chosen
    allowed = read(limit)
    if chosen is None:
        return allowed
    if isinstance(chosen, tuple) and isinstance(allowed, tuple):
        return tuple(one for one in chosen if one in allowed)
    if isinstance(chosen, tuple):
        chosen = NamespaceSelector(names=tuple(sorted(chosen)))
    if isinstance(allowed, tuple):
        allowed = NamespaceSelector(names=tuple(sorted(allowed)))
    if not chosen.globs and not chosen.labels and all(allowed.always_selects(name) for name in chosen.names):
        return chosen.names
    return chosen if chosen == allowed else NamespaceSelector(chosen.names, chosen.globs, chosen.labels, allowed)


def _meets(selector: str, labels: Mapping[str, str]) -> bool:
    from ctrlhost.selectors import labels as selectors

    return selectors.matches(selectors.parse(selector), labels)


def _selector(entry: str) -> str:
    from ctrlhost.selectors import labels as selectors

    selector = entry.removeprefix(LABEL).strip()
    if not selectors.parse(selector):
        raise ValueError(f"{entry!r} selects nothing in particular; leave `namespaces` out for all")
    return selector
