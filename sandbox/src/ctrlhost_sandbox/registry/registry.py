"""The registry of the served kinds."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ctrlhost_sandbox.schema import rules

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ctrlhost_sandbox._native import CelValidator
    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.schema.shapes import Shape

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
FieldPath = tuple[str, ...]
_Key = TypeVar("_Key")


@dataclass(frozen=True, slots=True)
class Subresource:
    """A sub-resource in discovery; an empty `kind` means the parent's."""

    name: str
    verbs: tuple[str, ...] = ("get", "patch", "update")
    group: str = ""
    version: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Scale:
    """The fields behind the `scale` sub-resource; `selector` may be a label selector object or a text."""

    replicas: FieldPath = ("spec", "replicas")
    status_replicas: FieldPath = ("status", "replicas")
    selector: FieldPath = ("spec", "selector")


@dataclass(eq=False)
class CustomVersion:
    """One version of a CRD."""

    crd: str
    """The CRD's name."""
    schema: Mapping[str, Any]
    shape: Shape
    storage_version: str
    schemas: Mapping[str, Mapping[str, Any]]
    """The schemas of all versions by their names: a stored object has the fields of the version it is stored in."""
    columns: tuple[Mapping[str, Any], ...] = ()
    terminating: bool = False
    marker: str = ""
    """Changes with the schema: objects written under another one are pruned and defaulted on read."""
    converter: Converter | None = None
    """None if a version is its name only."""

    @cached_property
    def rules(self) -> CelValidator | None:
        """The compiled rules of the schema; None if it has none."""
        return rules.compiled(self.schema)


class Converter(Protocol):
    """What converts the objects of a CRD, if their versions differ in more than the name."""

    def convert(self, objects: Sequence[Object], api_version: str) -> list[Object]:
        """Return objects in another version."""


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
    """Whether a PUT requires resourceVersion."""
    creates_on_update: bool = False
    returns_object: bool = False
    """Whether DELETE returns the object instead of a Status."""
    name_rule: str = "subdomain"
    field_selectors: Mapping[str, FieldPath] = field(default_factory=dict)
    virtual: bool = False
    """Whether the kind can only be POSTed and is not stored."""
    custom: CustomVersion | None = None
    deprecation: str = ""
    """The warning that every response carries."""

    @property
    def api_version(self) -> str:
        """`group/version`, or `v1` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def has_status(self) -> bool:
        """Whether status is a sub-resource, so that the main resource does not write it."""
        return any(sub.name == "status" for sub in self.subresources)

    def subresource(self, name: str) -> Subresource | None:
        """Find a sub-resource by name."""
        return next((sub for sub in self.subresources if sub.name == name), None)


class Registry:
    """All served kinds. Changed only by the server's own thread."""

    def __init__(self, builtin: Iterable[Kind]) -> None:
        """Start with the built-in kinds."""
        self._kinds: dict[tuple[str, str, str], Kind] = {}
        self._by_name: dict[tuple[str, str], tuple[Kind, ...]] = {}
        self._by_table: dict[str, tuple[Kind, ...]] = {}
        self._custom: dict[str, tuple[Kind, ...]] = {}
        self._unlisted: set[Kind] = set()
        self._sorted: tuple[Kind, ...] = ()
        self._sorted_at = -1
        self.changes = 0
        """Incremented with every change, so that derived data can detect that it is stale."""
        self.converts = False
        """Whether any kind has a converter, so that reading it may wait."""
        self._builtin = tuple(builtin)
        for kind in self._builtin:
            self._add(kind)
        self._compiled_in = frozenset(self._kinds)

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        """Find a kind by the parts of a path."""
        return self._kinds.get((group, version, plural))

    def find_kind(self, group: str, version: str, kind: str) -> Kind | None:
        """Find a kind by its name; any version if `version` is empty. May be called from any thread."""
        for other in self._by_name.get((group, kind), ()):
            if version in ("", other.version):
                return other
        return None

    def builtin(self, group: str, kind: str) -> Kind:
        """Return a built-in kind, which must exist."""
        return next(kind_ for kind_ in self._builtin if (kind_.group, kind_.kind) == (group, kind))

    def __iter__(self) -> Iterator[Kind]:
        """Iterate over the built-in kinds, then over custom ones by group."""
        if self._sorted_at != self.changes:
            custom = [kind for kinds in self._custom.values() for kind in kinds]
            self._sorted = (*self._builtin, *sorted(custom, key=lambda kind: (kind.group, kind.plural)))
            self._sorted_at = self.changes
        return iter(self._sorted)

    def tables(self) -> dict[str, Kind]:
        """Return one kind for every table of stored objects."""
        return {table: kinds[0] for table, kinds in self._by_table.items()}

    def versions(self, kind: Kind) -> tuple[Kind, ...]:
        """Return the kinds that are stored in the same table."""
        return self._by_table.get(kind.table, ())

    def of_table(self, table: str) -> Kind | None:
        """Return a kind that is stored in a table."""
        kinds = self._by_table.get(table)
        return kinds[0] if kinds else None

    def is_builtin(self, kind: Kind) -> bool:
        """Return whether the kind is compiled in."""
        return (kind.group, kind.version, kind.plural) in self._compiled_in

    def is_listed(self, kind: Kind) -> bool:
        """Return whether discovery and OpenAPI show the kind."""
        return kind not in self._unlisted

    def custom(self, crd: str) -> tuple[Kind, ...]:
        """Return the kinds of a CRD."""
        return self._custom.get(crd, ())

    def serve_custom(self, crd: str, kinds: Iterable[tuple[Kind, bool]]) -> None:
        """Replace the kinds of a CRD; the flag says whether discovery lists the kind."""
        for kind in self._custom.pop(crd, ()):
            self._remove(kind)
        fresh = [(kind, listed) for kind, listed in kinds if not self.is_builtin(kind)]
        for kind, listed in fresh:
            self._add(kind)
            if not listed:
                self._unlisted.add(kind)
        if fresh:
            self._custom[crd] = tuple(kind for kind, _ in fresh)
        custom = (kind.custom for kinds in self._custom.values() for kind in kinds)
        self.converts = any(version is not None and version.converter is not None for version in custom)
        self.changes += 1

    def _add(self, kind: Kind) -> None:
        self._kinds[kind.group, kind.version, kind.plural] = kind
        name = (kind.group, kind.kind)
        self._by_name[name] = (*self._by_name.get(name, ()), kind)
        if not kind.virtual:
            self._by_table[kind.table] = (*self._by_table.get(kind.table, ()), kind)

    def _remove(self, kind: Kind) -> None:
        self._unlisted.discard(kind)
        del self._kinds[kind.group, kind.version, kind.plural]
        _drop(self._by_name, (kind.group, kind.kind), kind)
        _drop(self._by_table, kind.table, kind)


def _drop(index: dict[_Key, tuple[Kind, ...]], key: _Key, kind: Kind) -> None:
    left = tuple(other for other in index.get(key, ()) if other is not kind)
    if left:
        index[key] = left
    else:
        index.pop(key, None)


def version_order(version: str) -> tuple[int, int, int, str]:
    """Sort key: v2, v1, v1beta2, v1beta1, v1alpha1, then everything else by name."""
    match = re.fullmatch(r"v([0-9]+)(?:(alpha|beta)([0-9]+))?", version)
    if match is None:
        return (3, 0, 0, version)
    return ({"beta": 1, "alpha": 2}.get(match[2], 0), -int(match[1]), -int(match[3] or 0), version)


def content_hash(data: bytes) -> str:
    """Return a short hash that changes if and only if the content does."""
    return hashlib.sha256(data).hexdigest()[:32].upper()
