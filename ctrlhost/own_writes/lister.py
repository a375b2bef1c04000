"""The lister of a plugin: the cache with the plugin's own writes on top."""

from __future__ import annotations

import asyncio
import copy
import time
from typing import TYPE_CHECKING

from ctrlhost.clock import doubling
from ctrlhost.errors import Stale
from ctrlhost.transport.steps import Pause, carry_out_async

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ctrlhost.cache import Object
    from ctrlhost.informers import Informer
    from ctrlhost.own_writes.overlay import PendingWrites
    from ctrlhost.transport.steps import Steps

#: The beginning of the names of indexes that the host adds to a source.
_OWN_INDEXES = "ctrlhost."
#: How long a list waits for the cache to catch up, in seconds.
WAIT_SECONDS = 2.0


class PluginLister:
    """A lister for a controller: the cache, updated with the plugin's own writes. Methods are safe from any thread."""

    def __init__(self, informer: Informer, pending: PendingWrites, indexes: Mapping[str, str]) -> None:
        """Read from an informer; `indexes` maps the plugin's index names to the informer's."""
        self._lister = informer.lister
        self._pending = pending
        self._indexes = indexes
        self._waits = True

    @property
    def has_synced(self) -> bool:
        """Whether the first list is in the cache."""
        return self._pending.informer.has_synced

    def get(self, name: str, namespace: str = "") -> Object | None:
        """Return one object, or None; a write of the plugin counts from its answer on."""
        cached = self._lister.get(name, namespace)
        return self._pending.resolve((namespace, name), cached) if self._pending else cached

    def by_index(self, name: str, value: str) -> list[Object]:
        """Return the objects that an index has under `value`, once the cache shows the plugin's own writes.

        Raises KeyError for an index that the plugin did not declare, and Stale after 2 seconds.
        """
        index = self._indexes.get(name)
        if index is None:
            declared = sorted(index for index in self._indexes if not index.startswith(_OWN_INDEXES))
            raise KeyError(f"no index `{name}` is declared for this source; it declares {declared}")
        self._wait(None)
        return self._lister.by_index(index, value)

    def list(self, namespace: str | None = None, label_selector: str | None = None) -> list[Object]:
        """Return the objects, once the cache shows the plugin's own writes; Stale after 2 seconds."""
        self._wait(namespace)
        return self._lister.list(namespace, label_selector)

    async def caught_up(self, namespace: str | None = None) -> None:
        """Wait until the cache shows the plugin's own writes, without blocking the event loop; Stale after 2 seconds.

        An `async def` reconciler awaits this between a write of its own and a `list` or `by_index`.
        """
        # Also those of other tasks: `list` and `by_index` look again.
        await carry_out_async(self._pauses(namespace, later=True))

    def catch_up(self, namespace: str | None = None) -> Steps[None]:
        """Return the steps that wait until the cache shows the plugin's own writes so far; Stale after 2 seconds.

        `without_waiting` then returns a lister that does not wait for later ones.
        """
        return self._pauses(namespace, later=False)

    def _pauses(self, namespace: str | None, *, later: bool) -> Steps[None]:
        for _, pause in self._lag(namespace, later=later):
            yield Pause(pause)

    def without_waiting(self) -> PluginLister:
        """Return a lister that does not wait for the plugin's own writes, for callers that get their events later."""
        other = copy.copy(self)
        other._waits = False  # noqa: SLF001 - the same class
        return other

    def __iter__(self) -> Iterator[Object]:
        """Iterate over all objects, as `list` returns them."""
        return iter(self.list())

    def _wait(self, namespace: str | None) -> None:
        for key, pause in self._lag(namespace):
            if _on_event_loop():
                raise Stale(
                    f"the cache does not show the write of {key} yet",
                    hint="await `lister.caught_up()` first: an event loop must not wait in `list` or `by_index`",
                )
            time.sleep(pause)

    def _lag(self, namespace: str | None, *, later: bool = False) -> Iterator[tuple[str, float]]:
        """Yield a key and a pause while the cache does not show its write; Stale after 2 real seconds.

        Writes after the call count with `later` only: other workers may write all the time. The stream from the server
        does not follow the clock of a test.
        """
        deadline, pauses = time.monotonic() + WAIT_SECONDS, doubling(0.0005, 0.02)
        behind = self._behind(namespace)
        while behind:
            if reason := self._pending.informer.over_budget_in(behind[0].rpartition("/")[0]):
                raise Stale(f"the cache does not show the write of {behind[0]}: {reason}")
            left = deadline - time.monotonic()
            if left <= 0:
                raise Stale(f"the cache does not show the write of {behind[0]} after {WAIT_SECONDS:g} s")
            yield behind[0], min(next(pauses), left)
            before, behind = set(behind), self._behind(namespace)
            if not later:
                behind = [key for key in behind if key in before]

    def _behind(self, namespace: str | None) -> Sequence[str]:
        return self._pending.behind(namespace) if self._waits and self._pending else ()


def _on_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
