"""All parts of one running plugin, put together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ctrlhost
from ctrlhost_ingress_status.classes import IngressClass
from ctrlhost_ingress_status.contention import Contention
from ctrlhost_ingress_status.desired import Desired
from ctrlhost_ingress_status.discovery import Discovery
from ctrlhost_ingress_status.failures import Failures
from ctrlhost_ingress_status.metrics import StatusMetrics
from ctrlhost_ingress_status.page import page
from ctrlhost_ingress_status.passes import Passes
from ctrlhost_ingress_status.state import AddressState, Clearing
from ctrlhost_ingress_status.static import duplicates, mapped, static_entries
from ctrlhost_ingress_status.target import IngressTarget
from ctrlhost_ingress_status.write_budget import Lanes
from ctrlhost_ingress_status.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ctrlhost.cache import Object
    from ctrlhost_ingress_status.settings import IngressStatusSettings

_CLASS = ("networking.k8s.io/v1", "IngressClass")
_ALL_CLASSES = ctrlhost.Request("classes")


class IngressStatus:
    """Everything that one running plugin knows; made in `ctrlhost_setup`, one per host."""

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
        self.contention, self.lanes = Contention(), Lanes(settings.status_qps, settings.status_burst)
        self.writer = Writer(plugin, target, self.desired, self.lanes, self.metrics, Failures(), self.contention)
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
        informer = plugin.informer(target.api_version, target.kind, namespaces=namespaces, reads=reads)
        self.passes = Passes(informer, target, self.desired)
        self.metrics.count_objects = self.passes.count
        clearing = Clearing(settings.clear_grace if settings.on_empty == "clear" else None)
        state = AddressState(settings.address_holdoff, settings.address_holdoff_max)
        self.discovery = Discovery(plugin, state, clearing, self.desired, self.metrics, self._publish)
        self._follow()
        self._look_at_classes: Callable[[ctrlhost.Request], None] | None = None
        if self._rules.controller:
            self._look_at_classes = plugin.add_controller(
                "classes",
                self._read_classes,
                ctrlhost.Watches(*_CLASS, map=_one_key, reads=("spec.controller",)),
                needs_leader=False,
            ).enqueue
        plugin.add_page("/", page(self.report))

    def synced(self) -> None:
        """Look at what there may be no event of: a Service that is absent, a cluster without classes."""
        self.discovery.look()
        if self._look_at_classes is not None:
            self._look_at_classes(_ALL_CLASSES)

    def report(self) -> dict[str, Any]:
        """Give what the page shows."""
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
            "waiting for their turn": self.lanes.waiting(),
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
        if again := duplicates(text):
            log.warning("ingress-status-address names %s more than once", ", ".join(again))
        if odd := mapped(text):
            log.warning("newer API servers refuse IPv4-mapped addresses, so write %s as IPv4", ", ".join(odd))
        if settings.ambiguous:
            log.warning("ingress-status-address is set, so the Service in the settings is not followed")
        self.discovery.fixed(static_entries(text), "ingress-status-address")

    def _publish(self) -> None:
        """Have everything updated that does not say what it should."""
        self.lanes.clear_slow()
        count = self.passes.enqueue(self._writes.enqueue_many)
        self._plugin.log.info("%d statuses are to be written", count)

    def _read_classes(self, ctx: ctrlhost.Context, _request: ctrlhost.Request) -> None:
        ours = self._rules.ours([IngressClass.of(obj) for obj in ctx.lister(*_CLASS).list()])
        new = ours - self.desired.ours
        self.desired.ours = ours
        if new and self.desired.elected:
            self.passes.enqueue(self._writes.enqueue_many, new)


def _one_key(_obj: Object) -> Iterator[ctrlhost.Request]:
    """Look at all classes together, since their sum decides."""
    yield _ALL_CLASSES
