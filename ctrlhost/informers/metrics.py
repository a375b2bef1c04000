"""What informers count, under upstream's names where it has some."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.informers.view import View

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client.core import Metric

    from ctrlhost.informers.informer import Informer

_COST = ["use", "function"]
_STATES = ("waiting", "listing", "watching", "reconnecting", "stopped")


class InformerMetrics:
    """A collector for prometheus-client: reads the informers at each scrape, and costs nothing in between."""

    def __init__(self, informers: Callable[[], Iterable[Informer]]) -> None:
        """Report what `informers` returns at each scrape."""
        self._informers = informers

    def collect(self) -> Iterator[Metric]:
        """Give the metrics of this moment."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        labels = ["name", "group", "version", "resource"]
        families: dict[str, Any] = {
            name: kind(name, text, labels=[*labels, *more])
            for kind, name, text, more in (
                (GaugeMetricFamily, "informer_queued_items", "Keys with changes that handlers have not heard of.", []),
                (
                    GaugeMetricFamily,
                    "informer_store_resource_version",
                    "The resource version that the cache is at.",
                    [],
                ),
                (GaugeMetricFamily, "ctrlhost_informer_objects", "Objects in the cache.", []),
                (GaugeMetricFamily, "ctrlhost_informer_bytes", "Bytes that the cached objects take.", []),
                (GaugeMetricFamily, "ctrlhost_informer_users", "Controllers and others that share the informer.", []),
                (GaugeMetricFamily, "ctrlhost_informer_synced", "1 once the first list is in the cache.", []),
                (GaugeMetricFamily, "ctrlhost_informer_state", "1 for the state that the informer is in.", ["state"]),
                (
                    GaugeMetricFamily,
                    "ctrlhost_informer_last_byte_seconds",
                    "Seconds since the server sent anything.",
                    [],
                ),
                (CounterMetricFamily, "ctrlhost_informer_events", "Changes that came by watches.", []),
                (CounterMetricFamily, "ctrlhost_informer_bookmarks", "Bookmarks that came by watches.", []),
                (CounterMetricFamily, "ctrlhost_informer_lists", "Lists that were taken over whole.", []),
                (CounterMetricFamily, "ctrlhost_informer_watches", "Watches that were opened.", []),
                (CounterMetricFamily, "ctrlhost_informer_errors", "Failures to list or watch, by kind.", ["error"]),
                (CounterMetricFamily, "ctrlhost_informer_skipped_objects", "Objects that no cache can hold.", []),
                (
                    CounterMetricFamily,
                    "ctrlhost_informer_merged_notifications",
                    "Notifications that were merged into others, since a handler was slower than the changes.",
                    [],
                ),
                (GaugeMetricFamily, "ctrlhost_informer_pending_notifications", "Those that wait for handlers.", []),
                (CounterMetricFamily, "ctrlhost_handler_calls", "Calls of Python functions by handlers.", _COST),
                (CounterMetricFamily, "ctrlhost_handler_seconds", "Seconds that those calls took.", _COST),
                (CounterMetricFamily, "ctrlhost_handler_errors", "Those of the calls that failed.", _COST),
            )
        }
        for informer in self._informers():
            # A view counts with the informer that it looks through.
            if not isinstance(informer, View):
                self._add(families, informer)
            self._add_costs(families, informer)
        yield from families.values()

    def _add(self, families: dict[str, Any], informer: Any) -> None:
        labels = _labels(informer)
        status = informer.status()
        reflectors = [part.reflector.status for part in informer.parts]
        stats = [part.engine.stats() for part in informer.parts]

        def add(name: str, value: float, *more: str) -> None:
            families[name].add_metric([*labels, *more], value)

        add("informer_queued_items", sum(each["queued"] for each in stats))
        if status.resource_version.isdigit():
            add("informer_store_resource_version", float(status.resource_version))
        add("ctrlhost_informer_objects", status.objects)
        add("ctrlhost_informer_bytes", status.bytes)
        add("ctrlhost_informer_users", status.users)
        add("ctrlhost_informer_synced", float(status.has_synced))
        for state in _STATES:
            add("ctrlhost_informer_state", float(state == status.state), state)
        if status.last_byte_age is not None:
            add("ctrlhost_informer_last_byte_seconds", status.last_byte_age)
        add("ctrlhost_informer_events", sum(each.events for each in reflectors))
        add("ctrlhost_informer_bookmarks", sum(each.bookmarks for each in reflectors))
        add("ctrlhost_informer_lists", sum(each.lists for each in reflectors))
        add("ctrlhost_informer_watches", sum(each.watches for each in reflectors))
        add("ctrlhost_informer_skipped_objects", sum(each["skipped"] for each in stats))
        add("ctrlhost_informer_merged_notifications", sum(part.dispatcher.merged for part in informer.parts))
        add("ctrlhost_informer_pending_notifications", informer.pending)
        errors: dict[str, int] = {}
        for each in reflectors:
            for kind, count in list(each.errors.items()):
                errors[kind] = errors.get(kind, 0) + count
        for kind, count in sorted(errors.items()):
            add("ctrlhost_informer_errors", count, kind)

    @staticmethod
    def _add_costs(families: dict[str, Any], informer: Informer) -> None:
        """Add up what functions cost; one that several handlers call is one."""
        sums: dict[tuple[str, str], list[float]] = {}
        for cost in informer.costs:
            found = sums.setdefault((cost.use, cost.name), [0.0, 0.0, 0.0])
            for at, value in enumerate((cost.calls, cost.seconds, cost.errors)):
                found[at] += value
        labels = _labels(informer)
        for (use, name), values in sorted(sums.items()):
            for family, value in zip(("calls", "seconds", "errors"), values, strict=True):
                families[f"ctrlhost_handler_{family}"].add_metric([*labels, use, name], value)


def _labels(informer: Informer) -> list[str]:
    group, _, version = informer.api_version.rpartition("/")
    parts = informer.parts
    return [informer.key, group, version, parts[0].resource if parts else informer.kind]
