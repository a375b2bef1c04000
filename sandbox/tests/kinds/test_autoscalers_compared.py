"""Autoscalers in one version and read in the other, on the sandbox and on a real kube-apiserver."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from tests.support.http_client import Api

V1 = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
V2 = V1.replace("v1", "v2", 1)
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}
NAMED = {"metric": {"name": "m", "selector": {"matchLabels": {"a": "b"}}}}
METRICS: dict[str, list[dict[str, Any]]] = {
    "cpu": [CPU],
    "memory": [
        CPU,
        {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
    ],
    "container": [
        {
            "type": "ContainerResource",
            "containerResource": {
                "name": "cpu",
                "container": "c",
                "target": {"type": "Utilization", "averageUtilization": 60},
            },
        }
    ],
    "pods": [{"type": "Pods", "pods": {**NAMED, "target": {"type": "AverageValue", "averageValue": "5"}}}],
    "object": [
        {"type": "Object", "object": {**NAMED, "describedObject": TARGET, "target": {"type": "Value", "value": "5"}}}
    ],
    "external": [{"type": "External", "external": {**NAMED, "target": {"type": "AverageValue", "averageValue": "5"}}}],
}
BEHAVIOR = {
    "scaleDown": {"stabilizationWindowSeconds": 5, "policies": [{"type": "Pods", "value": 1, "periodSeconds": 9}]}
}
_serial = itertools.count(1)


def told(obj: dict[str, Any]) -> tuple[Any, Any]:
    """Return the spec, and the annotations with their JSON decoded."""
    annotations = obj["metadata"].get("annotations") or {}
    return obj["spec"], {name: json.loads(text) for name, text in annotations.items()}


@pytest.mark.behaviour("findings/FS1")
@pytest.mark.behaviour("findings/FS1c")
@pytest.mark.parametrize("metrics", METRICS)
@pytest.mark.parametrize("behavior", [{}, {"behavior": BEHAVIOR}], ids=["plain", "behavior"])
def test_version_1_shows_what_version_2_stores(both: tuple[Api, Api], metrics: str, behavior: dict[str, Any]) -> None:
    name = f"scaled-{next(_serial)}"
    spec = {"maxReplicas": 3, "scaleTargetRef": TARGET, "metrics": METRICS[metrics], **behavior}
    seen = []
    for api in both:
        api.post(V2, {"metadata": {"name": name}, "spec": spec}).expect(201)
        try:
            first = api.get(f"{V1}/{name}").expect(200)
            # The annotations of version 1 carry everything back.
            first["spec"]["maxReplicas"] = 4
            api.put(f"{V1}/{name}", first).expect(200)
            seen.append((told(first), told(api.get(f"{V2}/{name}").expect(200))))
        finally:
            api.delete(f"{V1}/{name}")
    assert seen[0] == seen[1]
    assert seen[0][1][0]["metrics"] != []


@pytest.mark.behaviour("findings/FS1")
@pytest.mark.behaviour("findings/FS1c")
def test_version_2_shows_what_version_1_says(both: tuple[Api, Api]) -> None:
    name = f"scaled-{next(_serial)}"
    seen = []
    for api in both:
        spec = {"maxReplicas": 3, "scaleTargetRef": TARGET, "targetCPUUtilizationPercentage": 70}
        api.post(V1, {"metadata": {"name": name}, "spec": spec}).expect(201)
        try:
            seen.append([told(api.get(f"{path}/{name}").expect(200)) for path in (V1, V2)])
        finally:
            api.delete(f"{V2}/{name}")
    assert seen[0] == seen[1]
    assert seen[0][1][0]["metrics"][0]["resource"]["target"]["averageUtilization"] == 70
