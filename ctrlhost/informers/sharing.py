"""Which informer of a factory serves a scope, so that there is one watch for each resource and selection."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ctrlhost.informers.declarations import Declarations, union
from ctrlhost.informers.narrowing import selection_within
from ctrlhost.informers.view import View

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ctrlhost.informers.informer import Informer
    from ctrlhost.informers.namespace_informer import Reads, Scope
    from ctrlhost.informers.narrowing import Selection


class Sharing:
    """The informers of one factory, by their scopes. The caller must hold the factory's lock."""

    def __init__(self, *, may_widen: bool) -> None:
        """Start empty; with `may_widen` an informer that has not started may keep more, in place of a second watch."""
        self._may_widen = may_widen
        self.informers: dict[Scope, Informer] = {}
        #: The scopes of those that were started.
        self.started: set[Scope] = set()
        self.declared = Declarations()

    def declare(self, base: Scope, reads: Reads, owner: Hashable) -> None:
        """Declare future reads of a scope, also to the informers that will serve it."""
        self.declared.add(base, reads, owner)
        for known, informer in list(self.informers.items()):
            if selection_within(known, base) is not None:
                self._keeps(informer, reads)

    def serving(self, scope: Scope) -> Informer | None:
        """Return an informer of the same objects that keeps at least what the scope reads."""
        exact = self.informers.get(scope)
        if exact is not None or scope.transform is not None:
            return exact
        for known, informer in list(self.informers.items()):
            if replace(known, reads=scope.reads) == scope and self._keeps(informer, scope.reads):
                return informer
        return None

    def wider(self, scope: Scope) -> tuple[Informer, Selection] | None:
        """Return an informer that has the objects of the scope among others, and their selection."""
        for known, informer in list(self.informers.items()):
            # The parts of a view hold more than it selects, and a selection within it would be relative to it.
            if isinstance(informer, View):
                continue
            selection = selection_within(known, scope)
            if selection is not None and self._keeps(informer, scope.reads):
                return informer, selection
        return None

    def narrower(self, scope: Scope) -> tuple[str, ...]:
        """Return the keys of the informers that would be part of an informer of this scope, but came before it."""
        known = [informer for informer in self.informers.values() if not isinstance(informer, View)]
        return tuple(informer.key for informer in known if selection_within(scope, informer.scope) is not None)

    def key(self, scope: Scope) -> str:
        """Return a unique key; scopes that differ only in their transform are numbered."""
        described, taken = scope.describe(), {informer.key for informer in self.informers.values()}
        key, number = described, 2
        while key in taken:
            key, number = f"{described} #{number}", number + 1
        return key

    def _keeps(self, informer: Informer, reads: Reads) -> bool:
        """Return whether an informer keeps what somebody reads; one that has not started can be made to."""
        known = informer.scope
        wider = replace(known, reads=union(known.reads, reads))
        if wider == known:
            return True
        if known in self.started or wider in self.informers or not self._may_widen:
            return False
        if not informer.widen(wider, self.key(wider)):
            return False
        del self.informers[known]
        self.informers[wider] = informer
        return True
