"""Status and finalizers of a `ctrlhost.Plugin` on both servers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import ctrlhost
from ctrlhost.config.settings import HostSettings
from ctrlhost.host.host import Host
from tests.support.memcached import API_VERSION, Memcached, memcached, new_plugin
from tests.support.waiting import create_eventually, eventually

CLEANUP = "cache.example.com/cleanup"


class Operator:
    """A host whose plugin has a controller with a finalizer, and what its functions saw."""

    def __init__(self, control_plane: Any, namespace: str) -> None:
        self.control_plane = control_plane
        self.namespace = namespace
        self.calls: list[str] = []
        self.interfere = False
        plugin = new_plugin("memcached.yaml")
        source = ctrlhost.For(Memcached, namespaces=[namespace])
        controller = plugin.controller(source)(self.reconcile)
        plugin.finalizer(CLEANUP, of=controller)(self.clean_up)
        client = ctrlhost.Client.load(str(control_plane.kubeconfig))
        self.host = Host(HostSettings(listen="", install_crds=True), (plugin,), client=client)
        self.host.start()
        assert self.host.wait_ready(60)

    def reconcile(self, ctx: ctrlhost.Context[Memcached, None], mc: Memcached) -> None:
        self.calls.append(f"reconcile {mc.spec.size} {','.join(mc.metadata.finalizers)}")
        ctx.status.set(readyReplicas=mc.spec.size)
        ctx.status.condition("Ready", True, "Because")
        if self.interfere:
            self.interfere = False
            theirs = {"type": "Theirs", "status": "True", "reason": "Because", "message": ""}
            moment = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
            self.patch(
                {"status": {"conditions": [*self.get()["status"]["conditions"], {**theirs, **moment}]}}, "status"
            )

    def clean_up(self, ctx: ctrlhost.Context[Memcached, None], mc: Memcached) -> None:
        self.calls.append("clean up")
        ctx.status.condition("Ready", False, "Ends")

    def get(self) -> dict[str, Any]:
        return self.control_plane.client.get(API_VERSION, "Memcached", "cache", self.namespace)

    def find(self) -> dict[str, Any] | None:
        return self.control_plane.client.find(API_VERSION, "Memcached", "cache", self.namespace)

    def patch(self, patch: dict[str, Any], subresource: str | None = None) -> dict[str, Any]:
        return self.control_plane.client.patch(
            API_VERSION, "Memcached", "cache", self.namespace, patch, subresource=subresource
        )

    def stop(self) -> None:
        assert self.host.stop(10)
        assert self.host.client is not None
        self.host.client.close()


@pytest.fixture
def operator(control_plane, namespace: str) -> Iterator[Operator]:
    started = Operator(control_plane, namespace)
    yield started
    started.stop()


def test_status_and_finalizer_of_an_object_from_begin_to_end(operator: Operator) -> None:
    obj = memcached()
    obj["metadata"]["namespace"] = operator.namespace
    create_eventually(operator.control_plane.client, obj)
    eventually(lambda: operator.get().get("status"))
    assert operator.calls[0] == f"reconcile 1 {CLEANUP}"
    first = operator.get()
    assert first["metadata"]["finalizers"] == [CLEANUP]
    ready = {"type": "Ready", "status": "True", "reason": "Because", "message": "", "observedGeneration": 1}
    (condition,) = first["status"].pop("conditions")
    assert condition.pop("lastTransitionTime")
    assert condition == ready
    assert first["status"] == {"observedGeneration": 1, "readyReplicas": 1}

    operator.interfere = True
    operator.patch({"spec": {"size": 2}})
    eventually(lambda: operator.get()["status"]["readyReplicas"] == 2)
    status = operator.get()["status"]
    assert [entry["type"] for entry in status["conditions"]] == ["Ready", "Theirs"]
    assert status["observedGeneration"] == status["conditions"][0]["observedGeneration"] == 2
    (controller,) = operator.host.plugins[0].controllers
    assert controller.status().errors == 0

    version = operator.get()["metadata"]["resourceVersion"]
    runs = controller.status().runs
    controller.queue.add(ctrlhost.Request("cache", operator.namespace))
    eventually(lambda: controller.status().runs > runs)
    assert operator.get()["metadata"]["resourceVersion"] == version

    operator.control_plane.client.delete(API_VERSION, "Memcached", "cache", operator.namespace)
    eventually(lambda: operator.find() is None)
    assert operator.calls.count("clean up") == 1
    assert controller.status().errors == 0
