"""Informers for a whole host: one per kind and scope, counted by its users."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from ctrlhost.clock import SystemClock
from ctrlhost.errors import CtrlhostError
from ctrlhost.informers.assembly import Assembly
from ctrlhost.informers.declarations import Declarations, normal_reads, normal_scope, union
from ctrlhost.informers.kind_watch import API_VERSION, KIND, KindWatch, is_custom
from ctrlhost.informers.metrics import InformerMetrics
from ctrlhost.informers.namespace_informer import Reads, Scope, Transform
from ctrlhost.informers.narrowing import selection_within
from ctrlhost.informers.resync import Resyncer
from ctrlhost.informers.view import View
from ctrlhost.reflector.options import ReflectorOptions
from ctrlhost.selectors.namespaces import NamespaceSelector

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from ctrlhost.client import Client
    from ctrlhost.clock import Clock
    from ctrlhost.informers.informer import Informer

log = logging.getLogger(__name__)


class InformerFactory:
    """Makes informers and shares them: equal requests get the same one. All methods may be called from any thread.

        factory = InformerFactory(client)
        pods = factory.informer("v1", "Pod")
        with factory:
            factory.wait_for_sync(30)
            pods.lister.list("default")

    As a context manager it starts what was asked for so far, and stops everything at the end.
    """

    def __init__(
        self,
        client: Client,
        resync: float | None = None,
        *,
        clock: Clock | None = None,
        options: ReflectorOptions | None = None,
        on_error: Callable[[str, Exception], None] | None = None,
    ) -> None:
        """`resync` is in seconds, None for never; `on_error(informer, error)` hears of each failure."""
        self._client = client
        clock = clock or SystemClock()
        self._assembly = Assembly(
            client,
            clock,
            options or ReflectorOptions(),
            resync=resync,
            on_error=on_error,
            fed=self._fed,
            missing=self._missing,
        )
        self._lock = threading.Lock()
        self._news = threading.Condition()
        self._informers: dict[Scope, Informer] = {}
        self._started: set[Scope] = set()
        self._declared = Declarations()
        self._stopped = False
        self._kinds: KindWatch | None = None
        self._resyncer = Resyncer(clock, self._parts)
        #: A collector for prometheus-client.
        self.metrics = InformerMetrics(self.informers)

    def declare(
        self,
        api_version: str,
        kind: str,
        *,
        namespaces: Sequence[str] | NamespaceSelector | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        reads: Reads | Sequence[str] = None,
    ) -> None:
        """Say beforehand what will be read of a kind, so that one informer keeps enough for all who share it."""
        scope = normal_scope(self._client.resources, api_version, kind, namespaces, label_selector, field_selector)
        wanted = normal_reads(reads)
        with self._lock:
            self._declared.add(scope, wanted)

    def informer(
        self,
        api_version: str,
        kind: str,
        *,
        namespaces: Sequence[str] | NamespaceSelector | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        reads: Reads | Sequence[str] = None,
        transform: Transform = None,
    ) -> Informer:
        """Share in the informer of a kind; give it back with its `release`.

        `namespaces` None is all of them; else they are chosen by name, by glob, or as `label:SELECTOR`, and followed as
        they come and go: what is in one that goes counts as deleted. `reads` says which part of each object is kept:
        None all of it, "metadata", or paths such as "spec.rules"; the informer may keep more, for others. `transform`
        takes an object and gives the one to keep. One that a wider informer covers (by namespaces, labels, or a field
        selector of name or namespace) is a view of that one, if it is there already or was declared. It runs once
        `start` was called after this.
        """
        base = normal_scope(self._client.resources, api_version, kind, namespaces, label_selector, field_selector)
        wanted = normal_reads(reads)
        with self._lock:
            if self._stopped:
                raise CtrlhostError(f"no informer of {kind} was made: the factory has stopped already")
            if base in self._declared and transform is None:
                wanted = union(self._declared.reads(base), wanted)
            return self._get(replace(base, reads=wanted, transform=transform))

    def _missing(self, scope: Scope) -> None:
        """Hear what becomes of custom kinds, since the server has not got one of them; called by its reflector."""
        if not is_custom(scope):
            return
        with self._lock:
            informer = self._informers.get(scope)
            if self._stopped or informer is None:
                return
            if self._kinds is None:
                crds = self._get(Scope(API_VERSION, KIND, reads="metadata"), optional=True)
                self._kinds = KindWatch(crds, self._watched, self._client.resources)
            kinds = self._kinds
            self._started.add(kinds.crds.scope)
        kinds.crds.start()
        kinds.missing(informer)

    def _watched(self) -> list[Informer]:
        return [each for each in self.informers() if not isinstance(each, View)]

    def _get(self, scope: Scope, *, optional: bool = False) -> Informer:
        """Share in an informer, made now if there is none: a view where a wider one is there or was declared."""
        found = self._covering(scope)
        if found is None:
            found = self._view(scope) or self._make(scope, optional=optional)
            found._release = self._release  # noqa: SLF001 - the factory counts the users of what it makes
            self._informers[scope] = found
        found.users += 1
        return found

    def _view(self, scope: Scope) -> View | None:
        for known in self._informers:
            selection = selection_within(known, scope)
            if selection is not None and union(known.reads, scope.reads) == known.reads:
                return View(scope, self._key(scope), self._get(known), selection)
        base = replace(scope, reads=None)
        found = self._declared.wider(base)
        if found is None:
            return None
        declared, selection = found
        wide = self._get(replace(declared, reads=union(self._declared.reads(declared), scope.reads)))
        return View(scope, self._key(scope), wide, selection)

    def _covering(self, scope: Scope) -> Informer | None:
        """Give an informer that keeps all that is asked for, maybe more."""
        exact = self._informers.get(scope)
        if exact is not None or scope.transform is not None:
            return exact
        for known, informer in self._informers.items():
            if replace(known, reads=scope.reads) == scope and union(known.reads, scope.reads) == known.reads:
                return informer
        return None

    def _make(self, scope: Scope, *, optional: bool) -> Informer:
        key = self._key(scope)
        namespaces = None
        if isinstance(scope.namespaces, NamespaceSelector):
            namespaces = self._get(Scope("v1", "Namespace", reads="metadata"))
        return self._assembly.informer(scope, key, namespaces, optional=optional)

    def _key(self, scope: Scope) -> str:
        """Name an informer; transforms have no names, so of several with the same description each gets a number."""
        described, taken = scope.describe(), {each.key for each in self._informers.values()}
        number = 2
        key = described
        while key in taken:
            key, number = f"{described} #{number}", number + 1
        return key

    def _release(self, informer: Informer) -> None:
        with self._lock:
            if self._informers.get(informer.scope) is not informer:
                return
            informer.users -= 1
            if informer.users > 0:
                return
            del self._informers[informer.scope]
            self._started.discard(informer.scope)
            kinds = self._kinds
            if kinds is not None and not any(is_custom(scope) for scope in self._informers):
                self._kinds = None
            else:
                kinds = None
        log.debug("the last user of %s has left; it stops", informer.key)
        informer.stop()
        if isinstance(informer, View):
            informer.wide.release()
        elif informer.following is not None:
            informer.following.namespaces.release()
        if kinds is not None:
            kinds.stop()
            kinds.crds.release()

    def informers(self) -> list[Informer]:
        """Give the informers that somebody uses."""
        with self._lock:
            return list(self._informers.values())

    def start(self) -> None:
        """Start what was asked for so far and does not run yet; to be called again after further requests."""
        with self._lock:
            if self._stopped:
                return
            fresh = [(scope, each) for scope, each in self._informers.items() if scope not in self._started]
            self._started.update(scope for scope, _ in fresh)
        for _, informer in fresh:
            informer.start()
        self._resyncer.start()

    def poke(self, group: str) -> None:
        """Let the informers of an API group that wait try again now, as after its CRDs were installed."""
        for informer in self.informers():
            if informer.state == "waiting" and informer.scope.api_version.rpartition("/")[0] == group:
                informer.poke()

    def wait_for_sync(self, timeout: float | None = None) -> bool:
        """Wait until all started informers hold their first list; False at the timeout, which names the late ones.

        Of those that `start` was not called for it only says in the log that they are not waited for.
        The seconds are real ones, whatever clock the factory has: what is waited for is the network.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            idle = sorted(each.key for scope, each in self._informers.items() if scope not in self._started)
        if idle:
            log.warning("not waited for, since start() was not called after they were asked for: %s", ", ".join(idle))
        while True:
            with self._news:
                late = self._late()
                if not late:
                    return True
                left = None if deadline is None else deadline - time.monotonic()
                if self._stopped or (left is not None and left <= 0):
                    break
                # A listener's progress is not announced, so a look now and then stays necessary.
                self._news.wait(0.1 if left is None else min(left, 0.1))
        log.warning("timed out waiting for %s", ", ".join(late))
        return False

    def _late(self) -> list[str]:
        with self._lock:
            started = [each for scope, each in self._informers.items() if scope in self._started]
        return sorted(f"{each.key} ({each.state})" for each in started if not each.has_synced and not each.optional)

    def stop(self) -> None:
        """Stop all informers for good; returns within a few seconds. May be repeated."""
        with self._lock:
            self._stopped = True
            informers = list(self._informers.values())
        self._resyncer.stop()
        # Cut all streams first, so that the threads end beside each other.
        for informer in informers:
            for part in informer.parts:
                part.reflector.stop()
        for informer in informers:
            informer.stop()
        self._fed()

    def __enter__(self) -> Self:
        """Start what was asked for so far."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop everything."""
        self.stop()

    def _fed(self) -> None:
        with self._news:
            self._news.notify_all()

    def _parts(self) -> list[Any]:
        return [part for informer in self.informers() if not isinstance(informer, View) for part in informer.parts]
