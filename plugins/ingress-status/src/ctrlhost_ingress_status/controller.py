"""One running plugin: its controllers and its page, and the passes over the cache after a change that affects many."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any

import ctrlhost
from ctrlhost_ingress_status.classes import IngressClass
from ctrlhost_ingress_status.contention import Contention
from ctrlhost_ingress_status.desired import Desired, Verdict
from ctrlhost_ingress_status.discovery import Discovery
from ctrlhost_ingress_status.metrics import StatusMetrics
from ctrlhost_ingress_status.progress import Progress
from ctrlhost_ingress_status.state import AddressState, Clearing
from ctrlhost_ingress_status.static import duplicates, mapped, static_entries
from ctrlhost_ingress_status.target import IngressTarget
from ctrlhost_ingress_status.write_budget import WriteBudget
from ctrlhost_ingress_status.writer import Failures, Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ctrlhost import Object
    from ctrlhost_ingress_status.settings import IngressStatusSettings

_CLASS = ("networking.k8s.io/v1", "IngressClass")
_ALL_CLASSES = ctrlhost.Request("classes")
_INDEX = "ctrlhost_ingress_status/class and addresses"
_BULK_PRIORITY = -100
#: Keys enqueued in one step; the first are written while the rest are still being collected.
_CHUNK = 500
STATES = ("current", "pending", "foreign_class")


class IngressStatus:
    """The parts of one running plugin; created in `ctrlhost_setup`, one per host."""

    def __init__(self, plugin: ctrlhost.PluginContext) -> None:
        """Register controllers, page and metrics."""
        settings: IngressStatusSettings = plugin.settings
        target = IngressTarget(settings.vendor_annotation)
        # A replacement carries the whole object, so all of it must be cached.
        reads = target.reads if settings.write_method == "patch" else None
        namespaces = settings.watch_namespaces or None
        self._plugin, self._settings = plugin, settings
        self._rules = settings.class_rules()
        self.desired = Desired(self._rules.ours())
        self.metrics = StatusMetrics(plugin.metrics, target.kind, self.desired)
        self.contention, self.budget = Contention(), WriteBudget(settings.status_qps, settings.status_burst)
        informer = plugin.informer(target.api_version, target.kind, namespaces=namespaces, reads=reads)
        self.passes = Passes(informer, target, self.desired)
        self.progress = Progress(self.passes.remaining, settings.status_qps, plugin.clock, plugin.log)
        self.metrics.count_objects, self.metrics.progress = self.passes.count, self.progress
        self.writer = Writer(
            plugin, target, self.desired, self.budget, self.metrics, Failures(), self.contention, self.progress
        )
        self._writes = plugin.add_controller(
            "ingress-status",
            self.writer.reconcile,
            ctrlhost.For(
                target.api_version,
                target.kind,
                namespaces=namespaces,
                reads=reads,
                predicates=[self.writer.wakes],
            ),
            workers=settings.status_workers,
        )
        clearing = Clearing(settings.clear_grace if settings.on_empty == "clear" else None)
        state = AddressState(settings.address_holdoff, settings.address_holdoff_max)
        self.discovery = Discovery(plugin, state, clearing, self.desired, self.metrics, self._publish)
        self._follow()
        self._enqueue_classes: Callable[[ctrlhost.Request], None] | None = None
        if self._rules.controller:
            self._enqueue_classes = plugin.add_controller(
                "classes",
                self._read_classes,
                ctrlhost.Watches(*_CLASS, map=lambda _: (_ALL_CLASSES,), reads=("spec.controller",)),
                needs_leader=False,
            ).enqueue
        plugin.add_report("/", self.report, title="Addresses of Ingresses")

    def synced(self) -> None:
        """Reconcile what may have no event: a missing Service, a cluster without classes."""
        self.discovery.enqueue_all()
        if self._enqueue_classes is not None:
            self._enqueue_classes(_ALL_CLASSES)

    def report(self) -> dict[str, Any]:
        """Return the content of the page."""
        known, now = self.desired.known, self._plugin.clock.now()
        forbidden = self.writer.forbidden_since
        return {
            "mode": "static" if self._settings.is_static else "service",
            "source": known.source if known else ", ".join(map(str, self._settings.services())),
            "addresses": list(known.entries) if known else "unknown",
            "in force for": f"{now - known.since:.0f} s" if known else "",
            "leading": self.desired.elected,
            "classes": sorted(name or "(none)" for name in self.desired.ours),
            "objects": dict(self.passes.count()),
            **self.progress.report(),
            "waiting writes": self.budget.waiting(),
            "contested": [f"{key.namespace}/{key.name}" for key in self.contention.contested(now)],
            "conditions": [f"StatusWritesForbidden for {now - forbidden:.0f} s"] if forbidden is not None else [],
        }

    def _follow(self) -> None:
        settings, log = self._settings, self._plugin.log
        if not settings.is_static:
            refs = settings.services()
            log.info("publishing the addresses of the Service %s", ", ".join(map(str, refs)))
            self.discovery.follow(self._plugin, refs)
            return
        text = settings.ingress_status_address
        if repeated := duplicates(text):
            log.warning("ingress-status-address repeats %s", ", ".join(repeated))
        if odd := mapped(text):
            log.warning("newer API servers refuse IPv4-mapped addresses; write %s as IPv4", ", ".join(odd))
        if settings.ambiguous:
            log.warning("ingress-status-address is set: ignoring the Service in the settings")
        self.discovery.fixed(static_entries(text), "ingress-status-address")

    def _publish(self) -> None:
        """Enqueue every object whose status is wrong."""
        self.budget.clear_bulk()
        self.progress.began(self.passes.enqueue(self._writes.enqueue_many))

    def _read_classes(self, ctx: ctrlhost.Context, _request: ctrlhost.Request) -> None:
        """Read all classes together, since they decide together which Ingresses are ours."""
        ours = self._rules.ours([IngressClass.of(obj) for obj in ctx.lister(*_CLASS).list()])
        new = ours - self.desired.ours
        self.desired.ours = ours
        if new and self.desired.elected:
            self.passes.enqueue(self._writes.enqueue_many, new)


class Passes:
    """An index of the objects by class and addresses, so that a pass skips those that are right."""

    def __init__(self, informer: ctrlhost.Informer, target: IngressTarget, desired: Desired) -> None:
        """Index the cache."""
        self._target, self._desired = target, desired
        self._indexer: Any = informer.indexer
        self._indexer.add_indexers({_INDEX: self._value})

    def _value(self, obj: Object) -> Iterable[str]:
        return (f"{self._target.class_of(obj)}\n{self._target.mark(obj)}",)

    def wanting(self, classes: frozenset[str] | None = None) -> Iterator[ctrlhost.Request]:
        """Return the keys of the objects that are wrong, limited to these classes if any are given.

        The cache is read one group of equal objects at a time, by keys only.
        """
        for keys in self._wrong(classes):
            for key in keys:
                namespace, _, name = key.rpartition("/")
                yield ctrlhost.Request(name, namespace)

    def remaining(self) -> int:
        """Count the objects that are wrong."""
        return sum(len(keys) for keys in self._wrong())

    def enqueue(self, enqueue: Callable[..., None], classes: frozenset[str] | None = None) -> int:
        """Enqueue all of them at bulk priority, and return their number; `enqueue` takes many at once."""
        count, wanting = 0, self.wanting(classes)
        while some := list(itertools.islice(wanting, _CHUNK)):
            enqueue(some, priority=_BULK_PRIORITY)
            count += len(some)
        return count

    def count(self) -> Mapping[str, int]:
        """Count the objects that are right, that are wrong, and that are not ours."""
        counts, known = Counter(dict.fromkeys(STATES, 0)), self._desired.known
        for class_name, mark, value in self._values():
            state = "foreign_class"
            if class_name in self._desired.ours:
                right = self._desired.verdict(class_name, mark, known) is Verdict.RIGHT
                state = "current" if right else "pending"
            counts[state] += len(self._indexer.index_keys(_INDEX, value))
        return counts

    def _wrong(self, classes: frozenset[str] | None = None) -> Iterator[list[str]]:
        known = self._desired.known
        for class_name, mark, value in self._values():
            if classes is not None and class_name not in classes:
                continue
            if self._desired.verdict(class_name, mark, known) in (Verdict.WRITE, Verdict.CLEAR):
                yield self._indexer.index_keys(_INDEX, value)

    def _values(self) -> Iterator[tuple[str, str, str]]:
        for value in self._indexer.list_index_func_values(_INDEX):
            class_name, _, mark = value.partition("\n")
            yield class_name, mark, value
