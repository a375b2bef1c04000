"""Publishes the external address on every Ingress of a class, a ctrlhost plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ctrlhost
from ctrlhost_ingress_status.addresses import duplicates, mapped, static_entries
from ctrlhost_ingress_status.classes import IngressClass
from ctrlhost_ingress_status.contention import Contention
from ctrlhost_ingress_status.discovery import AddressState, Clearing, Discovery
from ctrlhost_ingress_status.ingress import Desired, IngressTarget
from ctrlhost_ingress_status.metrics import Progress, StatusMetrics
from ctrlhost_ingress_status.passes import Passes
from ctrlhost_ingress_status.settings import IngressStatusSettings
from ctrlhost_ingress_status.write_budget import WriteBudget
from ctrlhost_ingress_status.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["IngressStatusSettings", "plugin"]

plugin = ctrlhost.Plugin(settings=IngressStatusSettings)


@plugin.permission
def rights(settings: IngressStatusSettings) -> Iterable[ctrlhost.Permission]:
    """Request the right to write statuses with the configured verb."""
    group = "networking.k8s.io"
    for namespace in settings.watch_namespaces or (None,):
        yield ctrlhost.Permission(group, ["ingresses/status"], [settings.write_method], namespace=namespace)
        if settings.write_method == "update":
            # After a conflict the live object is read again.
            yield ctrlhost.Permission(group, ["ingresses"], ["get"], namespace=namespace)


class IngressStatus:
    """The parts of the plugin in one host."""

    def __init__(self, host: ctrlhost.PluginContext[IngressStatusSettings]) -> None:
        """Discover the address, and write what is wrong."""
        settings = self._settings = host.settings
        self.host, self.rules = host, settings.class_rules()
        target = IngressTarget(settings.vendor_annotation)
        # A replacement carries the whole object, so all of it must be cached.
        reads = target.reads if settings.write_method == "patch" else None
        namespaces = settings.watch_namespaces or None
        self.desired = Desired(self.rules.ours())
        self.metrics = StatusMetrics(host.metrics, target.kind, self.desired)
        self.contention, self.budget = Contention(), WriteBudget(settings.status_qps, settings.status_burst)
        self.progress = Progress(self._remaining, settings.status_qps, host.clock, host.log)
        self.writer = Writer(host, target, self.desired, self.budget, self.metrics, self.contention, self.progress)
        # Not `@plugin.controller`: the predicate is one of this host, and the writer sends or holds back each of many
        # thousand writes itself, within its budget.
        self._writes = host.add_controller(
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
            shard_by="namespace",
        )
        self.shares = self._writes.shard_by is not None
        informer = host.informer(
            target.api_version, target.kind, namespaces=namespaces, reads=reads, shard_by=self._writes.shard_by
        )
        self.passes = Passes(informer, target, self.desired)
        self.metrics.count_objects, self.metrics.progress = self.passes.count, self.progress
        clearing = Clearing(settings.clear_grace if settings.on_empty == "clear" else None)
        state = AddressState(settings.address_holdoff, settings.address_holdoff_max)
        self.discovery = Discovery(host, state, clearing, self.desired, self.metrics, self.publish)
        if settings.is_static:
            self.discovery.fixed(static_entries(settings.ingress_status_address), "ingress-status-address")
        else:
            self.discovery.follow(host, settings.services())

    def _remaining(self) -> int:
        return self.passes.remaining()

    def publish(self) -> None:
        """Enqueue every object whose status is wrong."""
        self.budget.clear_bulk()
        self.progress.began(self.passes.enqueue(self._writes.enqueue_many))

    def take(self, classes: Iterable[IngressClass]) -> None:
        """Take the Ingresses of these classes for ours, as far as the settings say so."""
        ours = self.rules.ours(classes)
        new, self.desired.ours = ours - self.desired.ours, ours
        if new and self.desired.elected:
            self.passes.enqueue(self._writes.enqueue_many, new)

    def report(self) -> dict[str, Any]:
        """Return the content of the page."""
        known, now = self.desired.known, self.host.clock.now()
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


@plugin.setup
def setup(host: ctrlhost.PluginContext[IngressStatusSettings]) -> IngressStatus:
    """Create the parts, and warn of settings that are odd."""
    text = host.settings.ingress_status_address
    if repeated := duplicates(text):
        host.log.warning("ingress-status-address repeats %s", ", ".join(repeated))
    if odd := mapped(text):
        host.log.warning("newer API servers refuse IPv4-mapped addresses; write %s as IPv4", ", ".join(odd))
    if host.settings.ambiguous:
        host.log.warning("ingress-status-address is set: ignoring the Service in the settings")
    return IngressStatus(host)


@plugin.controller(
    ctrlhost.For(IngressClass, reads=("spec.controller",)),
    name="classes",
    enabled=lambda settings: settings.class_mode == "controller",
    needs_leader=False,
    gone=True,
)
def read_classes(
    ctx: ctrlhost.Context[IngressClass, IngressStatusSettings],
    _class: IngressClass | None,
) -> None:
    """Read all classes together, since they decide together which Ingresses are ours."""
    ctx.state.take(ctx.cache(IngressClass).list())


@plugin.synced
def synced(host: ctrlhost.PluginContext[IngressStatusSettings]) -> None:
    """Start to follow the address, on every replica; with shards each writes what is its own from now on."""
    if host.state.shares:
        host.state.discovery.elected()
    else:
        host.state.discovery.enqueue_all()


@plugin.elected
def elected(host: ctrlhost.PluginContext[IngressStatusSettings]) -> None:
    """Start to write."""
    if not host.state.shares:
        host.state.discovery.elected()


@plugin.deposed
def deposed(host: ctrlhost.PluginContext[IngressStatusSettings]) -> None:
    """Stop writing; what is published stays."""
    if not host.state.shares:
        host.state.discovery.deposed()


@plugin.shards_changed
def shards_changed(host: ctrlhost.PluginContext[IngressStatusSettings]) -> None:
    """Use the newest address for namespaces that have come, and forget the Ingresses of those that have gone."""
    host.state.discovery.take_over()
    host.state.writer.keep(host.owns)


@plugin.report("/", title="Addresses of Ingresses")
def report(host: ctrlhost.PluginContext[IngressStatusSettings]) -> dict[str, Any]:
    """Show the address, and how many Ingresses have it."""
    answer: dict[str, Any] = host.state.report()
    return answer
