"""Server behaviour that the controller runtime needs, on both servers: writes, events, finalizers, self-events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ctrlhost
from ctrlhost import For, Owns, Request
from ctrlhost.config.settings import HostSettings
from ctrlhost.host.host import Host
from tests.support.plugin_modules import config_map
from tests.support.reconcilers import controller
from tests.support.waiting import create_eventually, eventually

Start = Callable[..., Host]


@pytest.fixture
def start(control_plane) -> Iterator[Start]:
    hosts: list[Host] = []

    def start(*plugins: Any) -> Host:
        client = ctrlhost.Client.load(str(control_plane.kubeconfig))
        host = Host(HostSettings(listen=""), plugins, client=client)
        hosts.append(host)
        host.start()
        assert host.wait_ready(30)
        return host

    yield start
    for host in hosts:
        assert host.stop(10)
        assert host.client is not None
        host.client.close()


def mine(namespace: str) -> For:
    return For("v1", "ConfigMap", namespaces=[namespace], label_selector="mine")


@pytest.mark.behaviour("informers/CR10")
def test_reads_do_not_wait_for_an_evicted_pod(control_plane, namespace: str, start: Start) -> None:
    seen: list[Any] = []

    def evict(ctx: ctrlhost.Context, request: Request) -> None:
        if seen:
            return
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": request.name, "namespace": namespace},
        }
        answer = ctx.client.create(body, subresource="eviction")
        # The answer is a Status, which must not enter the cache as a pod.
        seen.append((answer["kind"], answer["status"], [obj.name for obj in ctx.lister("v1", "Pod").list()]))

    start(controller(evict, For("v1", "Pod", namespaces=[namespace])))
    containers = [{"name": "main", "image": "nginx"}]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": namespace}}
    create_eventually(control_plane.client, {**pod, "spec": {"containers": containers}})
    eventually(lambda: seen, 30)
    assert seen[0][:2] == ("Status", "Success")
    assert seen[0][2] in ([], ["web"])
    eventually(lambda: control_plane.client.find("v1", "Pod", "web", namespace) is None, 30)


def test_reads_include_every_kind_of_own_write(control_plane, namespace: str, start: Start) -> None:
    seen: list[Any] = []

    def write(ctx: ctrlhost.Context, request: Request) -> None:
        if request.name != "ann" or seen:
            return
        other, lister = Request("copy", namespace), ctx.lister("v1", "ConfigMap")
        ctx.client.create(config_map("copy", namespace, labels={"mine": "1"}, a="1"))
        seen.append(ctx.get(other)["data"]["a"])
        ctx.client.patch("v1", "ConfigMap", "copy", namespace, {"data": {"a": "2"}})
        seen.append(ctx.get(other)["data"]["a"])
        ctx.client.apply(config_map("copy", namespace, labels={"mine": "1"}, a="3"))
        seen.append(ctx.get(other)["data"]["a"])
        ctx.client.replace({**ctx.get(other).to_dict(), "data": {"a": "4"}})
        seen.append(ctx.get(other)["data"]["a"])
        seen.append(sorted(obj.name for obj in lister.list()))
        ctx.client.delete("v1", "ConfigMap", "copy", namespace)
        seen.append(ctx.get(other))
        seen.append(sorted(obj.name for obj in lister.list()))

    start(controller(write, mine(namespace)))
    control_plane.client.create(config_map("ann", namespace, labels={"mine": "1"}))
    eventually(lambda: len(seen) == 7, 30)
    assert seen == ["1", "2", "3", "4", ["ann", "copy"], None, ["ann"]]


def test_a_list_does_not_wait_for_writes_outside_its_selector(control_plane, namespace: str, start: Start) -> None:
    seen: list[Any] = []

    def write(ctx: ctrlhost.Context, request: Request) -> None:
        if not seen:
            ctx.client.create(config_map("other", namespace))
            seen.append([obj.name for obj in ctx.lister("v1", "ConfigMap").list()])

    host = start(controller(write, mine(namespace)))
    control_plane.client.create(config_map("ann", namespace, labels={"mine": "1"}))
    eventually(lambda: seen, 30)
    assert seen == [["ann"]]
    assert host.plugins[0].controllers[0].status().errors == 0


def test_events_are_accepted_and_become_series(control_plane, namespace: str, start: Start) -> None:
    def tell(ctx: ctrlhost.Context, request: Request) -> None:
        obj = ctx.get(request)
        for _ in range(3):
            ctx.events.normal(obj, "Seen", "have seen it", action="Look", related=obj)

    host = start(controller(tell, mine(namespace)))
    control_plane.client.create(config_map("ann", namespace, labels={"mine": "1"}))

    def events() -> list[dict[str, Any]]:
        return list(control_plane.client.list("events.k8s.io/v1", "Event", namespace))

    eventually(lambda: events() and events()[0].get("series"), 30)
    (event,) = events()
    assert event["series"]["count"] == 2
    assert (event["reason"], event["action"], event["note"]) == ("Seen", "Look", "have seen it")
    assert event["regarding"]["name"] == "ann"
    # The shutdown writes the final count.
    assert host.stop(10)
    assert events()[0]["series"]["count"] == 3


def test_a_finalizer_keeps_the_object_until_it_is_removed(control_plane, namespace: str, start: Start) -> None:
    cleaned: list[str] = []

    def reconcile(ctx: ctrlhost.Context, request: Request) -> None:
        obj = ctx.get(request)
        if obj is None:
            return
        if obj.deletion_timestamp:
            cleaned.append(request.name)
            ctrlhost.finalizers.remove(ctx.client, obj, "example.com/demo")
        else:
            ctrlhost.finalizers.add(ctx.client, obj, "example.com/demo")

    start(controller(reconcile, mine(namespace)))
    client = control_plane.client
    client.create(config_map("ann", namespace, labels={"mine": "1"}))
    eventually(lambda: client.get("v1", "ConfigMap", "ann", namespace)["metadata"].get("finalizers"), 30)
    client.delete("v1", "ConfigMap", "ann", namespace)
    eventually(lambda: client.find("v1", "ConfigMap", "ann", namespace) is None, 30)
    assert cleaned


def test_the_self_event_of_a_status_like_write_is_suppressed(control_plane, namespace: str, start: Start) -> None:
    runs: list[str] = []

    def count_up(ctx: ctrlhost.Context, request: Request) -> None:
        runs.append(request.name)
        obj = ctx.get(request)
        if obj is not None and "seen" not in obj.annotations:
            change = {"metadata": {"annotations": {"seen": "1"}}}
            ctx.client.patch("v1", "ConfigMap", request.name, namespace, change)

    start(controller(count_up, mine(namespace), suppress_echo=True))
    client = control_plane.client
    client.create(config_map("ann", namespace, labels={"mine": "1"}))
    eventually(
        lambda: "seen" in (client.get("v1", "ConfigMap", "ann", namespace)["metadata"].get("annotations") or {}), 30
    )
    # The self-event is processed before a later change.
    client.create(config_map("bob", namespace, labels={"mine": "1"}))
    eventually(lambda: runs.count("bob") == 1, 30)
    assert runs == ["ann", "bob"]


def test_the_owner_of_a_changed_object_is_reconciled(control_plane, namespace: str, start: Start) -> None:
    runs: list[Request] = []
    start(
        controller(
            lambda ctx, request: runs.append(request), mine(namespace), Owns("v1", "Secret", namespaces=[namespace])
        )
    )
    client = control_plane.client
    ann = client.create(config_map("ann", namespace, labels={"mine": "1"}))
    eventually(lambda: len(runs) == 1, 30)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key", "namespace": namespace}}
    client.create(secret, owner=ann)
    eventually(lambda: len(runs) == 2, 30)
    client.delete("v1", "Secret", "key", namespace)
    eventually(lambda: len(runs) == 3, 30)
    assert runs == [Request("ann", namespace)] * 3
