"""The invariants after any sequence of events, in a simulated cluster with the real writer."""

from __future__ import annotations

import copy
import logging
from collections import Counter
from types import SimpleNamespace
from typing import Any

import ctrlhost_ingress_status.writer as writer_module
from ctrlhost_ingress_status.addresses import normalise, same
from ctrlhost_ingress_status.classes import LEGACY_ANNOTATION
from ctrlhost_ingress_status.contention import Contention
from ctrlhost_ingress_status.discovery import AddressState, Clearing, Discovery
from ctrlhost_ingress_status.ingress import Desired, IngressTarget
from ctrlhost_ingress_status.metrics import Progress, StatusMetrics
from ctrlhost_ingress_status.passes import Passes
from ctrlhost_ingress_status.settings import IngressStatusSettings, ServiceRef
from ctrlhost_ingress_status.write_budget import WriteBudget
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from prometheus_client import CollectorRegistry

import ctrlhost
from ctrlhost.cache import Indexer, Object
from ctrlhost.testing import ManualClock

NAMES = st.sampled_from(["a", "b", "c", "d"])
CLASSES = st.sampled_from([None, "contour", "nginx"])
ADDRESSES = st.sampled_from(
    [
        [],
        [{"ip": "1.1.1.1"}],
        [{"ip": "2.2.2.2"}, {"hostname": "lb.example.com"}],
        [{"hostname": "lb.example.com"}, {"ip": "2.2.2.2"}],
        [{"ip": "2001:db8::1", "ipMode": "VIP"}],
    ]
)
REF = ServiceRef("projectcontour", "envoy")


class Cluster(RuleBasedStateMachine):
    """Ingresses on a server, a cache that lags behind it, a queue with delays, and one replica of the plugin."""

    def __init__(self) -> None:
        super().__init__()
        self.objects: dict[str, dict[str, Any]] = {}
        self.cache = Indexer()
        self.unseen: list[str] = []
        self.queue: dict[ctrlhost.Request, float] = {}
        self.version = 0
        self.faults: list[Exception] = []
        self.service: list[Any] | None = None
        self.next_look = 0.0
        self.leads = False
        self.writes: Counter[str] = Counter()
        self.allowed: Counter[str] = Counter()
        self.foreign_writes: list[str] = []
        self.bad: list[str] = []
        self.clock = ManualClock()
        self.on_empty = "keep"
        self.begin()

    def begin(self) -> None:
        events = SimpleNamespace(warning=lambda *_, **__: None)
        log = logging.getLogger("ctrlhost.plugin.ingress-status.properties")
        log.setLevel(logging.CRITICAL)
        plugin: Any = SimpleNamespace(log=log, clock=self.clock, events=events, settings=IngressStatusSettings())
        self.desired = Desired(plugin.settings.class_rules().ours())
        metrics = StatusMetrics(CollectorRegistry(), "Ingress", self.desired)
        self.target = IngressTarget(plugin.settings.vendor_annotation)
        self.budget = WriteBudget(4, 2)
        informer: Any = SimpleNamespace(indexer=self.cache)
        self.passes = Passes(informer, self.target, self.desired)
        progress = Progress(self.passes.remaining, 4, self.clock, log)
        self.writer = writer_module.Writer(
            plugin, self.target, self.desired, self.budget, metrics, Contention(), progress
        )
        clearing = Clearing(300.0 if self.on_empty == "clear" else None)
        self.discovery = Discovery(
            plugin, AddressState(1.0, 5.0), clearing, self.desired, metrics, lambda: self.publish()
        )
        self.discovery._addresses[REF] = None

    def publish(self) -> None:
        self.budget.clear_bulk()
        self.passes.enqueue(lambda requests, priority: [self.enqueue(request) for request in requests])
        for name in self.objects:
            self.allowed[name] += 1

    def enqueue(self, request: ctrlhost.Request, after: float = 0.0) -> None:
        due = self.clock.now() + after
        self.queue[request] = min(due, self.queue.get(request, due))

    # Events of users, clouds and networks.

    @rule(name=NAMES, class_name=CLASSES, status=ADDRESSES)
    def create(self, name: str, class_name: str | None, status: list[Any]) -> None:
        if name not in self.objects:
            self.version += 1
            annotations = {LEGACY_ANNOTATION: class_name} if class_name is not None else {}
            metadata = {"name": name, "namespace": "n", "uid": f"u{self.version}", "annotations": annotations}
            kind = {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress"}
            self.store({**kind, "metadata": metadata, "status": {"loadBalancer": {"ingress": status}}})

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        if self.objects.pop(name, None):
            self.unseen.append(name)

    @rule(name=NAMES, class_name=CLASSES)
    def change_class(self, name: str, class_name: str | None) -> None:
        if name in self.objects:
            changed = copy.deepcopy(self.objects[name])
            changed["metadata"]["annotations"] = {LEGACY_ANNOTATION: class_name} if class_name is not None else {}
            self.store(changed)

    @rule(name=NAMES, status=ADDRESSES)
    def edit(self, name: str, status: list[Any]) -> None:
        if name in self.objects:
            changed = copy.deepcopy(self.objects[name])
            changed["status"] = {"loadBalancer": {"ingress": status}}
            self.store(changed)

    @rule(addresses=st.none() | ADDRESSES)
    def assign(self, addresses: list[Any] | None) -> None:
        self.service = addresses

    @rule()
    def look(self) -> None:
        wait = self.discovery.observe(REF, self.service_object())
        self.next_look = self.clock.now() + min(wait, 3600.0)

    @rule(count=st.integers(1, 6))
    def deliver(self, count: int) -> None:
        """Deliver some of the changes to the cache; several of one object may be merged."""
        for name in self.unseen[:count]:
            self.show(name)
        del self.unseen[:count]

    @rule(seconds=st.sampled_from([0.1, 1.0, 6.0, 400.0]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        if self.clock.now() >= self.next_look:
            self.look()

    @rule()
    def work(self) -> None:
        for request, due in sorted(self.queue.items(), key=lambda item: item[1]):
            if due <= self.clock.now():
                del self.queue[request]
                self.reconcile(request)

    @rule(kind=st.sampled_from([ctrlhost.ServerError, ctrlhost.Conflict, ctrlhost.TooManyRequests]))
    def fail(self, kind: type[Exception]) -> None:
        self.faults.append(kind("as ordered"))

    @rule()
    def elect(self) -> None:
        if not self.leads:
            self.leads = True
            self.discovery.elected()

    @precondition(lambda self: self.leads)
    @rule()
    def depose(self) -> None:
        self.leads = False
        self.discovery.deposed()

    # The invariants.

    @invariant()
    def nothing_wrong_was_ever_sent(self) -> None:
        assert self.bad == []

    @invariant()
    def no_more_is_written_than_there_was_reason_for(self) -> None:
        assert all(count <= self.allowed[name] for name, count in self.writes.items()), (self.writes, self.allowed)

    def teardown(self) -> None:
        """Run until idle; then each status of ours is right."""
        self.faults.clear()
        self.elect()
        self.look()
        for _ in range(3):
            self.deliver(len(self.unseen) or 1)
            for _ in range(80):
                self.wait(6.0)
                self.deliver(len(self.unseen) or 1)
                self.work()
            self.look()
            # A contested object is retried within half an hour.
            self.clock.advance(1801.0)
        self.work()
        known = self.desired.known
        assert known is not None
        assert same(known.entries, normalise(self.service or []))
        for name, obj in self.objects.items():
            if known.entries and self.ours(obj):
                assert same(self.target.addresses(obj), known.entries), (name, obj, known)
        assert self.bad == []

    # The server, the cache and the worker.

    def store(self, obj: dict[str, Any]) -> None:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        name = obj["metadata"]["name"]
        self.objects[name] = obj
        self.allowed[name] += 1
        self.unseen.append(name)

    def show(self, name: str) -> None:
        old, new = self.cache.get_by_key(f"n/{name}"), self.objects.get(name)
        if new is not None:
            self.cache.add(Object(new))
        elif old is not None:
            self.cache.delete(old)
        if (old or new) and self.writer.wakes(old, Object(new) if new else None):
            self.enqueue(ctrlhost.Request(name, "n"))

    def ours(self, obj: dict[str, Any]) -> bool:
        return self.target.class_of(Object(obj)) in self.desired.ours

    def service_object(self) -> Object | None:
        if self.service is None:
            return None
        status = {"loadBalancer": {"ingress": self.service}}
        return Object({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "envoy"}, "status": status})

    def reconcile(self, request: ctrlhost.Request) -> None:
        context: Any = SimpleNamespace(
            leading=self.leads,
            get=lambda wanted: self.cache.get_by_key(f"n/{wanted.name}"),
            priority=0,
            client=SimpleNamespace(patch=self.patch),
        )
        result = self.writer.reconcile(context, request)
        if result is not None and result.requeue_after is not None:
            self.enqueue(request, result.requeue_after)

    def patch(self, _version: str, _kind: str, name: str, _ns: str, patch: dict[str, Any], *, subresource: str) -> None:
        obj, entries = self.objects.get(name), patch["status"]["loadBalancer"]["ingress"]
        self.writes[name] += 1
        cached = self.cache.get_by_key(f"n/{name}")
        assert subresource == "status"
        assert cached is not None
        if not self.leads:
            self.bad.append(f"{name} written by a follower")
        if self.target.class_of(cached) not in self.desired.ours:
            self.bad.append(f"{name} is not ours")
        if same(self.target.addresses(cached), entries or ()):
            self.bad.append(f"{name} written without need")
        if entries is None and self.on_empty == "keep":
            self.bad.append(f"{name} removed")
        if self.faults:
            self.allowed[name] += 1
            raise self.faults.pop()
        if obj is None:
            raise ctrlhost.NotFound("gone")
        if obj["metadata"]["uid"] != patch["metadata"]["uid"]:
            raise ctrlhost.Invalid("metadata.uid: field is immutable", causes=[{"field": "metadata.uid"}])
        # The host shows the plugin its own writes at once.
        changed = copy.deepcopy(obj)
        changed["status"] = {"loadBalancer": {"ingress": entries}}
        self.store(changed)
        self.allowed[name] -= 1
        self.show(name)


class ClearingCluster(Cluster):
    """The same with `on-empty: clear`."""

    def begin(self) -> None:
        self.on_empty = "clear"
        super().begin()

    def publish(self) -> None:
        if self.desired.clearing:
            known = self.desired.known
            assert known is not None
            assert not known.entries
            assert self.clock.now() - known.since >= 300
        super().publish()


TestKeep = Cluster.TestCase
TestKeep.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestClear = ClearingCluster.TestCase
TestClear.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)
