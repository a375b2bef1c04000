"""Compressed caches of informers that a server feeds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from urllib3.exceptions import HTTPError

from ctrlhost import CtrlhostError
from ctrlhost.client import Client
from ctrlhost.informers import Compressions, InformerFactory, ReflectorOptions
from tests.support.feeds import FeedRig
from tests.support.informer_rig import PODS, QUICK, synced
from tests.support.stub_api_server import Frames, Json, StubApiServer, event, pod_list, serve
from tests.support.waiting import eventually
from tests.unit.compressed import compressed, key_of, varied_pod

behaviour = pytest.mark.behaviour
OPTIONS = ReflectorOptions(watch_list=False, backoff=QUICK)


def engine_of(factory: InformerFactory, kind: str = "Pod") -> Any:
    (informer,) = (informer for informer in factory.informers() if informer.kind == kind)
    (part,) = informer.parts
    return part.engine


def metrics(factory: InformerFactory) -> dict[str, float]:
    return {sample.name: sample.value for family in factory.metrics.collect() for sample in family.samples}


@pytest.fixture
def frames() -> Frames:
    return Frames()


@pytest.fixture
def pods(server: StubApiServer, frames: Frames) -> list[dict[str, Any]]:
    """Pods of a server, two watches, and a second list that equals the first one."""
    pods = [varied_pod(number, env=100) for number in range(1_100)]
    listed = Json(pod_list(2_000, *pods))
    serve(server, PODS, [listed, listed], [frames, Frames()])
    return pods


@pytest.fixture
def factory(server: StubApiServer, pods: list[dict[str, Any]]) -> Iterator[InformerFactory]:
    factory = InformerFactory(Client(server.url), options=OPTIONS)
    factory.informer("v1", "Pod")
    with factory:
        synced(factory)
        compressed(engine_of(factory), 1_100)
        yield factory


def test_informers_compress_by_the_setting_of_their_kind(server, pods):
    settings = Compressions("off", {"v1/pod": "on"})
    assert [settings.of("v1", kind) for kind in ("Pod", "Node")] == ["on", "off"]
    assert [Compressions().of("v1", "Pod"), Compressions("on").of("v1", "Pod")] == ["auto", "on"]
    with InformerFactory(Client(server.url), options=replace(OPTIONS, compressions=Compressions("off"))) as plain:
        plain.informer("v1", "Pod")
        synced(plain)
        assert metrics(plain)["ctrlhost_informer_compressed_objects"] == 0


@behaviour("scale/SC99")
def test_a_damaged_object_is_listed_again_and_counted(factory, pods, frames, caplog):
    informer, engine = factory.informer("v1", "Pod"), engine_of(factory)
    pod = pods[3]
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    before = metrics(factory)
    assert before["ctrlhost_informer_compressed_objects"] == 1_100
    assert before["ctrlhost_informer_dictionaries_learnt_total"] == 1
    assert before["ctrlhost_informer_damaged_objects_total"] == 0
    assert before["ctrlhost_informer_plain_bytes"] > 4 * before["ctrlhost_informer_bytes"]
    assert engine.falsify(key_of(pod), 99)
    with pytest.raises(CtrlhostError, match=f"the cached state of Pod {namespace}/{name} is damaged"):
        informer.lister.get(name, namespace).to_dict()
    assert metrics(factory)["ctrlhost_informer_damaged_objects_total"] == 1
    frames.send_event(event("MODIFIED", varied_pod(1, 3_000, env=100)))
    eventually(lambda: metrics(factory)["ctrlhost_informer_lists_total"] == 2)
    read = metrics(factory)["ctrlhost_informer_decompressions_total"]
    assert informer.lister.get(name, namespace).to_dict() == {"kind": "Pod", "apiVersion": "v1", **pod}
    assert metrics(factory)["ctrlhost_informer_decompressions_total"] == read + 1
    assert "1 cached objects are damaged; listing pods again" in caplog.text


def test_the_feed_of_isolated_plugins_sends_compressed_objects(server, pods, frames):
    rig = FeedRig(Client(server.url))
    try:
        api = rig.serving()
        whole = {"kind": "Pod", "apiVersion": "v1"}
        wanted = {key_of(pod): {**whole, **pod} for pod in pods}
        api.listed(PODS)
        engine = compressed(rig.engine(), 1_100)
        listing = api.listed(PODS)
        assert {key_of(item): item for item in listing["items"]} == wanted
        # A list that lacks an object would be wrong, so it is cut.
        assert engine.falsify(key_of(pods[5]), 99)
        with pytest.raises(HTTPError):
            api.get(PODS)
        frames.send_event(event("MODIFIED", varied_pod(1, 3_000, env=100)))
        eventually(lambda: engine.stats()["relists"] == 2)
        assert len(api.get(PODS).json()["items"]) == 1_100
    finally:
        rig.stop()
