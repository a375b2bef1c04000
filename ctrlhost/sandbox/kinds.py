"""The registry of kinds: what is served, and how each kind departs from the rule."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ctrlhost.sandbox.custom import CustomVersion

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
FieldPath = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Subresource:
    """A sub-resource as discovery shows it; an empty `kind` is the parent's."""

    name: str
    verbs: tuple[str, ...] = ("get", "patch", "update")
    group: str = ""
    version: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Scale:
    """Where a kind keeps what its `scale` sub-resource shows; `selector` may be a label selector object or a text."""

    replicas: FieldPath = ("spec", "replicas")
    status_replicas: FieldPath = ("status", "replicas")
    selector: FieldPath = ("spec", "selector")


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """One kind in one version."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    list_kind: str = ""
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    scale: Scale | None = None
    table: str = ""
    """The store's table; two group versions may share one."""
    generation: bool = False
    needs_version: bool = False
    """A PUT without resourceVersion is refused."""
    creates_on_update: bool = False
    returns_object: bool = False
    """DELETE answers with the object, not with a Status."""
    name_rule: str = "subdomain"
    field_selectors: Mapping[str, FieldPath] = field(default_factory=dict)
    virtual: bool = False
    """Only POST, and nothing is stored."""
    custom: CustomVersion | None = None

    @property
    def api_version(self) -> str:
        """Give `group/version`, or `v1` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def has_status(self) -> bool:
        """Tell whether status is a sub-resource, so that the main resource does not write it."""
        return any(sub.name == "status" for sub in self.subresources)

    def subresource(self, name: str) -> Subresource | None:
        """Find a sub-resource by name."""
        return next((sub for sub in self.subresources if sub.name == name), None)


class Registry:
    """All kinds that are served now. Changed only by the server's own thread."""

    def __init__(self, builtin: Iterable[Kind]) -> None:
        """Start with the built-in kinds."""
        self._kinds: dict[tuple[str, str, str], Kind] = {}
        self._listed: dict[tuple[str, str, str], bool] = {}
        self.changes = 0
        """Grows with every change, so that what is derived from the registry knows when it is stale."""
        for kind in builtin:
            self._kinds[kind.group, kind.version, kind.plural] = kind
        self._builtin = frozenset(self._kinds)

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        """Find what a path names."""
        return self._kinds.get((group, version, plural))

    def find_kind(self, group: str, version: str, kind: str) -> Kind | None:
        """Find a kind by its name; any version if `version` is empty."""
        for other in self._kinds.values():
            if other.kind == kind and other.group == group and version in ("", other.version):
                return other
        return None

    def __iter__(self) -> Iterator[Kind]:
        """Go through all kinds: the built-in ones first, then custom ones by group."""
        return iter(self._kinds.values())

    def tables(self) -> dict[str, Kind]:
        """Give one kind for every table of stored objects."""
        found: dict[str, Kind] = {}
        for kind in self._kinds.values():
            if not kind.virtual:
                found.setdefault(kind.table, kind)
        return found

    def serves_group_version(self, group: str, version: str) -> bool:
        """Tell whether anything is served under the group version."""
        return any(key[0] == group and key[1] == version for key in self._kinds)

    def is_builtin(self, kind: Kind) -> bool:
        """Tell whether the kind is compiled in."""
        return (kind.group, kind.version, kind.plural) in self._builtin

    def is_listed(self, kind: Kind) -> bool:
        """Tell whether discovery and OpenAPI show the kind."""
        return self._listed.get((kind.group, kind.version, kind.plural), True)

    def replace_custom(self, kinds: Iterable[tuple[Kind, bool]]) -> None:
        """Make `kinds` all the custom ones; the flag says whether discovery lists the kind."""
        kept = {key: kind for key, kind in self._kinds.items() if key in self._builtin}
        self._listed = {}
        for kind, listed in sorted(kinds, key=lambda item: (item[0].group, item[0].plural)):
            key = (kind.group, kind.version, kind.plural)
            if key not in self._builtin:
                kept[key] = kind
                self._listed[key] = listed
        self._kinds = kept
        self.changes += 1


def version_order(version: str) -> tuple[int, int, int, str]:
    """Sort key: v2, v1, v1beta2, v1beta1, v1alpha1, then everything else by name."""
    digits, stage, number = "", "", ""
    rest = version[1:] if version.startswith("v") else ""
    for char in rest:
        if char.isdigit() and not stage:
            digits += char
        elif char.isdigit():
            number += char
        elif number:
            digits = ""
            break
        else:
            stage += char
    rank = {"": 0, "beta": 1, "alpha": 2}.get(stage)
    if not digits or rank is None or (stage and not number):
        return (3, 0, 0, version)
    return (rank, -int(digits), -int(number or 0), version)


def content_hash(data: bytes) -> str:
    """Give a short hash that changes if and only if the content does."""
    return hashlib.sha256(data).hexdigest()[:32].upper()
