"""Declared reads per scope, the canonical form of requests, and the union of several users' reads."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ctrlhost.informers.namespace_informer import Scope
from ctrlhost.informers.narrowing import selection_within
from ctrlhost.selectors.namespaces import NamespaceSelector, read

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from ctrlhost.client.resources import Resources
    from ctrlhost.informers.namespace_informer import Reads
    from ctrlhost.informers.narrowing import Selection
    from ctrlhost.reflector.shard import ShardBy


class Declarations:
    """The declared reads of each scope. The caller must hold the factory's lock."""

    def __init__(self) -> None:
        """Start empty."""
        self._declared: dict[Scope, dict[Hashable, Reads]] = {}

    def __contains__(self, base: Scope) -> bool:
        """Return whether exactly this scope was declared."""
        return base in self._declared

    def add(self, base: Scope, wanted: Reads, owner: Hashable = None) -> None:
        """Declare the reads `wanted` of a scope for an owner, in addition to earlier declarations."""
        by_owner = self._declared.setdefault(base, {})
        by_owner[owner] = union(by_owner.get(owner, "metadata"), wanted)

    def withdraw(self, owner: Hashable) -> None:
        """Forget what an owner has declared."""
        for by_owner in self._declared.values():
            by_owner.pop(owner, None)
        self._declared = {base: by_owner for base, by_owner in self._declared.items() if by_owner}

    def reads(self, base: Scope) -> Reads:
        """Return the declared reads of a scope and of all that it covers."""
        reads: Reads = "metadata"
        for declared, by_owner in self._declared.items():
            if selection_within(base, declared) is not None:
                for wanted in by_owner.values():
                    reads = union(reads, wanted)
        return reads

    def wider(self, base: Scope) -> tuple[Scope, Selection] | None:
        """Return a declared scope that covers `base` and more, and the selection of `base` within it."""
        for declared in self._declared:
            if declared == base:
                continue
            selection = selection_within(declared, base)
            # Of two that cover each other, neither is wider.
            if selection is not None and selection_within(base, declared) is None:
                return declared, selection
        return None


def scope_of(
    api_version: str,
    kind: str,
    *,
    namespaces: Sequence[str] | NamespaceSelector | None = None,
    label_selector: str | None = None,
    field_selector: str | None = None,
    reads: Reads | Sequence[str] = None,
    shard_by: ShardBy | None = None,
) -> Scope:
    """Return the scope of the arguments of `InformerFactory.informer`; equal requests have equal scopes.

    TypeError or ValueError for invalid arguments.
    """
    chosen = namespaces if namespaces is None or isinstance(namespaces, NamespaceSelector) else read(namespaces)
    if isinstance(chosen, tuple):
        chosen = tuple(sorted(chosen))
    if isinstance(reads, str):
        reads = reads if reads == "metadata" else (reads,)
    elif reads is not None:
        reads = tuple(sorted(set(reads)))
    return Scope(api_version, kind, chosen, label_selector or None, field_selector or None, reads, shard_by=shard_by)


def served_scope(resources: Resources, scope: Scope) -> Scope:
    """Return the scope, without namespaces if the kind is known to have none."""
    known = resources.known(scope.api_version, scope.kind)
    return replace(scope, namespaces=None) if known is not None and not known.namespaced else scope


def union(reads: Reads, other: Reads) -> Reads:
    """Return reads that are enough for both; metadata is always kept."""
    if reads is None or other is None:
        return None
    paths = {path for selection in (reads, other) if not isinstance(selection, str) for path in selection}
    return tuple(sorted(paths)) if paths else "metadata"
