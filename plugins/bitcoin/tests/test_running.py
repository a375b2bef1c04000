"""The plugin in a host: CRD checks, events, start, stop and isolation."""

from __future__ import annotations

import copy
import threading
from typing import Any

import ctrlhost_bitcoin
import pytest
from ctrlhost_bitcoin import plugin

import ctrlhost
from plugins.bitcoin.tests.cluster import NAME, NET
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour


@behaviour("bitcoin/B19")
def test_a_crd_that_drops_the_nodes_of_the_status_is_reported_as_too_old(
    cluster: Any, caplog: pytest.LogCaptureFixture
) -> None:
    replica = cluster.start(settle=False)
    (old,) = copy.deepcopy(plugin.ctrlhost_crds())
    del old["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["nodes"]
    cluster.client.apply(old, field_manager="test")

    def pruned() -> bool:
        # The server takes some time to switch to another schema.
        probe = cluster.net(0, name="probe")
        probe["status"] = {"nodes": [], "replicas": 0}
        try:
            written = cluster.client.replace(probe, "status")
        except ctrlhost.Conflict:
            return False
        finally:
            cluster.client.delete(*NET, "probe", "test")
        return "nodes" not in written["status"]

    replica.host.wait_for(pruned)
    cluster.net(3)
    replica.host.host.start()
    replica.host.wait_for(lambda: "the CRD is older than the plugin" in caplog.text)
    assert "status.nodes" in caplog.text


@behaviour("bitcoin/B39")
def test_events_that_are_refused_change_nothing_and_equal_ones_are_counted(
    cluster: Any, caplog: pytest.LogCaptureFixture
) -> None:
    replica = cluster.start(resync="0s")
    faults = replica.host.faults
    faults.next("create", ctrlhost.Forbidden("no events for you"), resource="events", times=100)
    cluster.net(2)
    cluster.pods(2)
    assert cluster.condition("MeshConverged") == ("True", "Converged")
    assert replica.host.events("test") == []
    refused = [record.getMessage() for record in caplog.records if "no events for you" in record.getMessage()]
    # One line for each event, though the network is reconciled many times.
    assert len(refused) == len(set(refused)) == 3

    faults.clear()
    faults.next("apply", ctrlhost.ServerError("no"), resource="services", times=5)
    cluster.client.delete("v1", "Service", f"{NAME}-svc", "test")
    cluster.idle()
    cluster.after(30, 0.5)
    # One Event for all: the second failure turns it into a series, whose end has the count.

    def counted() -> bool:
        cluster.clock.advance(20)
        (event,) = cluster.events("CreateFailed")
        return (event.get("series") or {}).get("count") == 5

    eventually(counted, what="the end of a series of five")
    patches = [write for write in replica.writes(events=True) if "/events/" in write.path]
    assert {patch.method for patch in patches} == {"PATCH"}
    assert cluster.svc()["spec"]["clusterIP"] == "None"


@behaviour("bitcoin/B40")
def test_nothing_is_reconciled_before_all_caches_are_full(cluster: Any) -> None:
    replica = cluster.start(settle=False)
    replica.host.faults.next("list", ctrlhost.ServerError("later"), resource="pods", times=1000)
    replica.host.faults.next("watch", ctrlhost.ServerError("later"), resource="pods", times=1000)
    replica.host.host.start()
    host = replica.host
    eventually(lambda: host.controllers)
    eventually(lambda: sum(informer.has_synced for informer in replica.controller.informers) >= 3)
    cluster.net(3)
    seen = replica.controller.informers[0]
    eventually(lambda: len(seen.lister.list()) == 1)
    assert replica.runs() == 0
    assert replica.writes() == []
    host.faults.clear()
    # A retry may take its time from the clock only after an advance.
    eventually(lambda: cluster.clock.advance(5) or replica.runs() > 0)


@behaviour("bitcoin/B40")
def test_a_stop_during_a_pass_starts_no_call_and_writes_no_partial_status(cluster: Any) -> None:
    replica = cluster.start()
    cluster.net(3)
    in_flight, released = threading.Event(), threading.Event()
    posts: list[str] = []
    post = cluster.http.post

    def held(host: str, *arguments: Any, **limits: Any) -> Any:
        posts.append(host)
        in_flight.set()
        assert released.wait(30)
        return post(host, *arguments, **limits)

    cluster.http.post = held
    cluster.settles = False
    cluster.pods(3)
    assert in_flight.wait(30)
    eventually(lambda: len(posts) >= 1)
    stopping = threading.Thread(target=replica.host.host.stop, args=(20,))
    stopping.start()
    eventually(lambda: replica.host.host.stopping.is_set() and replica.plugin.rpc._slots._closed)
    begun = len(posts)
    released.set()
    stopping.join(30)
    assert not stopping.is_alive()
    assert len(posts) == begun
    status: dict[str, Any] = {}
    parts = {"Reconciled", "CredentialsReady", "NodesReady", "MeshConverged", "Ready"}
    for write in replica.writes():
        if write.path.partition("?")[0].endswith("/status"):
            status.update(write.body["status"])
            assert {condition["type"] for condition in status["conditions"]} == parts
            assert status["replicas"] == len(status["nodes"])


@behaviour("bitcoin/B41")
def test_a_network_that_makes_the_plugin_fail_blocks_no_other(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    complete = ctrlhost_bitcoin.completed

    def failing(network: Any, settings: Any) -> Any:
        if network.metadata.name == "bad":
            raise ZeroDivisionError("a mistake in the plugin")
        return complete(network, settings)

    monkeypatch.setattr(ctrlhost_bitcoin, "completed", failing)
    replica = cluster.start(also=("naming",))
    cluster.net(1, name="bad")
    cluster.net(2, name="good")
    for number in (1, 2):
        cluster.daemon(f"10.0.0.{number}")
        cluster.pod(number - 1, f"10.0.0.{number}", name="good")
    cluster.idle()
    assert cluster.condition("Ready", "good") == ("True", "Ready")
    assert cluster.status("bad") == {}
    assert replica.controller.status().errors >= 1
    assert [runtime.state for runtime in replica.host.host.plugins] == ["running"] * 2
    other = replica.host.controllers["naming/crd_naming_condition_controller"]
    runs = other.status().runs
    (crd,) = plugin.ctrlhost_crds()
    labels = {"metadata": {"labels": {"touched": "yes"}}}
    cluster.client.patch(crd["apiVersion"], crd["kind"], crd["metadata"]["name"], None, labels)
    cluster.idle()
    assert other.status().runs > runs
