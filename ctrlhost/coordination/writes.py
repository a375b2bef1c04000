"""The check that each request of a plugin passes just before it is sent: of its term, of the deadline, of restarts.

The transport compares the numbers of a permit where the bytes leave, when nothing is left that may wait. A process that
is stopped between the check and the system call can still send late; optimistic locking remains.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Literal

from ctrlhost._core import Fence, Gate
from ctrlhost.client.in_flight import InFlight
from ctrlhost.errors import NotLeading, PluginRestarted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

    from ctrlhost.coordination.term import Tenure

Reason = Literal["term", "deadline", "restarted", "shard"]

#: Those of a host without shards.
REASONS: tuple[Reason, ...] = ("term", "deadline", "restarted")


class Refusals:
    """Counts the writes of all plugins of a host that were refused. Callable from any thread."""

    def __init__(self) -> None:
        """Start at zero."""
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, Reason]] = Counter()
        self._plugins: dict[str, None] = {}
        #: The reasons that have series from the start.
        self.reasons = REASONS

    def add(self, plugin: str) -> None:
        """Show the series of a plugin from now on."""
        self._plugins[plugin] = None

    def count(self, plugin: str, reason: Reason) -> None:
        """Count one refused write."""
        with self._lock:
            self._counts[plugin, reason] += 1

    def collect(self) -> Iterator[Metric]:
        """Return the metric family; called by scrapes."""
        from prometheus_client.core import CounterMetricFamily

        family = CounterMetricFamily(
            "ctrlhost_writes_refused",
            "Writes of the plugin that were not sent: the term was over, its deadline passed, or the plugin restarted",
            labels=("plugin", "reason"),
        )
        with self._lock:
            counts = Counter(self._counts)
        for plugin in tuple(self._plugins):
            for reason in self.reasons:
                family.add_metric((plugin, reason), counts[plugin, reason])
        yield family


class Writes:
    """What the clients of one plugin context may send; all of them share it. Callable from any thread."""

    def __init__(self, plugin: str, tenure: Tenure, refusals: Refusals) -> None:
        """Allow the requests of `plugin`, writes in the terms of `tenure`; count refused writes in `refusals`."""
        self.plugin = plugin
        self.tenure = tenure
        self.fenced = Fence()
        self.in_flight = InFlight()
        #: Permits a read: any, until the fence.
        self.read = UntilFence(self, counts=False)
        #: Permits a write of every replica: any, until the fence.
        self.write = UntilFence(self, counts=True)
        self._refusals = refusals
        refusals.add(plugin)

    def fence(self) -> None:
        """Refuse every request from now on, reads too: the plugin has failed or restarts with a new context."""
        self.fenced.raise_()

    def refuse(self, reason: Reason, problem: str) -> NotLeading | PluginRestarted:
        """Count a refused write and return its error."""
        self._refusals.count(self.plugin, reason)
        if reason == "restarted":
            return self.restarted()
        return NotLeading(f"plugin {self.plugin}: the write was not sent: {problem}", reason=reason)

    def restarted(self) -> PluginRestarted:
        """Return the error of a request after `fence`."""
        return PluginRestarted(f"plugin {self.plugin} has failed or restarted: its earlier clients send nothing")


class UntilFence:
    """Permits everything until the fence; refused writes are counted."""

    __slots__ = ("_counts", "gate", "in_flight", "writes")

    def __init__(self, writes: Writes, *, counts: bool) -> None:
        """Bind to a plugin context; `counts` for writes."""
        self.writes = writes
        self.gate = Gate(writes.fenced)
        self.in_flight = InFlight(writes.in_flight)
        self._counts = counts

    def __call__(self) -> None:
        """Raise PluginRestarted after the fence."""
        if refusal := self.gate.refusal():
            raise self.refused(refusal)

    def refused(self, refusal: int) -> Exception:  # noqa: ARG002 - there is one reason
        """Return the error of a request that the gate refused."""
        return self.writes.refuse("restarted", "") if self._counts else self.writes.restarted()


class Permit:
    """Permits the writes of one term, or with `term` None those of any term."""

    __slots__ = ("gate", "in_flight", "shard", "tenure", "term", "writes")

    def __init__(self, writes: Writes, term: int | None = None, shard: Tenure | None = None) -> None:
        """Bind to the number of a term: of the plugin's tenure, or of that of the range of a key."""
        self.writes = writes
        self.term = term
        self.shard = shard is not None
        self.tenure = shard or writes.tenure
        self.gate = Gate(writes.fenced, self.tenure, term)
        self.in_flight = InFlight(writes.in_flight)

    def __call__(self) -> None:
        """Raise NotLeading or PluginRestarted if no write may be sent now."""
        if refusal := self.gate.refusal():
            raise self.refused(refusal)

    @property
    def over(self) -> bool:
        """Whether the term is over, or with `term` None, whether this replica does not lead."""
        now = self.tenure.term
        return now is None or self.term not in (None, now)

    def refused(self, refusal: int) -> NotLeading | PluginRestarted:
        """Count a write that the gate refused, and return its error."""
        writes = self.writes
        match refusal:
            case Gate.FENCED:
                return writes.refuse("restarted", "")
            case Gate.OTHER_TERM | Gate.NOT_LEADING if self.shard:
                return writes.refuse("shard", "the range of the key is no longer open here, or was closed meanwhile")
            case Gate.OTHER_TERM:
                return writes.refuse("term", f"it belongs to term {self.term}, which is over")
            case Gate.NOT_LEADING:
                return writes.refuse("term", "this replica does not lead")
            case _:
                return writes.refuse("deadline", "the lease was not renewed in time")


def causes(error: BaseException) -> Iterator[BaseException]:
    """Return the error and the chain of its causes."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        yield cause
        seen.add(id(cause))
        cause = cause.__cause__


def refused(error: BaseException, permit: Permit | None) -> bool:
    """Return whether work with this permit ended in `error` because its term, or its plugin's run, is over.

    A write that is refused while the work's own term goes on, such as with a client of an earlier term, is a mistake of
    the plugin.
    """
    for cause in causes(error):
        if isinstance(cause, PluginRestarted):
            return True
        if isinstance(cause, NotLeading):
            return permit is not None and permit.over
    return False
