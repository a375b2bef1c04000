"""Clients of the feed: ctrlhost's own informers, those of client-go, and one that is cut again and again."""

from __future__ import annotations

import json
import os
import random
import subprocess
import threading
from collections.abc import Callable
from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox

from ctrlhost import Client
from ctrlhost.informers import InformerFactory, ReflectorOptions
from ctrlhost.informers.declarations import scope_of
from tests.support.control_plane import BINARY
from tests.support.feeds import CONFIGS, PODS, FeedRig, short
from tests.support.http_client import Api
from tests.support.informer_rig import QUICK, synced
from tests.support.objects import config_map
from tests.support.stub_api_server import Frames, Json, StubApiServer, error_event, event, pod, pod_list, serve
from tests.support.waiting import eventually, eventually_equal
from tests.support.workqueue_threads import Background

behaviour = pytest.mark.behaviour
Feeds = Callable[..., FeedRig]
CLIENTS = BINARY.with_name("clients")


def versions(informer: Any) -> dict[str, str]:
    """Return the resource versions in the cache of an informer by name."""
    return {obj.name: obj.resource_version for obj in informer.lister.list()}


def served(client: Client) -> dict[str, str]:
    """Return the same of the API server."""
    items = client.list("v1", "ConfigMap", "default")
    return {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in items}


@behaviour("supervision/FD2")
def test_a_watch_that_is_cut_anywhere_misses_nothing(sandbox: Sandbox, sandbox_client: Client, feed_of: Feeds) -> None:
    for name in ("hot", "b", "c"):
        sandbox_client.create(config_map(name))
    feed = feed_of(sandbox_client)
    api = feed.serving(kind="ConfigMap", namespaces=["default"])
    start = api.listed(CONFIGS)["metadata"]["resourceVersion"]
    (informer,) = feed.factory.informers()
    # Plugin code that keeps the host busy, so that its delta FIFO merges changes.
    informer.add_handler(on_update=lambda old, new: [old.get_path("data", "n") for _ in range(2_000)] and None)
    for number in range(100):
        for name in ("hot", random.choice(("b", "c"))):
            sandbox_client.patch("v1", "ConfigMap", name, "default", {"data": {"n": str(number)}})
    end = max(map(int, served(sandbox_client).values()))
    events = api.watch(CONFIGS, resourceVersion=start)
    expected = [short(events.next())]
    while expected[-1].split()[-1] != str(end):
        expected.append(short(events.next()))
    assert len(expected) == 200
    # The API server's own watch says the same.
    with Api(sandbox.url, sandbox.ca, sandbox.token) as direct:
        assert [short(event) for event in direct.watch(CONFIGS, resourceVersion=start).take(200)] == expected
    chosen = random.Random(8)
    version, seen = start, [""]
    for _ in range(1_000):
        events = api.watch(CONFIGS, resourceVersion=version)
        if seen[-1:] == expected[-1:]:
            version, seen = start, [""]
            events.close()
            continue
        some = [short(event) for event in events.take(chosen.randint(1, min(20, 201 - len(seen))))]
        events.close()
        seen += some
        version = seen[-1].split()[-1]
        assert seen[1:] == expected[: len(seen) - 1]
    numbers = [int(line.split()[-1]) for line in expected]
    assert numbers == sorted(numbers)


@behaviour("supervision/FD16")
@pytest.mark.parametrize("streaming", ["true", "false"])
@pytest.mark.real
@pytest.mark.skipif(not CLIENTS.exists(), reason="the Go clients are not built; `make real-tools` builds them")
def test_an_informer_of_client_go_follows_a_thousand_changes(
    sandbox: Sandbox, sandbox_client: Client, feed_of: Feeds, streaming: str
) -> None:
    feed = feed_of(sandbox_client)
    feed.serving(kind="ConfigMap", namespaces=["default"]).listed(CONFIGS)
    command = [str(CLIENTS), "informer", str(sandbox.kubeconfig), "default", "334", f"unix:{feed.path()}"]
    env = {**os.environ, "KUBE_FEATURE_WatchListClient": streaming}
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    steps = {entry["step"]: entry["answer"] for entry in json.loads(done.stdout)}
    assert steps["the cache equals a list after creates and updates"] == "yes"
    assert steps["the cache equals a list after deletes"] == "yes"
    assert steps["events"]["deleted"] == 334
    assert (steps["lists"], steps["streaming lists"]) == ((0, 1) if streaming == "true" else (1, 0))


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("reads", [None, "metadata"])
def test_an_informer_of_ctrlhost_reads_the_feed(
    sandbox_client: Client, feed_of: Feeds, streaming: bool, reads: str | None
) -> None:
    sandbox_client.create(config_map("first", labels={"app": "x"}))
    feed = feed_of(sandbox_client)
    declared: Any = {"namespaces": ["default"], "label_selector": "app", "reads": reads}
    feed.serving(kind="ConfigMap", **declared)
    options = ReflectorOptions(watch_list=streaming, backoff=QUICK)
    child = InformerFactory(feed.reading_client(), options=options)
    informer = child.informer("v1", "ConfigMap", **declared)
    synced(child)
    for number in range(50):
        sandbox_client.create(config_map(f"c{number}", {"n": "0"}, labels={"app": "x"}))
        sandbox_client.patch("v1", "ConfigMap", f"c{number}", "default", {"data": {"n": "1"}})
    for number in range(0, 50, 2):
        sandbox_client.delete("v1", "ConfigMap", f"c{number}", "default")
    # This one leaves the selection.
    sandbox_client.patch("v1", "ConfigMap", "c1", "default", {"metadata": {"labels": {"app": None}}})
    wanted = {
        name: version for name, version in served(sandbox_client).items() if name not in ("c1", "kube-root-ca.crt")
    }
    eventually_equal(lambda: versions(informer), wanted)
    assert {obj.partial for obj in informer.lister.list()} == {reads == "metadata"}
    status = informer.parts[0].reflector.status
    assert status.lists == 1
    child.stop()


@behaviour("supervision/FD4")
def test_an_informer_recovers_from_a_list_of_the_host(server: StubApiServer, client: Client, feed_of: Feeds) -> None:
    first, second = Frames(), Frames()
    lists = [Json(pod_list(10, pod("a", 1))), Json(pod_list(20, pod("b", 19)))]
    serve(server, PODS, lists, [first, second])
    feed = feed_of(client)
    feed.serving().listed(PODS)
    child = InformerFactory(feed.reading_client(), options=ReflectorOptions(backoff=QUICK))
    informer = child.informer("v1", "Pod")
    synced(child)
    first.send_event(error_event(410, "Expired"))
    eventually_equal(lambda: versions(informer), {"b": "19"})
    second.send_event(event("MODIFIED", pod("b", 21)))
    eventually_equal(lambda: versions(informer), {"b": "21"})
    child.stop()


def test_an_informer_that_is_early_waits_for_the_first_list(
    server: StubApiServer, client: Client, feed_of: Feeds
) -> None:
    gate = threading.Event()

    class Gated(Json):
        def send(self, handler: Any) -> None:
            gate.wait(20)
            super().send(handler)

    serve(server, PODS, [Gated(pod_list(10, pod("a", 1)))], [Frames()])
    feed = feed_of(client)
    reader, api = feed.open()
    child = InformerFactory(feed.reading_client(), options=ReflectorOptions(backoff=QUICK))
    informer = child.informer("v1", "Pod")
    child.start()
    # Not declared, then not listed.
    eventually(lambda: "not declared by this plugin" in informer.reason)
    reader.declare(scope_of("v1", "Pod"))
    informer.wake()
    eventually(lambda: "first list" in informer.reason)
    assert api.get(PODS).status == 503
    gate.set()
    waiting = Background(lambda: child.wait_for_sync(30))
    informer.wake()
    assert waiting.result()
    assert versions(informer) == {"a": "1"}
    child.stop()
