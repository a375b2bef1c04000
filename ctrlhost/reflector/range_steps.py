"""What a reflector of a shard does besides: it lists ranges that come, lets others go, and rests while it has none."""

from __future__ import annotations

import random
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

_WAITING_DELAY = 3600.0
"""Seconds after which a reflector that waits, for ranges or a turn, looks again; a change wakes it."""


class RangeSteps:
    """The steps of one reflector that follow its shard."""

    def __init__(self, shard: Shard, feed: Feed, lists: Lists, wait: Callable[[CtrlhostError], Steps[None]]) -> None:
        """List through `lists`; call `wait` to report a failure, and to back off."""
        self.shard = shard
        self._feed = feed
        self._lists = lists
        self._wait = wait
        #: The newest list of ranges since that of everything: a later one that is older would bring back what was.
        self._newest = ""

    def begin(self) -> Steps[bool]:
        """Begin a list of all that is wanted, when it is its turn; return False if that is nothing."""
        if not self._begin():
            return False
        yield from self.await_turn()
        return self._begin()

    def _begin(self) -> bool:
        ranges, self._newest = self.shard.begin(), ""
        self._feed.requests.select(self.shard.selector(ranges))
        return bool(ranges)

    def await_turn(self) -> Steps[None]:
        """Wait until ranges that come may be listed, if there are some; the reflector ends the turn."""
        if not self.shard.comes:
            return
        yield from self._wait_until(lambda: not self.shard.comes or self.shard.turn())
        if self.shard.comes and (most := self.shard.spread):
            yield BackOff(random.uniform(0, most))  # noqa: S311 - spreads load, protects nothing
            self._feed.check()

    def change(self, resource: Resource) -> Steps[State]:
        """Drop the ranges that are not wanted, and list those that are new; return from where to go on.

        The next watch begins where the last one ended. What it replays of the new ranges is in their list.
        """
        shard, last = self.shard, self._feed.position.last
        if is_older(last, self._newest):
            last = self._newest
        came = shard.change()
        if not shard.aim:
            return Resting()
        if came:
            yield from self.await_turn()
            came = shard.change()
        if came:
            self._feed.requests.select(shard.selector(came))
            version = (yield from self._list(resource, came, last)) if last.isdecimal() else ""
            if version is None:
                return Listed(resource)
            if not version.isdecimal() or is_older(version, last):
                # Versions that cannot be compared do not say what is in the list.
                return Unlisted()
            self._newest = version
            shard.fill()
        self._feed.requests.select(shard.selector(shard.aim))
        return Listed(resource)

    def _list(self, resource: Resource, ranges: Ranges, version: str) -> Steps[str | None]:
        """List ranges that are new; return their version, or None after a failure that says nothing about the rest."""
        try:
            try:
                return (yield from self._lists.part(resource, ranges, version))
            except ApiError as error:
                if not is_unavailable(error):
                    raise
                # Such as a server that lags: its present state is new enough.
                return (yield from self._lists.part(resource, ranges, ""))
        except (TransportError, ApiError) as error:
            self._feed.check()
            if isinstance(error, ApiError) and error.status < 500:
                raise
            yield from self._wait(error)
            return None

    def rest(self) -> Steps[None]:
        """Wait until ranges are wanted."""
        yield from self._wait_until(lambda: bool(self.shard.wanted))

    def _wait_until(self, condition: Callable[[], bool]) -> Steps[None]:
        """Wait until a condition is met; the reflector is woken when it may be."""
        self.shard.waiting = True
        while not condition():
            yield BackOff(_WAITING_DELAY)
            self._feed.check()
        self.shard.waiting = False

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
