"""Metrics of informers, under upstream's names where they exist."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.informers.view import View

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client.core import Metric

    from ctrlhost._core import MemoryBudget
    from ctrlhost.informers.informer import Informer

_STATES = ("waiting", "over budget", "listing", "watching", "reconnecting", "stopped")
_LABELS = ["name", "group", "version", "resource"]
_STALENESS = "ctrlhost_informer_staleness_seconds"
_GAUGES: tuple[tuple[str, ...], ...] = (
    ("informer_queued_items", "Keys with changes that handlers have not received."),
    ("informer_store_resource_version", "Resource version of the cache."),
    ("ctrlhost_informer_objects", "Objects in the cache."),
    ("ctrlhost_informer_bytes", "Approximate size of the cached objects in bytes."),
    (
        "ctrlhost_informer_memory_bytes",
        "Bytes by part, the list in progress included; the sum is what the memory budget counts.",
        "part",
    ),
    ("ctrlhost_informer_over_budget", "1 while the memory budget has no room for the informer's objects."),
    ("ctrlhost_informer_plain_bytes", "Bytes that the cached objects would take if none were compressed."),
    ("ctrlhost_informer_compressed_objects", "Objects in the cache that are compressed."),
    ("ctrlhost_informer_users", "Users, such as controllers, that share the informer."),
    ("ctrlhost_informer_synced", "1 once the first list is in the cache."),
    ("ctrlhost_informer_state", "1 for the current state of the informer, 0 for the others.", "state"),
    ("ctrlhost_informer_encoding", "1 for the encoding of the last answer, 0 for the others.", "encoding"),
    ("ctrlhost_informer_last_byte_seconds", "Seconds since the last byte from the server."),
    ("ctrlhost_informer_pending_notifications", "Notifications that wait for handlers."),
)
_COUNTERS: tuple[tuple[str, ...], ...] = (
    ("ctrlhost_informer_events", "Changes received by watches."),
    ("ctrlhost_informer_bookmarks", "Bookmarks received by watches."),
    ("ctrlhost_informer_lists", "Lists that replaced the cache."),
    ("ctrlhost_informer_watches", "Opened watches."),
    ("ctrlhost_informer_restores", "Lists of a server that was restored to an earlier state."),
    ("ctrlhost_informer_errors", "Failures to list or watch, by kind.", "error"),
    ("ctrlhost_informer_skipped_objects", "Objects that cannot be cached, such as those without a name."),
    ("ctrlhost_informer_received_bytes", "Bytes of lists and watches, by encoding.", "encoding"),
    (
        "ctrlhost_informer_unknown_fields",
        "Fields of objects in protobuf that this release does not know, so that the kind is read as JSON.",
    ),
    ("ctrlhost_informer_dictionaries_learnt", "Dictionaries learnt to compress cached objects."),
    ("ctrlhost_informer_decompressions", "Compressed objects that were decompressed for a reader."),
    ("ctrlhost_informer_damaged_objects", "Cached objects that could not be decompressed; each leads to a new list."),
    (
        "ctrlhost_informer_held_back_seconds",
        "Seconds in which a connection was not read because 4 MiB waited to be decoded.",
    ),
    ("ctrlhost_informer_merged_notifications", "Notifications merged into others because a handler was slow."),
    ("ctrlhost_handler_calls", "Calls of Python functions by handlers.", "use", "function"),
    ("ctrlhost_handler_seconds", "Seconds spent in Python functions by handlers.", "use", "function"),
    ("ctrlhost_handler_errors", "Calls of Python functions by handlers that raised.", "use", "function"),
)


class InformerMetrics:
    """A collector for prometheus-client that reads the informers at each scrape."""

    def __init__(self, informers: Callable[[], Iterable[Informer]], budget: MemoryBudget | None = None) -> None:
        """Call `informers` at each scrape, and report those that it returns, and their `budget`."""
        self._informers = informers
        self._budget = budget

    def collect(self) -> Iterator[Metric]:
        """Return the current metrics."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        families: dict[str, Any] = {
            name: family(name, text, labels=[*_LABELS, *more])
            for family, rows in ((GaugeMetricFamily, _GAUGES), (CounterMetricFamily, _COUNTERS))
            for name, text, *more in rows
        }
        families[_STALENESS] = GaugeMetricFamily(
            _STALENESS,
            "Seconds since the cache was last known to be current, by an event, a bookmark or a list.",
            labels=["resource", "informer"],
        )
        informers = list(self._informers())
        for informer in informers:
            # A view is counted with the informer that it reads.
            if not isinstance(informer, View):
                self._add(families, informer)
            self._add_callbacks(families, informer)
        yield from families.values()
        yield from _shards(informers)
        budget = GaugeMetricFamily(
            "ctrlhost_memory_budget_bytes", "Memory budget of all informers in bytes; missing without one."
        )
        if self._budget is not None:
            budget.add_metric([], self._budget.limit)
        yield budget

    @staticmethod
    def _add(families: dict[str, Any], informer: Informer) -> None:
        labels = _labels(informer)
        status = informer.status()
        reflectors = [part.reflector.status for part in informer.parts]
        stats = [part.engine.stats() for part in informer.parts]

        def add(name: str, value: float, *more: str) -> None:
            families[name].add_metric([*labels, *more], value)

        add("informer_queued_items", sum(counts["queued"] for counts in stats))
        if status.resource_version.isdigit():
            add("informer_store_resource_version", float(status.resource_version))
        for name in ("objects", "bytes", "users"):
            add(f"ctrlhost_informer_{name}", getattr(status, name))
        for part in ("header", "body", "index", "table", "dictionary"):
            add("ctrlhost_informer_memory_bytes", sum(counts["memory"][part] for counts in stats), part)
        add("ctrlhost_informer_over_budget", float(status.state == "over budget"))
        add("ctrlhost_informer_synced", float(status.has_synced))
        for state in _STATES:
            add("ctrlhost_informer_state", float(state == status.state), state)
        if status.last_byte_age is not None:
            add("ctrlhost_informer_last_byte_seconds", status.last_byte_age)
        if status.staleness is not None:
            families[_STALENESS].add_metric([informer.resource, informer.key], status.staleness)
        for name in ("events", "bookmarks", "lists", "watches", "restores"):
            add(f"ctrlhost_informer_{name}", sum(getattr(reflector, name) for reflector in reflectors))
        protobuf = sum(counts["protobuf_bytes_in"] for counts in stats)
        received = {"json": sum(counts["bytes_in"] for counts in stats) - protobuf, "protobuf": protobuf}
        for encoding, size in received.items():
            add("ctrlhost_informer_received_bytes", size, encoding)
            add("ctrlhost_informer_encoding", float(encoding in {counts["encoding"] for counts in stats}), encoding)
        add("ctrlhost_informer_held_back_seconds", sum(part.reflector.held_back for part in informer.parts))
        add("ctrlhost_informer_unknown_fields", sum(counts["unknown_fields"] for counts in stats))
        for name in ("plain_bytes", "compressed_objects", "dictionaries_learnt", "decompressions"):
            add(f"ctrlhost_informer_{name}", sum(counts[name] for counts in stats))
        add("ctrlhost_informer_damaged_objects", sum(counts["damaged"] for counts in stats))
        add("ctrlhost_informer_skipped_objects", sum(counts["skipped"] for counts in stats))
        add("ctrlhost_informer_merged_notifications", sum(counts["merged"] for counts in stats))
        add("ctrlhost_informer_pending_notifications", informer.pending)
        errors: dict[str, int] = {}
        for reflector in reflectors:
            for kind, count in list(reflector.errors.items()):
                errors[kind] = errors.get(kind, 0) + count
        for kind, count in sorted(errors.items()):
            add("ctrlhost_informer_errors", count, kind)

    @staticmethod
    def _add_callbacks(families: dict[str, Any], informer: Informer) -> None:
        """Add the metrics of functions that were called; one that several handlers call is counted once."""
        sums: dict[tuple[str, str], list[float]] = {}
        for callback_metric in informer.callback_metrics:
            values = (callback_metric.counts.calls, callback_metric.counts.seconds, callback_metric.counts.errors)
            known = sums.get((callback_metric.use, callback_metric.name), [0.0, 0.0, 0.0])
            sums[callback_metric.use, callback_metric.name] = [
                total + other for total, other in zip(known, values, strict=True)
            ]
        labels = _labels(informer)
        for (use, name), totals in sorted(sums.items()):
            for family, value in zip(("calls", "seconds", "errors"), totals, strict=True) if any(totals) else ():
                families[f"ctrlhost_handler_{family}"].add_metric([*labels, use, name], value)


def _shards(informers: Iterable[Informer]) -> Iterator[Metric]:
    """Return the metrics of sharded informers, by resource."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    filtered: dict[str, int] = {}
    filters: dict[str, bool] = {}
    for informer in informers:
        if informer.scope.shard_by is None or isinstance(informer, View):
            continue
        resource = informer.resource
        for part in informer.parts:
            filtered[resource] = filtered.get(resource, 0) + part.engine.stats()["filtered"]
            if part.filters is not None:
                filters[resource] = filters.get(resource, True) and part.filters
    text = "Objects that were received and not kept, since other replicas hold them."
    counter = CounterMetricFamily("ctrlhost_shards_filtered", text, labels=["resource"])
    for resource, count in sorted(filtered.items()):
        counter.add_metric([resource], count)
    text = "1 if the API server sends the objects of this replica's shards alone, 0 if it sends all."
    gauge = GaugeMetricFamily("ctrlhost_shards_server_filtered", text, labels=["resource"])
    for resource, answer in sorted(filters.items()):
        gauge.add_metric([resource], float(answer))
    yield from (counter, gauge)


def _labels(informer: Informer) -> list[str]:
    group, _, version = informer.api_version.rpartition("/")
    return [informer.key, group, version, informer.resource]
