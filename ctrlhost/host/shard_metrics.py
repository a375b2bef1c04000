"""The metrics of shards."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from ctrlhost.coordination.balance import shares
from ctrlhost.coordination.ownership import Phase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

    from ctrlhost.host.shards import HostShards


class ShardMetrics(Collector):
    """What this replica knows of the fleet, and its own part."""

    def __init__(self, shards: HostShards) -> None:
        """Read `shards` at each scrape."""
        self._shards = shards

    def collect(self) -> Iterator[Metric]:
        """Return the current metrics."""
        shards = self._shards
        yield _gauge("members", "Live members of the fleet", len(shards.fleet.members()))
        ranges = GaugeMetricFamily("ctrlhost_shards_ranges", "Ranges of this replica by state", labels=("state",))
        phases = Counter(shards.ownership.phases().values())
        for phase in Phase:
            ranges.add_metric((phase.value,), phases[phase])
        yield ranges
        yield _gauge("share", "Part of the objects that this replica owns, 0 to 1", shards.share())
        yield _gauge("imbalance", "Largest share of a member, as a multiple of the mean", self._imbalance())
        yield _gauge(
            "heaviest_share",
            "Part of the heaviest name in the ranges of this replica, as a multiple of a member's share",
            shards.shards.unbalanced.heaviest_share,
        )
        yield _gauge("unowned", "Objects in ranges that no live replica owns", shards.shards.unowned)
        yield _gauge(
            "stuck", "Ranges that close for longer than `drain_timeout`, since a run lasts", len(shards.stuck())
        )
        dropped = CounterMetricFamily(
            "ctrlhost_shards_dropped",
            "Keys that were not run here, since another replica has their range",
            labels=("controller",),
        )
        for controller in shards.controllers():
            if controller.shards is not None:
                dropped.add_metric((controller.name,), controller.shards.dropped)
        yield dropped
        yield from self._handovers()
        conflicts = CounterMetricFamily(
            "ctrlhost_shards_map_conflicts", "Writes of the shard map that another replica's came before"
        )
        conflicts.add_metric((), shards.store.conflicts)
        yield conflicts

    def _imbalance(self) -> float:
        """Return the largest share as a multiple of the mean of the members that stay; 1 without any."""
        staying = [member.incarnation for member in self._shards.fleet.members() if not member.leaving]
        loads = shares(self._shards.store.shards) if self._shards.store.shards is not None else {}
        mean = sum(loads.values()) / max(len(staying), 1)
        return max(loads.values()) / mean if mean else 1

    def _handovers(self) -> Iterator[Metric]:
        handovers = self._shards.shards.handovers
        moves = CounterMetricFamily(
            "ctrlhost_shards_moves",
            "Ranges that this replica took from others, since it had joined, the owner left or was dead, or had more",
            labels=("reason",),
        )
        for reason, count in handovers.moves.items():
            moves.add_metric((reason,), count)
        times = HistogramMetricFamily(
            "ctrlhost_shards_handover_seconds",
            "Seconds of a move: until the new owner has listed the range, until it opens it once it is named, and "
            "until the former owner has ended its runs",
            labels=("phase",),
        )
        for phase, taken in handovers.times.items():
            times.add_metric((phase,), taken.cumulative(), taken.seconds)
        yield from (moves, times)


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"ctrlhost_shards_{name}", text, value)
