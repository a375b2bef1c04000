"""DaemonSets: a pod on each eligible node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox

from tests.support.http_client import STRATEGIC, Api
from tests.support.objects import apps, container, core, deployment
from tests.support.waiting import eventually
from tests.support.workload_clusters import pods

PATH = "/api/v1/nodes"


@pytest.fixture
def nodes(api: Api) -> Iterator[list[str]]:
    """Two more nodes, one of them cordoned; return the names of all three."""
    api.post(PATH, {"metadata": {"name": "two", "labels": {"disk": "fast"}}}).expect(201)
    api.post(PATH, {"metadata": {"name": "three"}, "spec": {"unschedulable": True}}).expect(201)
    yield ["sandbox-node", "three", "two"]
    for name in ("two", "three"):
        api.delete(f"{PATH}/{name}")


def daemon_set(**spec: Any) -> dict[str, Any]:
    body = deployment("d", **spec)
    body["kind"] = "DaemonSet"
    return body


def places(api: Api, ns: str) -> list[str]:
    return sorted(pod["spec"].get("nodeName", "") for pod in pods(api, ns))


def status(api: Api, ns: str) -> dict[str, Any]:
    state: dict[str, Any] = api.get(apps(ns, "daemonsets", "d")).json()["status"]
    return state


@pytest.mark.behaviour("sandbox/WL-14")
def test_each_node_has_one_pod(api: Api, ns: str, nodes: list[str]) -> None:
    obj = api.post(apps(ns, "daemonsets"), daemon_set()).expect(201)
    integers = {"currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"}
    assert obj["status"].keys() >= integers
    eventually(lambda: status(api, ns)["numberReady"] == 3)
    # As with a real DaemonSet, its pods also run on a cordoned node.
    assert places(api, ns) == nodes
    expected = {
        "currentNumberScheduled": 3,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 3,
        "numberReady": 3,
        "observedGeneration": 1,
        "updatedNumberScheduled": 3,
        "numberAvailable": 3,
    }
    eventually(lambda: status(api, ns) == expected)
    api.post(PATH, {"metadata": {"name": "four"}}).expect(201)
    eventually(lambda: "four" in places(api, ns))
    api.delete(f"{PATH}/four").expect(200)
    eventually(lambda: places(api, ns) == nodes)
    (gone,) = [pod for pod in pods(api, ns) if pod["spec"]["nodeName"] == "two"]
    api.delete(core(ns, "pods", gone["metadata"]["name"])).expect(200)
    eventually(lambda: places(api, ns) == nodes and status(api, ns)["numberReady"] == 3)


def test_a_node_selector_chooses_the_nodes(api: Api, ns: str, nodes: list[str]) -> None:
    body = daemon_set()
    body["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "fast"}
    api.post(apps(ns, "daemonsets"), body).expect(201)
    eventually(lambda: status(api, ns)["numberReady"] == 1)
    assert places(api, ns) == ["two"]
    api.patch(f"{PATH}/sandbox-node", {"metadata": {"labels": {"disk": "fast"}}}).expect(200)
    eventually(lambda: places(api, ns) == ["sandbox-node", "two"])
    api.patch(f"{PATH}/sandbox-node", {"metadata": {"labels": {"disk": None}}}).expect(200)
    eventually(lambda: places(api, ns) == ["two"])


def test_a_new_template_replaces_the_pods_one_by_one(api: Api, ns: str, nodes: list[str]) -> None:
    api.post(apps(ns, "daemonsets"), daemon_set()).expect(201)
    eventually(lambda: status(api, ns)["numberReady"] == 3)
    change = {"spec": {"template": {"spec": {"containers": [container("a", "nginx:2")]}}}}
    watch = api.watch(core(ns, "pods"), resourceVersion=api.revision(core(ns, "pods")))
    api.patch(apps(ns, "daemonsets", "d"), change, STRATEGIC).expect(200)
    eventually(lambda: status(api, ns).get("updatedNumberScheduled") == status(api, ns)["numberReady"] == 3)
    assert places(api, ns) == nodes
    assert {pod["spec"]["containers"][0]["image"] for pod in pods(api, ns)} == {"nginx:2"}
    there, fewest = 3, 3
    while (fewest >= 2 and there < 3) or fewest == 3:
        event = watch.next()
        there += {"ADDED": 1, "DELETED": -1}.get(event["type"], 0)
        fewest = min(fewest, there)
    assert fewest == 2
    assert len(api.get(apps(ns, "controllerrevisions")).json()["items"]) == 2


def test_on_delete_leaves_the_pods_alone(api: Api, ns: str, server: Sandbox) -> None:
    api.post(apps(ns, "daemonsets"), daemon_set(updateStrategy={"type": "OnDelete"})).expect(201)
    eventually(lambda: status(api, ns)["numberReady"] == 1)
    before = pods(api, ns)[0]["metadata"]["uid"]
    change = {"spec": {"template": {"spec": {"containers": [container("a", "nginx:2")]}}}}
    api.patch(apps(ns, "daemonsets", "d"), change, STRATEGIC).expect(200)
    eventually(lambda: status(api, ns)["observedGeneration"] == 2 and server.at_rest)
    assert [pod["metadata"]["uid"] for pod in pods(api, ns)] == [before]
