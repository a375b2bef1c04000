"""What is asked of each kind in one form, what was said of it beforehand, and how what several read adds up."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ctrlhost.informers.namespace_informer import Scope
from ctrlhost.informers.narrowing import selection_within
from ctrlhost.selectors.namespaces import NamespaceSelector, read

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctrlhost.client.resources import Resources
    from ctrlhost.informers.namespace_informer import Reads
    from ctrlhost.informers.narrowing import Selection


class Declarations:
    """What is to be read of each scope. For one thread at a time: the factory's lock is held around each call."""

    def __init__(self) -> None:
        """Know of nothing."""
        self._declared: dict[Scope, Reads] = {}

    def __contains__(self, base: Scope) -> bool:
        """Tell whether this very scope was declared."""
        return base in self._declared

    def add(self, base: Scope, wanted: Reads) -> None:
        """Note that `wanted` will be read of a scope, besides what was declared of it before."""
        self._declared[base] = union(self._declared[base], wanted) if base in self._declared else wanted

    def reads(self, base: Scope) -> Reads:
        """Give what was declared to be read of a scope and of all that it covers."""
        reads: Reads = "metadata"
        for declared, wanted in self._declared.items():
            if selection_within(base, declared) is not None:
                reads = union(reads, wanted)
        return reads

    def wider(self, base: Scope) -> tuple[Scope, Selection] | None:
        """Give a declared scope that has all of `base` and more, and what chooses `base` out of it."""
        for declared in self._declared:
            if declared == base:
                continue
            selection = selection_within(declared, base)
            # Of two that cover each other neither is the wider one.
            if selection is not None and selection_within(base, declared) is None:
                return declared, selection
        return None


def normal_scope(
    resources: Resources,
    api_version: str,
    kind: str,
    namespaces: Sequence[str] | NamespaceSelector | None,
    labels: str | None,
    fields: str | None,
) -> Scope:
    """Give the one form of which objects are asked for, so that equal requests are equal."""
    chosen = namespaces if namespaces is None or isinstance(namespaces, NamespaceSelector) else read(namespaces)
    if isinstance(chosen, tuple):
        chosen = tuple(sorted(chosen))
    scope = Scope(api_version, kind, chosen, labels or None, fields or None)
    known = resources.known(api_version, kind)
    return replace(scope, namespaces=None) if known is not None and not known.namespaced else scope


def normal_reads(reads: Reads | Sequence[str]) -> Reads:
    """Give the one form of what may be said in several, so that equal requests are equal."""
    if reads is None or reads == "metadata":
        return reads
    if isinstance(reads, str):
        return (reads,)
    return tuple(sorted(set(reads)))


def union(one: Reads, other: Reads) -> Reads:
    """Give what keeps enough for both; metadata is always kept."""
    if one is None or other is None:
        return None
    paths = {path for each in (one, other) if not isinstance(each, str) for path in each}
    return tuple(sorted(paths)) if paths else "metadata"
