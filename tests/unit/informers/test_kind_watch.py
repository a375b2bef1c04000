from __future__ import annotations

import threading

import pytest

from tests.support.informer_rig import PODS
from tests.support.stub_api_server import (
    Computed,
    Failure,
    Frames,
    Hang,
    Json,
    pod_list,
    serve,
)
from tests.support.waiting import eventually


@pytest.mark.behaviour("informers/WT1")
@pytest.mark.behaviour("informers/WT2")
def test_waiting_for_sync_names_the_unsynced_informers(server, factory, caplog):
    assert factory.wait_for_sync(0)
    serve(server, PODS, [Json(pod_list(1))], [Frames()])
    server.on("GET", "/api/v1/nodes", Hang())
    server.on("GET", "/api/v1/secrets", Hang())
    for kind in ("Pod", "Secret", "Node"):
        factory.informer("v1", kind)
    assert factory.wait_for_sync(0)
    message = "not waiting for informers requested after start(): Node.v1, Pod.v1, Secret.v1"
    assert caplog.messages == [message]
    factory.start()
    assert not factory.wait_for_sync(0.2)
    assert caplog.messages[-1] == "timed out waiting for Node.v1 (listing), Secret.v1 (listing)"
    # The threads that list end.
    server.stopping.set()


@pytest.mark.behaviour("informers/WT1")
def test_waiting_for_sync_succeeds_with_the_last_informer_in_any_order(server, factory):
    gates = {kind: threading.Event() for kind in ("pods", "secrets", "nodes")}
    for kind, gate in gates.items():
        listed = {**pod_list(1), "kind": f"{kind[:-1].capitalize()}List"}
        held = Computed(lambda _, gate=gate, listed=listed: Json(listed) if gate.wait(30) else Failure(500))
        serve(server, f"/api/v1/{kind}", [held], [Frames()])
    informers = {kind: factory.informer("v1", kind[:-1].capitalize()) for kind in gates}
    factory.start()
    order: list[str] = []
    for kind in ("nodes", "secrets", "pods"):
        assert not factory.wait_for_sync(0)
        gates[kind].set()
        eventually(lambda kind=kind: informers[kind].has_synced)
        order.append(kind)
        assert {informer for informer in informers if informers[informer].has_synced} == set(order)
    assert factory.wait_for_sync(10)


@pytest.mark.behaviour("informers/WT1")
def test_waiting_for_sync_ends_when_the_factory_is_stopped(server, factory):
    server.on("GET", PODS, Hang())
    factory.informer("v1", "Pod")
    factory.start()
    results: list[bool] = []
    waiter = threading.Thread(target=lambda: results.append(factory.wait_for_sync()))
    waiter.start()
    factory.stop(0.1)
    waiter.join(10)
    assert results == [False]
    # The thread that lists ends.
    server.stopping.set()
