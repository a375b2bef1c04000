"""Informers behind a proxy with injected faults, compared with the server and with a model of its objects."""

from __future__ import annotations

import itertools
import random
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Self

import pytest

import ctrlhost
from ctrlhost import Client, InformerFactory
from ctrlhost.informers import Encodings, Informer, ReflectorOptions
from ctrlhost.testing import FaultProxy, HurriedClock
from ctrlhost.testing.fault_proxy import WEIGHTS
from tests.convergence.observers import HandlerState, Reconciler, Versions
from tests.support.control_plane import ControlPlane
from tests.support.waiting import eventually

NAMES = 12
SPEED = 10_000.0
#: More of the faults that keep the connection open, so that a minute has many faults.
KINDS = {**WEIGHTS, "answer": 12, "duplicate": 30, "truncate": 8, "older": 6, "delay": 1}
_numbers = itertools.count(1)


@dataclass(frozen=True)
class WatchedInformer:
    """An informer with its handler and reconciler, and the objects it should hold."""

    what: str
    informer: Informer
    handler: HandlerState
    reconciler: Reconciler
    namespace: str
    blue_only: bool

    def cached(self) -> dict[str, str]:
        return {obj.key: obj.resource_version for obj in self.informer.lister.list()}


def agree(who: str, held: Callable[[], dict[str, str]], served: dict[str, str], timeout: float) -> None:
    try:
        eventually(lambda: held() == served, timeout, pause=0.01)
    except AssertionError:
        has = held()
        differing = {
            key: (has.get(key), served.get(key)) for key in has.keys() | served if has.get(key) != served.get(key)
        }
        pytest.fail(f"{who} differs from the server (has, should have): {differing}")


class Cluster:
    """Informers of several kinds on one proxy. `round` is a storm of faults, a pause and the comparison."""

    def __init__(self, server: ControlPlane, proxy: FaultProxy) -> None:
        self._client = server.client
        self._proxy = proxy
        self._stack = ExitStack()
        self._rng = random.Random(proxy.seed)
        self.namespaces = [f"storm-{next(_numbers)}" for _ in range(3)]
        for name in self.namespaces:
            self._client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self.informers: list[WatchedInformer] = []
        self._factories: list[InformerFactory] = []
        self.versions = Versions()
        self.writes = 0

    def __enter__(self) -> Self:
        # Five ways to list, in both encodings: as a stream, whole, in pages, metadata only, by label.
        self._add_informers(watch_list=True)
        self._add_informers(watch_list=True, encoding="json")
        self._add_informers(watch_list=False)
        self._add_informers(watch_list=False, page_size=3, encoding="json")
        self._add_informers(watch_list=False, page_size=3)
        self._add_informers(watch_list=True, reads="metadata")
        self._add_informers(watch_list=True, labels="colour=blue")
        for factory in self._factories:
            assert factory.wait_for_sync(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._proxy.calm()
        self._stack.close()

    def received(self) -> dict[str, float]:
        """Return the bytes that all informers received, by encoding."""
        counts: Counter[str] = Counter()
        for factory in self._factories:
            for family in factory.metrics.collect():
                for sample in family.samples:
                    if sample.name == "ctrlhost_informer_received_bytes_total":
                        counts[sample.labels["encoding"]] += int(sample.value)
        return dict(counts)

    def _add_informers(
        self, *, watch_list: bool, page_size: int | None = None, encoding: str = "auto", **narrow: Any
    ) -> None:
        client = Client.load(self._proxy.kubeconfig)
        self._stack.callback(client.close)
        options = ReflectorOptions(
            watch_list=watch_list,
            page_size=page_size,
            idle_timeout=0.5,
            connect_timeout=1.0,
            list_timeout=1.0,
            encodings=Encodings(encoding),
        )
        factory = InformerFactory(client, clock=HurriedClock(SPEED), options=options)
        self._factories.append(factory)
        for namespace in self.namespaces:
            informer = factory.informer(
                "v1",
                "ConfigMap",
                namespaces=[namespace],
                label_selector=narrow.get("labels"),
                reads=narrow.get("reads"),
            )
            reconciler = Reconciler(informer, random.Random(self._rng.random()), self.versions)
            what = f"{namespace} watch_list={watch_list} page_size={page_size} {encoding} {narrow}"
            handler = HandlerState(informer, self.versions)
            self.informers.append(WatchedInformer(what, informer, handler, reconciler, namespace, "labels" in narrow))
            self._stack.callback(reconciler.stop)
        self._stack.callback(factory.stop)
        factory.start()

    def round(self, seed: int, faults: int, timeout: float = 120.0) -> None:
        """Write at random during a storm of `faults` faults, then compare all caches with the server."""
        done = threading.Event()
        writer = threading.Thread(target=self._write, args=(random.Random(seed), done), name="writer", daemon=True)
        # Every second storm has no `older` faults, so the informers must not go back in time.
        kinds = {**KINDS, "older": KINDS["older"] * (seed % 2)}
        before = self._proxy.total
        self._proxy.storm(0.6, connections=0.1, within=0.01, silence=0.05, seed=seed, kinds=kinds)
        writer.start()
        try:
            eventually(lambda: self._proxy.total - before >= faults, timeout, "the storm's faults", pause=0.02)
        finally:
            self._proxy.calm()
            done.set()
            writer.join(30)
        # Drop dead streams, so that no informer has to wait for its timeout.
        self._proxy.drop()
        self.assert_agreement(f"seed {seed}")
        for informer in self.informers:
            assert seed % 2 or informer.handler.backwards == [], f"seed {seed}: {informer.what}"
            informer.handler.backwards.clear()

    def assert_agreement(self, when: str, timeout: float = 30.0) -> None:
        """Wait until caches, handlers and reconcilers equal the server; fail with the differences."""
        truth = {namespace: self._served(namespace) for namespace in self.namespaces}
        for informer in self.informers:
            served = {
                key: version
                for key, (version, blue) in truth[informer.namespace].items()
                if blue or not informer.blue_only
            }
            who = f"{when}: {informer.what}"
            agree(f"{who}: its cache", informer.cached, served, timeout)
            agree(f"{who}: its handler", informer.handler.held, served, timeout)
            agree(f"{who}: its reconciler", informer.reconciler.held, served, timeout)
            assert informer.handler.violations == [], who
            for part in informer.informer.parts:
                assert "internal" not in part.reflector.status.errors, part.reflector.status.last_error
        wrong = self.versions.wrong()
        assert wrong == [], f"{when}: the server never had {wrong}"

    def _served(self, namespace: str) -> dict[str, tuple[str, bool]]:
        objects = list(self._client.list("v1", "ConfigMap", namespace))
        for obj in objects:
            # The server's own ConfigMaps, too.
            self.versions.wrote({"apiVersion": "v1", "kind": "ConfigMap", **obj})
        return {
            f"{namespace}/{obj['metadata']['name']}": (
                obj["metadata"]["resourceVersion"],
                obj["metadata"].get("labels", {}).get("colour") == "blue",
            )
            for obj in objects
        }

    def _write(self, rng: random.Random, done: threading.Event) -> None:
        while not done.wait(rng.random() * 0.01):
            namespace, name = rng.choice(self.namespaces), f"m{rng.randrange(NAMES)}"
            try:
                self._write_one(rng, namespace, name)
            except (ctrlhost.NotFound, ctrlhost.AlreadyExists, ctrlhost.Conflict):
                continue
            self.writes += 1

    def _write_one(self, rng: random.Random, namespace: str, name: str) -> None:
        labels = {"colour": rng.choice(("blue", "red"))}
        match rng.randrange(6):
            case 0 | 1:
                metadata = {"name": name, "namespace": namespace, "labels": labels}
                text = {"text": "x" * rng.randrange(2000)}
                created = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": text}
                self.versions.wrote(self._client.create(created))
            case 2 | 3:
                patch = {"metadata": {"labels": labels}, "data": {"n": str(rng.random())}}
                self.versions.wrote(self._client.patch("v1", "ConfigMap", name, namespace, patch))
            case 4:
                self._client.delete("v1", "ConfigMap", name, namespace)
            case _ if rng.random() < 0.1:
                self._client.delete_collection("v1", "ConfigMap", namespace, label_selector="colour=red")
            case _:
                self._client.delete("v1", "ConfigMap", name, namespace)
