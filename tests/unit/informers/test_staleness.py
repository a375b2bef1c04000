"""How old a cache may be, and the names of resources, in the metrics of informers."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from ctrlhost.client import Client
from ctrlhost.informers import InformerFactory, ReflectorOptions
from ctrlhost.testing import ManualClock
from tests.support.informer_rig import PODS, QUICK, Rig
from tests.support.objects import crd
from tests.support.stub_api_server import (
    Failure,
    Frames,
    Json,
    StubApiServer,
    bookmark,
    event,
    pod,
    pod_list,
    serve,
)
from tests.support.waiting import create_eventually, eventually

STALENESS = "ctrlhost_informer_staleness_seconds"


def samples(factory: InformerFactory, name: str) -> dict[str, dict[str, Any]]:
    """Return the labels and the value of each series of a metric, by informer."""
    registry = CollectorRegistry()
    registry.register(factory.metrics)
    matching = (sample for family in registry.collect() for sample in family.samples if sample.name == name)
    return {
        sample.labels.get("informer") or sample.labels["name"]: {**sample.labels, "value": sample.value}
        for sample in matching
        if sample.value or name == STALENESS
    }


def staleness(rig: Rig) -> float:
    (sample,) = samples(rig.factory, STALENESS).values()
    value: float = sample["value"]
    return value


def test_the_staleness_begins_anew_with_each_list_event_and_bookmark(
    server: StubApiServer, manual_clock: ManualClock
) -> None:
    frames = Frames()
    rig = Rig(server, clock=manual_clock).serve([Json(pod_list(5, pod("a", 5)))], [frames])
    assert samples(rig.factory, STALENESS) == {}
    rig.synced()
    eventually(lambda: rig.pods.state == "watching")
    assert samples(rig.factory, STALENESS)["Pod.v1"]["resource"] == "pods"
    for frame in (event("ADDED", pod("b", 6)), bookmark(7)):
        before = staleness(rig)
        manual_clock.advance(30.0)
        assert staleness(rig) == before + 30.0
        frames.send_event(frame)
        eventually(lambda: staleness(rig) == 0.0)
    rig.stop()


@pytest.mark.behaviour("operations/OP130")
def test_a_watch_that_is_silent_behind_a_live_proxy_is_reopened_at_the_idle_timeout(server: StubApiServer) -> None:
    # Everything else is answered at once, so that no probe would show it.
    server.on("GET", "/version", Json({}))
    rig = Rig(server, idle_timeout=1.0).serve([Json(pod_list(5, pod("a", 5)))], [Frames(), Frames()])
    rig.synced()
    eventually(lambda: len(rig.watches) == 1)
    first = staleness(rig)
    eventually(lambda: staleness(rig) > first + 0.1)
    assert rig.client.transport.request("GET", "/version").status == 200
    assert len(rig.watches) == 1
    eventually(lambda: len(rig.watches) == 2)
    assert "no data for 1 s" in rig.status.last_error
    assert rig.watches[1].query["resourceVersion"] == "5"
    assert len([request for request in rig.lists if request.path == PODS]) == 1
    rig.stop()


def resources(factory: InformerFactory) -> dict[str, str]:
    return {name: sample["resource"] for name, sample in samples(factory, "ctrlhost_informer_state").items()}


@pytest.mark.behaviour("operations/OP116")
def test_the_label_of_a_resource_is_its_plural_as_served_or_empty(sandbox) -> None:
    client = Client.load(sandbox.kubeconfig)
    body = crd("example.com", "ProviderHost")
    body["spec"]["names"]["plural"] = "providerhosti"
    body["metadata"]["name"] = "providerhosti.example.com"
    create_eventually(client, body)
    factory = InformerFactory(client, options=ReflectorOptions(backoff=QUICK))
    for api_version, kind in (
        ("networking.k8s.io/v1", "NetworkPolicy"),
        ("example.com/v1", "ProviderHost"),
        ("example.com/v1", "Stranger"),
    ):
        factory.informer(api_version, kind)
    assert resources(factory)["ProviderHost.example.com/v1"] == ""
    with factory:
        eventually(lambda: all(informer.has_synced for informer in factory.informers() if informer.kind != "Stranger"))
        names = resources(factory)
    assert names["NetworkPolicy.networking.k8s.io/v1"] == "networkpolicies"
    assert names["ProviderHost.example.com/v1"] == "providerhosti"
    # Nothing is made up for a kind that the server has never had.
    assert names["Stranger.example.com/v1"] == ""
    client.close()


def test_a_failing_list_shows_no_staleness(server: StubApiServer) -> None:
    serve(server, PODS, [Failure(500)], [Frames()])
    rig = Rig(server).start()
    eventually(lambda: rig.errors)
    assert samples(rig.factory, STALENESS) == {}
    rig.stop()
