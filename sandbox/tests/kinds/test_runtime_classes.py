"""Pods of a runtime class, on the sandbox and on a real kube-apiserver."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.support.http_client import Api
from tests.support.objects import core, pod

pytestmark = pytest.mark.behaviour("findings/FS28")
CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
_serial = itertools.count(1)


@pytest.fixture
def pods(each_api: Api, namespace: str) -> str:
    """The path of the pods of a namespace."""
    return core(namespace, "pods")


def runtime_class(api: Api, **more: Any) -> str:
    name = f"class-{next(_serial)}"
    api.post(CLASSES, {"metadata": {"name": name}, "handler": "runs-nothing", **more}).expect(201)
    return name


def test_a_pod_needs_an_existing_class(each_api: Api, pods: str) -> None:
    refused = each_api.post(pods, pod(runtimeClassName="nonesuch")).fails(403, "Forbidden")
    assert refused["message"] == 'pods "p" is forbidden: pod rejected: RuntimeClass "nonesuch" not found'
    name = runtime_class(each_api)
    each_api.delete(f"{CLASSES}/{name}").expect(200)
    each_api.post(pods, pod(runtimeClassName=name)).fails(403, "Forbidden")


def test_a_pod_gets_the_overhead_and_the_placement_of_its_class(each_api: Api, pods: str) -> None:
    toleration = {"key": "k", "operator": "Exists", "effect": "NoSchedule"}
    overhead = {"podFixed": {"cpu": "10m", "memory": "1Mi"}}
    scheduling = {"nodeSelector": {"zone": "a"}, "tolerations": [toleration]}
    name = runtime_class(each_api, overhead=overhead, scheduling=scheduling)
    spec = each_api.post(pods, pod(runtimeClassName=name, nodeSelector={"disk": "b"})).expect(201)["spec"]
    assert spec["overhead"] == overhead["podFixed"]
    assert spec["nodeSelector"] == {"disk": "b", "zone": "a"}
    assert toleration in spec["tolerations"]
    plain = each_api.post(pods, {**pod(runtimeClassName=runtime_class(each_api)), "metadata": {"name": "q"}}).expect(
        201
    )
    assert "overhead" not in plain["spec"]


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"overhead": {"cpu": "20m"}}, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"),
        ({"nodeSelector": {"zone": "b"}}, "conflict: runtimeClass.scheduling.nodeSelector[zone] = a; "),
    ],
)
def test_a_pod_that_differs_from_its_class_is_refused(each_api: Api, pods: str, spec: dict[str, Any], why: str) -> None:
    scheduling = {"nodeSelector": {"zone": "a"}}
    name = runtime_class(each_api, overhead={"podFixed": {"cpu": "10m"}}, scheduling=scheduling)
    refused = each_api.post(pods, pod(runtimeClassName=name, **spec)).fails(403, "Forbidden")
    assert why in refused["message"]


def test_an_overhead_needs_a_class_that_defines_one(each_api: Api, pods: str) -> None:
    for more in ({}, {"runtimeClassName": runtime_class(each_api)}):
        refused = each_api.post(pods, pod(overhead={"cpu": "20m"}, **more)).fails(403, "Forbidden")
        assert "Pod Overhead set without corresponding RuntimeClass defined Overhead" in refused["message"]
