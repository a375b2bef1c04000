from __future__ import annotations

import pytest

from ctrlhost.client import Client
from ctrlhost.informers import BackoffOptions, InformerFactory, ReflectorOptions
from tests.support.stub_api_server import Frames, Json, event, pod, pod_list
from tests.support.waiting import eventually

PODS = "/api/v1/pods"
FAST = ReflectorOptions(watch_list=False, backoff=BackoffOptions(base=0.001, cap=0.01))


@pytest.fixture
def factory(server):
    made = InformerFactory(Client(server.url), options=FAST)
    yield made
    made.stop()


def watch_and_list(server, lists, *watches, path: str = PODS):
    from tests.support.stub_api_server import Computed

    lists, watches = [lists] if not isinstance(lists, list) else lists, list(watches) or [Frames()]

    def answer(asked):
        of = watches if asked.query.get("watch") else lists
        return of.pop(0) if len(of) > 1 else of[0]

    server.on("GET", path, Computed(answer))


def test_an_informer_mirrors_the_server_and_notifies_a_handler(server, factory):
    frames = Frames()
    watch_and_list(server, Json(pod_list(5, pod("a", 1), pod("b", 2))), frames)
    pods = factory.informer("v1", "Pod")
    heard = []
    handle = pods.add_handler(
        lambda obj, initial: heard.append(("add", obj.name, initial)),
        lambda old, new: heard.append(("update", old.resource_version, new.resource_version)),
        lambda obj: heard.append(("delete", obj.name)),
    )
    factory.start()
    assert factory.wait_for_sync(10)
    eventually(lambda: handle.has_synced)
    frames.send_event(event("ADDED", pod("c", 6)))
    frames.send_event(event("MODIFIED", pod("a", 7)))
    frames.send_event(event("DELETED", pod("b", 8)))
    eventually(lambda: len(heard) == 5)
    assert sorted(heard[:2]) == [("add", "a", True), ("add", "b", True)]
    assert heard[2:] == [("add", "c", False), ("update", "1", "7"), ("delete", "b")]
    assert sorted(each.name for each in pods.lister.list("default")) == ["a", "c"]
    assert pods.last_resource_version == "8"
    assert pods.state == "watching"
