"""The part of all objects that a reflector holds: the ranges that it wants and has, and whether the server filters."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ctrlhost._core import shard_hash, shard_selector
from ctrlhost.reflector.ranges import Ranges

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ctrlhost.cache import ListMeta, SharedInformer
    from ctrlhost.reflector.list_slots import ListSlots
    from ctrlhost.transport.interface import Stream

log = logging.getLogger("ctrlhost.informers.shards")

ShardBy = Literal["namespace", "name", "uid", "owner"]

_NO_OBJECT = Ranges(((0, 1),))
"""A range that is not empty and that no namespace or uid is in."""


def place_of(by: ShardBy, metadata: Mapping[str, Any]) -> int | None:
    """Return the hash that decides whether an object with this metadata is held; None if nobody holds it."""
    if by != "owner":
        return shard_hash(metadata.get(by) or "")
    owners = metadata.get("ownerReferences") or ()
    uid = next((owner.get("uid") for owner in owners if owner.get("controller")), None)
    return shard_hash(uid) if uid else None


@dataclass(frozen=True, slots=True)
class ShardSource:
    """What decides whether an object is held, and which ranges are wanted; callable from any thread."""

    by: ShardBy
    wanted: Callable[[], Ranges]
    #: Called after ranges have come, with all handlers notified.
    filled: Callable[[], None]
    #: The lists of ranges that run at a time.
    slots: ListSlots
    #: The longest time, in seconds, to wait at random before a list of ranges that come.
    spread: Callable[[], float]
    #: The hash of all objects, if they have but one; then everything is wanted or nothing.
    place: int | None = None


class Shard:
    """The ranges of one reflector. For its steps; `held`, `filters` and the methods that say so are for any thread."""

    def __init__(
        self, source: ShardSource, kind: str, engine: SharedInformer, wake: Callable[[], None], *, tells: bool
    ) -> None:
        """Hold nothing. `wake` is called from any thread when it is the turn of its list.

        `tells` is whether lists that the server filters say so.
        """
        self._source = source
        self._wake = wake
        self._stopped = False
        self._kind = kind
        self._engine = engine
        self._tells = tells
        #: Whether the server can filter at all.
        self._selects = source.place is None and source.by in ("namespace", "uid")
        #: What the cache has.
        self.held = Ranges()
        #: What it has after the list in progress.
        self.aim = Ranges()
        #: Whether the server filters; None if that is not known.
        self.filters: bool | None = None
        #: Whether that was asked since the last connection was lost.
        self.asked = False
        #: Whether the server showed nothing when asked: it filters, or there was nothing.
        self._silent = False
        #: Whether its steps wait: for ranges, or for the turn of their list.
        self.waiting = False
        self._followed: Stream | None = None
        #: Whether `changed` has ended the last stream.
        self.cut = False

    @property
    def wanted(self) -> Ranges:
        """The ranges that it is to hold, as of now."""
        return self._source.wanted()

    @property
    def outdated(self) -> bool:
        """Whether other ranges are wanted than those of the list or watch in progress. Callable from any thread."""
        return self.wanted != self.aim

    @property
    def complete(self) -> bool:
        """Whether the cache has exactly what is wanted."""
        return self.wanted == self.held

    def has(self, start: int, end: int) -> bool:
        """Return whether the cache has all of a range. Callable from any thread."""
        place = self._source.place
        return (place is not None and not start <= place < end) or self.held.cover(start, end)

    def takes(self, metadata: Mapping[str, Any]) -> bool:
        """Return whether an object with this metadata belongs to its ranges. Callable from any thread."""
        place = place_of(self._source.by, metadata)
        return place is not None and place in self.held

    @property
    def comes(self) -> bool:
        """Whether ranges are wanted that the cache does not have."""
        return bool(self.wanted - self.held)

    @property
    def spread(self) -> float:
        """The longest time, in seconds, to wait at random before a list of ranges that come."""
        return self._source.spread()

    def turn(self) -> bool:
        """Return whether ranges that come may be listed now; else `wake` is called later. Callable from any thread."""
        granted = self._source.slots.ask(self, self._wake)
        if self._stopped:
            self.end_turn()
        return granted

    def end_turn(self) -> None:
        """End the turn, or the wait for it, so that another list may run."""
        self._source.slots.end(self)

    def stop(self) -> None:
        """Take no turn any more."""
        self._stopped = True
        self.end_turn()

    def changed(self) -> None:
        """End the watch if other ranges are wanted; of those that come when they may be listed. For any thread."""
        stream = self._followed
        if stream is not None and self.outdated and (not self.comes or self.turn()):
            self.cut = True
            stream.close()

    def follow(self, stream: Stream) -> None:
        """Set the stream that `changed` ends."""
        self.cut, self._followed = False, stream
        # The change may have come before there was a stream to end.
        self.changed()

    def leave(self) -> None:
        """Note that the stream has ended, or that its list is complete."""
        self._followed = None

    def begin(self) -> Ranges:
        """Begin a list of all that is wanted, and let go of the rest; return the ranges."""
        self.aim = self.wanted
        self._engine.hold(self.aim.pairs)
        self.held &= self.aim
        if not self.aim and not self._engine.has_synced:
            # There is nothing to list, so that is the whole content.
            self._engine.begin_list()
            self._engine.replace("")
            self._engine.process()
        return self.aim

    def change(self) -> Ranges:
        """Drop what is no longer wanted; return the ranges to be listed."""
        self.aim = self.wanted
        kept = self.held & self.aim
        if kept != self.held:
            self._engine.hold(kept.pairs)
            self.held = kept
        return self.aim - kept

    def fill(self) -> None:
        """Note that the list in progress is complete."""
        came = self.aim - self.held
        self.held = self.aim
        if self._silent:
            self.answered(None)
        if came:
            self._source.filled()

    def selector(self, ranges: Ranges) -> str:
        """Return the parameter for a list or watch of these ranges; empty if the server cannot choose by it."""
        return shard_selector(self._source.by, ranges.pairs) if self._selects else ""

    @property
    def question(self) -> str:
        """The selector of a list that is empty if the server filters; empty if there is nothing to ask."""
        return "" if self.asked else self.selector(_NO_OBJECT)

    def listed(self, meta: ListMeta, selector: str) -> None:
        """Note what a page says about its selector."""
        if self._tells and selector:
            self.answered(bool(meta.shard_selector))

    def answered(self, filters: bool | None) -> None:
        """Note whether the server filters; None if it does not say."""
        self.asked, self._silent = True, filters is None
        if filters is None and self._engine.stats()["objects"]:
            # It has objects, and has shown none.
            filters, self._silent = True, False
        if filters is None or filters == self.filters:
            return
        self.filters = filters
        if filters:
            log.info("the API server filters %s by shard", self._kind)
        else:
            log.info(
                "the API server does not filter %s by shard: all objects are received, and filtered here", self._kind
            )
