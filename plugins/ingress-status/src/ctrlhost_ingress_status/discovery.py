"""The address: what was observed in the followed Services or the settings, and what is in force since when."""

from __future__ import annotations

import logging
import math
import threading
from typing import TYPE_CHECKING, Any

import ctrlhost
from ctrlhost_ingress_status.addresses import Entries, fingerprint, normalise, same, summary
from ctrlhost_ingress_status.ingress import Known

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost import Object
    from ctrlhost_ingress_status.ingress import Desired
    from ctrlhost_ingress_status.metrics import StatusMetrics
    from ctrlhost_ingress_status.settings import ServiceRef

READS = ("spec.type", "spec.clusterIP", "status.loadBalancer")


class AddressState:
    """Holds changes off until they settle. Not thread-safe; times are the clock's seconds.

    A change comes into force `quiet` seconds after the last one, and at most `longest` seconds after the first one.
    The first address after an election comes into force at once.
    """

    def __init__(self, quiet: float, longest: float) -> None:
        """Start without an address."""
        self._quiet, self._longest = quiet, longest
        self._pending: Entries | None = None
        self._first = self._last = 0.0
        self._at_once = True
        self.known: Known | None = None

    def elected(self) -> None:
        """Use the first address of this term at once, even if it is held off."""
        self._at_once = self._pending is not None or self.known is None or not self.known.entries

    def observe(self, entries: Entries, now: float) -> None:
        """Record the addresses of the source; another order of the same list is ignored."""
        if self.known is not None and same(entries, self.known.entries):
            self._pending = None
        elif self._pending is None:
            self._pending, self._first, self._last = entries, now, now
        elif not same(entries, self._pending):
            self._pending, self._last = entries, now

    def due(self) -> float:
        """Return when the address that is held off comes into force; infinity if there is none."""
        if self._pending is None:
            return math.inf
        if self.known is None or (self._at_once and self._pending):
            return self._first
        return min(self._last + self._quiet, self._first + self._longest)

    def settle(self, source: str, now: float, *, early: bool = False) -> bool:
        """Put the address in force that is due, with `early` one that is held off, and return whether there was one."""
        if self._pending is None or (now < self.due() and not early):
            return False
        number = self.known.number + 1 if self.known else 1
        self.known = Known(self._pending, source, now, number, fingerprint(self._pending))
        self._at_once = self._at_once and not self._pending
        self._pending = None
        return True


class Clearing:
    """Decides when statuses are cleared, `grace` seconds after the last address; None for never."""

    def __init__(self, grace: float | None) -> None:
        """Start with nothing published, and so with nothing to clear."""
        self._grace = grace
        #: The mark of the list that this process published last; empty for none.
        self.published = ""

    def note(self, known: Known) -> None:
        """Record the address that is being published."""
        if known.entries:
            self.published = known.mark

    def due(self, known: Known | None) -> float:
        """Return when clearing starts; infinity for never."""
        if self._grace is None or known is None or known.entries or not self.published:
            return math.inf
        return known.since + self._grace


class Discovery:
    """Keeps the current address, and calls `publish` after each change while this replica leads."""

    def __init__(
        self,
        plugin: ctrlhost.PluginContext,
        state: AddressState,
        clearing: Clearing,
        desired: Desired,
        metrics: StatusMetrics,
        publish: Callable[[], None],
    ) -> None:
        """Start without an address."""
        self._log, self._clock = plugin.log, plugin.clock
        self._state, self._clearing, self._desired = state, clearing, desired
        self._metrics, self._publish = metrics, publish
        self._lock = threading.RLock()
        self._addresses: dict[ServiceRef, Entries | None] = {}
        self._kinds: dict[ServiceRef, str] = {}
        self._enqueue: dict[ServiceRef, Callable[[ctrlhost.Request], None]] = {}

    def follow(self, plugin: ctrlhost.PluginContext, refs: tuple[ServiceRef, ...]) -> None:
        """Watch these Services, each as a single object."""
        for number, ref in enumerate(refs):
            self._addresses[ref] = None
            source = ctrlhost.For(
                "v1",
                "Service",
                namespaces=[ref.namespace],
                field_selector=f"metadata.name={ref.name}",
                reads=READS,
            )
            self._enqueue[ref] = plugin.add_controller(
                f"address-{number}" if number else "address", self._reconciler(ref), source, needs_leader=False
            ).enqueue

    def fixed(self, entries: Entries, source: str) -> None:
        """Put these addresses in force permanently."""
        self._state.observe(entries, self._clock.now())
        self._state.settle(source, self._clock.now())
        self._in_force(source)

    def enqueue_all(self) -> None:
        """Reconcile each Service once, since a missing one has no event."""
        for ref, enqueue in self._enqueue.items():
            enqueue(ctrlhost.Request(ref.name, ref.namespace))

    def elected(self) -> None:
        """Start a term: publish the known address, and put one that is held off in force at once."""
        with self._lock:
            self._desired.elected = True
            self._state.elected()
            before = self._state.known
            self._settle()
            if (known := self._state.known) is not None:
                self._clearing.note(known)
                self._publish()
                if known is before and not known.entries:
                    self._log_address(known, "")
        self.enqueue_all()

    def deposed(self) -> None:
        """End a term; what is published stays."""
        with self._lock:
            self._desired.elected = False

    def take_over(self) -> None:
        """Put what is held off in force at once: who had the Ingresses before may have published it already."""
        with self._lock:
            self._settle(early=True)

    def _reconciler(self, ref: ServiceRef) -> Callable[[ctrlhost.Context, ctrlhost.Request], ctrlhost.Result | None]:
        def reconcile(ctx: ctrlhost.Context, request: ctrlhost.Request) -> ctrlhost.Result | None:
            if (request.namespace, request.name) != tuple(ref):
                return None
            wait = self.observe(ref, ctx.get(request))
            return ctrlhost.Result(requeue_after=wait) if wait < math.inf else None

        return reconcile

    def observe(self, ref: ServiceRef, service: Object | None) -> float:
        """Record the current Service, None if missing, and return the seconds until something is due."""
        with self._lock:
            self._addresses[ref] = addresses_of(service)
            self._kinds[ref] = kind_of(service)
            if any(entries is None for entries in self._addresses.values()):
                return math.inf
            now = self._clock.now()
            self._state.observe(
                normalise([entry for addresses in self._addresses.values() for entry in addresses or ()]), now
            )
            self._settle()
            return self._next(now)

    def _settle(self, *, early: bool = False) -> None:
        """Put in force and publish what is due, with `early` what is held off; expects the lock."""
        source, now = ", ".join(map(str, self._addresses)), self._clock.now()
        if self._state.settle(source, now, early=early):
            self._in_force(source)
            return
        known = self._state.known
        if self._desired.elected and not self._desired.clearing and now >= self._clearing.due(known):
            self._desired.clearing = self._clearing.published
            self._log.warning("%s has no address any longer: removing what was published", source)
            self._publish()

    def _in_force(self, source: str) -> None:
        known = self._state.known
        if known is None:
            return
        self._desired.clearing = ""
        self._desired.known = known
        self._metrics.changes.inc()
        self._log_address(known, source)
        if self._desired.elected:
            self._clearing.note(known)
            self._publish()

    def _log_address(self, known: Known, source: str) -> None:
        if known.entries:
            self._log.info("the address is %s, %d in all, from %s", summary(known.entries), len(known.entries), source)
            return
        kinds = ", ".join(f"{ref} ({kind})" for ref, kind in self._kinds.items())
        # A replica that stands by publishes nothing; it says so when it leads.
        level = logging.WARNING if self._desired.elected else logging.DEBUG
        self._log.log(
            level,
            "no address to publish: %s; set ingress-status-address if there is one that no Service has",
            kinds,
        )

    def _next(self, now: float) -> float:
        due = self._state.due()
        if self._desired.elected and not self._desired.clearing:
            due = min(due, self._clearing.due(self._state.known))
        # A moment later, so that rounding does not make it too early.
        return due - now + 0.001 if due < math.inf else math.inf


def addresses_of(service: Object | None) -> Entries:
    """Return the addresses assigned to a Service; none for a missing one."""
    if service is None or service.kind != "Service":
        return ()
    return normalise(service.get_path("status", "loadBalancer", "ingress", default=()))


def kind_of(service: Object | None) -> str:
    """Return the type of a Service for log lines."""
    if service is None:
        return "absent"
    spec: Any = service.get("spec") or {}
    kind = str(spec.get("type") or "ClusterIP")
    return f"headless {kind}" if kind == "ClusterIP" and spec.get("clusterIP") == "None" else kind
