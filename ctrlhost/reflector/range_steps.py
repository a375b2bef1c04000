"""What a reflector of a shard does besides: it lists ranges that come, lets go of others, and waits while it has none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlhost.errors import ApiError, CtrlhostError, TransportError
from ctrlhost.reflector.resume_point import is_busy, is_older, is_unavailable
from ctrlhost.reflector.states import Listed, Resting, State, Unlisted
from ctrlhost.reflector.steps import BackOff, Steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.client.resources import Resource
    from ctrlhost.reflector.feed import Feed
    from ctrlhost.reflector.lists import Lists
    from ctrlhost.reflector.ranges import Ranges
    from ctrlhost.reflector.shard import Shard

_RESTING_DELAY = 3600.0
"""Seconds after which a reflector without ranges looks again whether it is to have some; a change wakes it."""


class RangeSteps:
    """The steps of one reflector that follow its shard."""

    def __init__(
        self, shard: Shard, feed: Feed, lists: Lists, wait: Callable[[CtrlhostError], Steps[None]]
    ) -> None:
        """List through `lists`; call `wait` to report a failure, and to back off."""
        self.shard = shard
        self._feed = feed
        self._lists = lists
        self._wait = wait

    def begin(self) -> bool:
        """Begin a list of all that is wanted; return False if that is nothing."""
        ranges = self.shard.begin()
        self._feed.requests.select(self.shard.selector(ranges))
        return bool(ranges)

    def change(self, resource: Resource) -> Steps[State]:
        """Let go of the ranges that are not wanted, and list those that are new; return from where to go on.

        The next watch begins where the last one ended. What it replays of the new ranges is in their list.
        """
        shard, last = self.shard, self._feed.position.last
        came = shard.change()
        if not shard.aim:
            return Resting()
        if came:
            self._feed.requests.select(shard.selector(came))
            version = (yield from self._list(resource, came)) if last.isdecimal() else ""
            if version is None:
                return Listed(resource)
            if not version.isdecimal() or is_older(version, last):
                # Versions that cannot be compared do not say what is in the list.
                return Unlisted()
            shard.fill()
        self._feed.requests.select(shard.selector(shard.aim))
        return Listed(resource)

    def _list(self, resource: Resource, ranges: Ranges) -> Steps[str | None]:
        """List ranges that are new; return their version, or None after a failure that says nothing about the rest."""
        try:
            return (yield from self._lists.part(resource, ranges))
        except (TransportError, ApiError) as error:
            self._feed.check()
            failed = isinstance(error, TransportError) or error.status >= 500
            if not failed or is_unavailable(error):
                raise
            yield from self._wait(error)
            return None

    def rest(self) -> Steps[None]:
        """Wait until ranges are wanted."""
        self.shard.resting = True
        while not self.shard.wanted:
            yield BackOff(_RESTING_DELAY)
            self._feed.check()
        self.shard.resting = False

    def ask(self, resource: Resource) -> Steps[None]:
        """Ask whether the server filters, once for each connection."""
        requests, question = self._feed.requests, self.shard.question
        if not question:
            return
        try:
            filters = False if requests.selects_all else (yield from requests.filters(resource, question))
        except (CtrlhostError, ValueError) as error:
            self._feed.check()
            if is_busy(error):
                raise
            # What is asked for next fails in the same way, or does without the answer.
            filters = None
        self.shard.answered(filters)
