"""The metrics of one plugin, collected and written as text on the plugin's own thread."""

from __future__ import annotations

import logging
import re
import time
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.samples import Sample

from ctrlhost.controller.error_text import line_of
from ctrlhost.entries import Entries
from ctrlhost.plugin.metric_text import metric_text
from ctrlhost.plugin.probe import Probe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future

    from prometheus_client import CollectorRegistry

log = logging.getLogger("ctrlhost.metrics")

T = TypeVar("T")

#: Why metrics of a plugin are missing or old; a `timeout` is one of the scrape.
REASONS = ("timeout", "error", "series", "duplicate", "invalid")
#: Series of a plugin beyond this number are left out.
MAX_SERIES = 10_000
#: Characters of a label's value.
_MAX_LABEL = 10_000
#: Different warnings of a plugin; an error's message may contain anything.
_MAX_WARNINGS = 100
#: Types whose metrics have times of creation in prometheus-client.
_WITH_CREATION_TIMES = ("counter", "histogram", "summary", "gaugehistogram")
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")

#: The name and the labels of a series. Of plain texts, so that the garbage collector has nothing to visit.
Series = str


class Family:
    """A metric with all of its series, and its text. What it contains is of plain types: no code of a plugin runs."""

    def __init__(self, metric: Metric) -> None:
        """Hold a metric, which must not change any more."""
        self.metric = metric
        self._series: frozenset[Series] | None = None
        self._names: frozenset[str] | None = None
        self._texts: dict[str, bytes] = {}

    @property
    def series(self) -> frozenset[Series]:
        """The series by name and labels."""
        if self._series is None:
            self._series = frozenset(map(series_of, self.metric.samples))
        return self._series

    @property
    def names(self) -> frozenset[str]:
        """The names of the series, and the metric's own."""
        if self._names is None:
            self._names = frozenset((self.metric.name, *(sample.name for sample in self.metric.samples)))
        return self._names

    def without(self, series: frozenset[Series]) -> Family:
        """Return the metric without some of its series."""
        return self._with([sample for sample in self.metric.samples if series_of(sample) not in series])

    def with_all(self, others: Iterable[Family]) -> Family:
        """Return the metric with the series of others of its name."""
        return self._with([*self.metric.samples, *(sample for other in others for sample in other.metric.samples)])

    def _with(self, samples: list[Sample]) -> Family:
        metric = self.metric
        changed = Metric(metric.name, metric.documentation, metric.type, metric.unit)
        changed.samples = samples
        return Family(changed)

    def text(self, accept: str) -> bytes:
        """Return the lines in the format for an `Accept` header, without the end mark of a whole exposition."""
        content_type = choose_encoder(accept)[1]
        if content_type not in self._texts:
            self._texts[content_type] = metric_text(self.metric, accept)
        return self._texts[content_type]


class PluginMetrics:
    """Collects the registry of a plugin, and keeps what was collected last. Callable from any thread."""

    def __init__(self, plugin: str, registry: CollectorRegistry, entries: Entries | None = None) -> None:
        """Prepare; `start` collects."""
        self.plugin = plugin
        #: What was left out or came too late, by one of `REASONS`.
        self.errors: Counter[str] = Counter()
        self.registry = registry
        self._entries = entries or Entries(plugin)
        self._probe = Probe(f"{plugin}/probe", self._collect)
        #: The `Accept` headers of the scrapes so far, by content type.
        self._formats: dict[str, str] = {}
        self._begun: float | None = None
        self._warned: set[str] = set()

    def start(self, accept: str) -> Future[None]:
        """Begin to collect, in the format of an `Accept` header, unless this runs; return what ends with it."""
        self._formats.setdefault(choose_encoder(accept)[1], accept)
        if self._begun is None:
            self._begun = time.monotonic()
        return self._probe.start()

    @property
    def families(self) -> list[Family]:
        """What was collected last; empty before."""
        outcome = self._probe.outcome
        return list(outcome.value) if outcome is not None else []

    def age(self) -> float:
        """Return the age of `families` in seconds: 0 if none are being collected now."""
        if self._probe.running_for() is None:
            return 0.0
        outcome = self._probe.outcome
        begun = outcome.at if outcome is not None else self._begun
        return time.monotonic() - begun if begun is not None else 0.0

    def late(self) -> None:
        """Count a scrape whose answer has old values, if the collection has not ended yet."""
        if self.age():
            self.errors["timeout"] += 1

    def skip(self, reason: str, what: str) -> None:
        """Count something that was left out for `reason`, and log `what` the first time."""
        self.errors[reason] += 1
        if what not in self._warned and len(self._warned) < _MAX_WARNINGS:
            self._warned.add(what)
            log.warning("skipped metrics of plugin %s: %s", self.plugin, what, extra={"plugin": self.plugin})

    def _collect(self) -> list[Family]:
        # One thread at most, so it cannot use up those that may hang.
        entry = self._entries.open("metrics", costs_thread=False)
        with entry:
            families = [Family(metric) for metric in self._limited()]
            for family in families:
                _ = family.names
                for accept in list(self._formats.values()):
                    family.text(accept)
        entry.close()
        return families

    def _limited(self) -> Iterator[Metric]:
        """Return the metrics of the collectors, valid and not too many."""
        seen = set[Series]()
        known: dict[str, Metric] = {}
        for metric in self._valid(lambda: MAX_SERIES - len(seen)):
            first = known.setdefault(metric.name, Metric(metric.name, metric.documentation, metric.type, metric.unit))
            for sample in metric.samples:
                if (series := series_of(sample)) in seen:
                    self.skip("duplicate", f"{metric.name} has a series twice")
                else:
                    seen.add(series)
                    first.samples.append(sample)
        yield from known.values()

    def _valid(self, left: Callable[[], int]) -> Iterator[Metric]:
        """Return copies of the metrics that are valid, with as many series as are `left`."""
        collected = iter(self.registry.collect())

        def copied() -> list[tuple[Metric, bool]]:
            return [_copied(next(collected), left())]

        while (raised := self._raised(copied)) is not None:
            for copy, more in raised:
                yield copy
                if more:
                    self.skip("series", f"it has more than {MAX_SERIES:,} series")
                    return

    def _raised(self, function: Callable[[], list[T]]) -> list[T] | None:
        """Return the result; None at the end, and nothing if it raises, which counts as an error of the collector."""
        try:
            return function()
        except StopIteration:
            return None
        except Invalid as error:
            self.skip("invalid", str(error))
        except BaseException as error:  # noqa: BLE001 - one plugin's collector must not lose all metrics
            self.skip("error", line_of(error))
        return []


class Invalid(Exception):
    """What a collector gave is no metric."""


def series_of(sample: Sample) -> Series:
    """Return the name and the labels of a series."""
    labels = sample.labels if len(sample.labels) < 2 else dict(sorted(sample.labels.items()))
    return f"{sample.name}{labels}"


def _copied(metric: Any, limit: int) -> tuple[Metric, bool]:
    """Return a metric of plain types with its first series, and whether it has more; Invalid for a bad one.

    The times at which series were created are left out: each is a series more, and few read them.
    """
    if not isinstance(metric, Metric):
        raise Invalid(f"a collector gave a {type(metric).__name__}, which is no metric")
    name = str(metric.name)
    if not _NAME.fullmatch(name):
        raise Invalid(f"`{name}` is not the name of a metric")
    copy = Metric(name, str(metric.documentation), metric.type, str(metric.unit))
    created = f"{name}_created" if metric.type in _WITH_CREATION_TIMES else None
    wanted = (sample for sample in metric.samples if sample.name != created)
    known, known_labels = set[str](), set[str]()
    for sample in islice(wanted, limit):
        labels = {str(label): str(value) for label, value in sample.labels.items()}
        if (series := str(sample.name)) not in known:
            if not series.startswith(name) or not _NAME.fullmatch(series):
                raise Invalid(f"`{series}` is not the name of a series of {name}")
            known.add(series)
        if labels and max(map(len, labels.values())) > _MAX_LABEL:
            raise Invalid(f"{name} has a label with more than {_MAX_LABEL:,} characters")
        if not known_labels.issuperset(labels):
            if not all(map(_LABEL.fullmatch, labels)):
                raise Invalid(f"{name} has a label with an invalid name")
            known_labels.update(labels)
        value = sample.value if type(sample.value) in (int, float) else float(sample.value)
        copy.samples.append(Sample(series, labels, value, sample.timestamp, sample.exemplar))
    return copy, next(wanted, None) is not None
