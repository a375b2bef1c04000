"""Whether the kind of an owner has a namespace; asked again while the server does not tell."""

from __future__ import annotations

import logging
import threading
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

from ctrlhost import _core
from ctrlhost.client.builtin_kinds import BUILTIN_KINDS, builtin_plural
from ctrlhost.clock import doubling
from ctrlhost.errors import CtrlhostError
from ctrlhost.informers.mappings import ByLabel, Owner

if TYPE_CHECKING:
    from ctrlhost.client import Client

log = logging.getLogger(__name__)

#: The timeout of a request, in seconds.
_TIMEOUT = 5.0
#: The bounds of the pause between two requests, in seconds.
_FIRST, _LAST = 0.2, 5.0


class OwnerKinds:
    """Answers for the handlers of one factory. All methods may be called from any thread.

    Its thread ends with it.
    """

    def __init__(self, client: Client) -> None:
        """Prepare; the thread exists while there are unknown kinds."""
        self._client = client
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._stopped = False
        self._waiting: tuple[_core.Owner, ...] = ()
        self._thread: threading.Thread | None = None
        weakref.finalize(self, self._woken.set).atexit = False

    def in_core(self, mapping: Any) -> Any:
        """Return the core's form of an `Owner` or a `ByLabel`; a function, or "object", is returned unchanged."""
        if isinstance(mapping, ByLabel):
            return _core.ByLabel(mapping.name, namespace=mapping.namespace, cluster_scoped=mapping.cluster_scoped)
        return self._owner(mapping) if isinstance(mapping, Owner) else mapping

    def _owner(self, owner: Owner) -> _core.Owner:
        """Return the core's form of an owner. While its scope is unknown, its requests wait."""
        cluster_scoped = owner.cluster_scoped
        if cluster_scoped is None:
            cluster_scoped = self._ask(owner.api_version, owner.kind)
        known = _core.Owner(owner.api_version, owner.kind, controller=owner.controller, cluster_scoped=cluster_scoped)
        if cluster_scoped is None:
            log.info("requests for owners of kind %s (%s) wait: the kind is unknown", owner.kind, owner.api_version)
            with self._lock:
                self._waiting = (*self._waiting, known)
                if self._thread is None and not self._stopped:
                    ask = partial(_ask_repeatedly, weakref.ref(self), self._woken)
                    thread = threading.Thread(target=ask, name="kinds of owners", daemon=True)
                    thread.start()
                    self._thread = thread
        return known

    def forget(self, owner: _core.Owner) -> None:
        """Drop the requests that wait: the handler was removed."""
        with self._lock:
            self._waiting = tuple(waiting for waiting in self._waiting if waiting is not owner)
        owner.drop_waiting()

    def wake(self) -> None:
        """Ask at once, for example after CRDs were installed."""
        self._woken.set()

    def stop(self) -> None:
        """Ask no more."""
        self._stopped = True
        self._woken.set()

    def _ask(self, api_version: str, kind: str) -> bool | None:
        group = api_version.rpartition("/")[0]
        # An owner matches in any version of its group, so the one that is given may be old.
        others = [
            known_version
            for known_version in BUILTIN_KINDS
            if known_version.rpartition("/")[0] == group and known_version != api_version
        ]
        for version in (api_version, *others):
            builtin = builtin_plural(version, kind)
            if builtin is not None:
                return not builtin[1]
        try:
            return not self._client.resource(api_version, kind, timeout=_TIMEOUT).namespaced
        except CtrlhostError:
            # Not served yet, or no server.
            return None

    def ask_again(self) -> bool:
        """Ask for the kinds that are unknown; False if the thread, which calls it, has to end."""
        for owner in self._waiting:
            cluster_scoped = None if self._stopped else self._ask(owner.api_version, owner.kind)
            if cluster_scoped is not None:
                self._resolve(owner, cluster_scoped=cluster_scoped)
        with self._lock:
            if self._stopped or not self._waiting:
                self._thread = None
                return False
        return True

    def _resolve(self, owner: _core.Owner, *, cluster_scoped: bool) -> None:
        with self._lock:
            if not any(waiting is owner for waiting in self._waiting):
                return
            self._waiting = tuple(waiting for waiting in self._waiting if waiting is not owner)
        owner.resolve(cluster_scoped)


def _ask_repeatedly(reference: weakref.ref[OwnerKinds], woken: threading.Event) -> None:
    pauses = doubling(_FIRST, _LAST)
    while True:
        if woken.wait(next(pauses)):
            pauses = doubling(_FIRST, _LAST)
        woken.clear()
        # Kept only while it asks.
        kinds = reference()
        if kinds is None or not kinds.ask_again():
            return
        del kinds
