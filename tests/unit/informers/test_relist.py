"""What a reader sees while lists replace the cache."""

from __future__ import annotations

import json
import threading

import pytest

from ctrlhost.client import Client
from ctrlhost.informers import InformerFactory, ReflectorOptions
from tests.support.informer_rig import in_namespace
from tests.support.stub_api_server import Frames, Json, pod_list, serve

SIZE = 5_000


@pytest.mark.behaviour("findings/FQ21")
def test_each_namespace_changes_as_a_whole(server):
    """The namespaces change one after the other: that is the bound of what a reader may see of a list."""
    factory = InformerFactory(Client(server.url), options=ReflectorOptions(watch_list=False))
    pods = factory.informer("v1", "Pod", namespaces=["x", "y"])
    for name in "xy":
        serve(server, f"/api/v1/namespaces/{name}/pods", [Json(pod_list(2))], [Frames()])
    pages = {
        name: [
            json.dumps(pod_list(2, *(in_namespace(name, f"p{at}", 1) for at in range(0, SIZE, step)))).encode()
            for step in (1, 2)
        ]
        for name in "xy"
    }
    whole, seen, ending = {0, SIZE, SIZE // 2}, set(), threading.Event()

    def read():
        while not ending.is_set():
            listed = pods.lister.list()
            counts = tuple(sum(pod.namespace == name for pod in listed) for name in "xy")
            assert set(counts) <= whole, f"part of a list: {counts}"
            assert len(pods.lister.list("x")) in whole
            assert len(pods.indexer) in {pod + other for pod in whole for other in whole}
            seen.add(counts)

    failures = []

    def reading():
        try:
            read()
        except AssertionError as failure:
            failures.append(failure)

    with factory:
        assert factory.wait_for_sync(20)
        reader = threading.Thread(target=reading)
        reader.start()
        turn = 0
        while not failures and (turn < 20 or len(seen) < 4):
            turn += 1
            for part in pods.parts:
                part.engine.begin_list()
                part.engine.feed_list(pages[part.namespace][turn % 2])
                part.engine.replace(part.engine.end_page().resource_version)
                part.engine.process()
        ending.set()
        reader.join(20)
    assert not failures
