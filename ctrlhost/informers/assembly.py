"""Putting an informer together: its parts, and what has them follow the namespaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlhost.informers.informer import Informer
from ctrlhost.informers.namespace_follower import Following
from ctrlhost.informers.namespace_informer import Part
from ctrlhost.informers.namespace_informers import Parts
from ctrlhost.selectors.namespaces import NamespaceSelector

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.client import Client
    from ctrlhost.clock import Clock
    from ctrlhost.informers.namespace_informer import Scope
    from ctrlhost.reflector.options import ReflectorOptions


class Assembly:
    """Makes the informers of one factory, which all have its client, clock and options."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        options: ReflectorOptions,
        *,
        resync: float | None,
        on_error: Callable[[str, Exception], None] | None,
        fed: Callable[[], None],
        missing: Callable[[Scope], None],
    ) -> None:
        """`fed` is called when a cache has got something, `missing` when the server has not got a kind."""
        self._client = client
        self._clock = clock
        self._options = options
        self._resync = resync
        self._on_error = on_error
        self._fed = fed
        self._missing = missing

    def informer(self, scope: Scope, key: str, namespaces: Informer | None, *, optional: bool) -> Informer:
        """Make the informer of a scope; `namespaces` is the one of all namespaces, where it follows some of them."""
        fixed = scope.namespaces if isinstance(scope.namespaces, tuple) else ()
        parts = Parts(
            lambda parts, namespace: self._part(scope, key, namespace, parts, optional=optional),
            [""] if scope.namespaces is None else fixed,
        )
        following = None
        if namespaces is not None and isinstance(scope.namespaces, NamespaceSelector):
            following = Following(scope.namespaces, namespaces, parts)
        return Informer(scope, key, parts, self._client, self._clock, following, optional=optional)

    def _part(self, scope: Scope, key: str, namespace: str, parts: Parts, *, optional: bool) -> Part:
        on_error = self._on_error

        return Part(
            self._client,
            scope,
            namespace,
            self._clock,
            self._options,
            resync=self._resync,
            fed=self._fed,
            on_error=None if on_error is None else lambda error: on_error(key, error),
            cluster_scoped=lambda: parts.keep_one(namespace),
            missing=lambda: self._missing(scope),
            optional=optional,
        )
