"""Quotas and limit ranges in force, on the sandbox and on a real kube-apiserver."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.admission_rig import Servers, config_map, without_server_fields
from tests.support.objects import container
from tests.support.waiting import eventually

CPU = {"requests": {"cpu": "300m"}, "limits": {"cpu": "500m", "memory": "1Gi"}}


def pod(name: str = "p", *, resources: Any = None, init: Any = None, **spec: Any) -> dict[str, Any]:
    pod_spec: dict[str, Any] = {
        "containers": [container(resources=resources or {})],
        "serviceAccountName": "default",
        **spec,
    }
    if init is not None:
        pod_spec["initContainers"] = [container("init", resources=init)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": pod_spec}


def service(kind: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "s"}, "spec": {"type": kind, "ports": [{"port": 80}], **spec}}


def claim(storage: str = "2Gi", name: str = "p", **spec: Any) -> dict[str, Any]:
    resources = {"requests": {"storage": storage}}
    return {"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources, **spec}}


def affine(namespaces: Any) -> dict[str, Any]:
    term = {"labelSelector": {}, "topologyKey": "a", **namespaces}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def scoped(name: str, operator: str = "Exists", *values: str) -> dict[str, Any]:
    requirement = {"scopeName": name, "operator": operator, **({"values": [*values]} if values else {})}
    return {"scopeSelector": {"matchExpressions": [requirement]}}


#: A quota, objects that there are, a resource, an object to create, and the code of the answer.
QUOTAS: dict[str, tuple[dict[str, Any], list[dict[str, Any]], str, dict[str, Any], int]] = {
    "room": ({"hard": {"pods": "2"}}, [pod("q")], "pods", pod(), 201),
    "full": ({"hard": {"pods": "1"}}, [pod("q")], "pods", pod(), 403),
    "counts": ({"hard": {"count/pods": "1"}}, [pod("q")], "pods", pod(), 403),
    "unstated": ({"hard": {"requests.cpu": "1", "limits.memory": "1Gi"}}, [], "pods", pod(), 403),
    "unstated init": ({"hard": {"cpu": "1"}}, [], "pods", pod(resources=CPU, init={}), 403),
    "cpu": ({"hard": {"requests.cpu": "500m"}}, [pod("q", resources=CPU)], "pods", pod(resources=CPU), 403),
    "cpu that fits": ({"hard": {"requests.cpu": "600m"}}, [pod("q", resources=CPU)], "pods", pod(resources=CPU), 201),
    "several": (
        {"hard": {"limits.cpu": "0.7", "limits.memory": "1536Mi", "pods": "5"}},
        [pod("q", resources=CPU)],
        "pods",
        pod(resources=CPU),
        403,
    ),
    "init container": (
        {"hard": {"requests.cpu": "1"}},
        [],
        "pods",
        pod(resources=CPU, init={"requests": {"cpu": "2"}}),
        403,
    ),
    "best effort": ({"hard": {"pods": "0"}, "scopes": ["BestEffort"]}, [], "pods", pod(), 403),
    "not best effort": ({"hard": {"pods": "0"}, "scopes": ["NotBestEffort"]}, [], "pods", pod(), 201),
    "terminating": ({"hard": {"pods": "0"}, "scopes": ["Terminating"]}, [], "pods", pod(activeDeadlineSeconds=5), 403),
    "not terminating": ({"hard": {"pods": "0"}, "scopes": ["Terminating"]}, [], "pods", pod(), 201),
    "without a class": ({"hard": {"pods": "0"}, **scoped("PriorityClass")}, [], "pods", pod(), 201),
    "no class": ({"hard": {"pods": "0"}, **scoped("PriorityClass", "NotIn", "high")}, [], "pods", pod(), 403),
    "other namespaces": (
        {"hard": {"pods": "0"}, **scoped("CrossNamespacePodAffinity")},
        [],
        "pods",
        pod(**affine({"namespaces": ["x"]})),
        403,
    ),
    "own namespace": (
        {"hard": {"pods": "0"}, **scoped("CrossNamespacePodAffinity")},
        [],
        "pods",
        pod(**affine({})),
        201,
    ),
    "config maps": ({"hard": {"configmaps": "0"}}, [], "configmaps", config_map(), 403),
    "counted config maps": ({"hard": {"count/configmaps": "0"}}, [], "configmaps", config_map(), 403),
    "secrets": ({"hard": {"secrets": "0"}}, [], "secrets", {"metadata": {"name": "s"}}, 403),
    "something else": ({"hard": {"secrets": "0"}}, [], "configmaps", config_map(), 201),
    "services": ({"hard": {"services": "0"}}, [], "services", service("ClusterIP"), 403),
    "node ports": (
        {"hard": {"services.nodeports": "1"}},
        [],
        "services",
        service("NodePort", ports=[{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]),
        403,
    ),
    "load balancers": (
        {"hard": {"services.loadbalancers": "0", "services.nodeports": "5"}},
        [],
        "services",
        service("LoadBalancer"),
        403,
    ),
    "no node ports": ({"hard": {"services.nodeports": "0"}}, [], "services", service("ClusterIP"), 201),
    "claims": ({"hard": {"persistentvolumeclaims": "0"}}, [], "persistentvolumeclaims", claim(), 403),
    "storage": ({"hard": {"requests.storage": "3Gi"}}, [claim("1536Mi", "q")], "persistentvolumeclaims", claim(), 403),
    "storage of a class": (
        {"hard": {"gold.storageclass.storage.k8s.io/requests.storage": "1Gi"}},
        [],
        "persistentvolumeclaims",
        claim(storageClassName="gold"),
        403,
    ),
    "quotas": ({"hard": {"resourcequotas": "1"}}, [], "resourcequotas", {"metadata": {"name": "x"}}, 403),
}
#: A limit, a resource, an object, and the code of the answer.
LIMITS: dict[str, tuple[dict[str, Any], str, dict[str, Any], int]] = {
    "defaults": ({"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "500m"}}, "pods", pod(), 201),
    "defaults of init containers": (
        {"type": "Container", "default": {"cpu": "1", "memory": "1Gi"}, "defaultRequest": {"cpu": "500m"}},
        "pods",
        pod(init={}, resources={"limits": {"cpu": "2"}}),
        201,
    ),
    "bounds as defaults": ({"type": "Container", "min": {"cpu": "100m"}, "max": {"cpu": "2"}}, "pods", pod(), 201),
    "minimum as default": ({"type": "Container", "min": {"cpu": "100m"}}, "pods", pod(), 201),
    "below": ({"type": "Container", "min": {"cpu": "1"}}, "pods", pod(resources=CPU), 403),
    "above": ({"type": "Container", "max": {"cpu": "100m"}}, "pods", pod(resources=CPU), 403),
    "memory above": ({"type": "Container", "max": {"memory": "512Mi"}}, "pods", pod(resources=CPU), 403),
    "ratio": ({"type": "Container", "maxLimitRequestRatio": {"cpu": "1500m"}}, "pods", pod(resources=CPU), 403),
    "no ratio": ({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}, "pods", pod(), 403),
    "pod below": ({"type": "Pod", "min": {"memory": "2Gi"}}, "pods", pod(resources=CPU), 403),
    "pod above": ({"type": "Pod", "max": {"cpu": "400m"}}, "pods", pod(resources=CPU), 403),
    "pod unlimited": ({"type": "Pod", "max": {"cpu": "400m"}}, "pods", pod(), 403),
    "pod ratio": ({"type": "Pod", "maxLimitRequestRatio": {"cpu": "1"}}, "pods", pod(resources=CPU), 403),
    "init above": ({"type": "Container", "max": {"cpu": "1"}}, "pods", pod(init={"limits": {"cpu": "2"}}), 403),
    "claim": ({"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}}, "persistentvolumeclaims", claim(), 201),
    "small claim": (
        {"type": "PersistentVolumeClaim", "min": {"storage": "3Gi"}},
        "persistentvolumeclaims",
        claim(),
        403,
    ),
    "large claim": (
        {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}},
        "persistentvolumeclaims",
        claim(),
        403,
    ),
}


@pytest.mark.behaviour("findings/FS30")
@pytest.mark.parametrize("case", QUOTAS)
def test_a_quota_refuses_the_same_objects_in_the_same_words(servers: Servers, case: str) -> None:
    spec, present, resource, body, code = QUOTAS[case]
    path = servers.path("resourcequotas", "quota")
    for obj in present:
        servers.both("POST", servers.path(resource), obj)
    servers.both("POST", servers.path("resourcequotas"), {"metadata": {"name": "quota"}, "spec": spec})
    try:
        # The real server of the tests has no controller of quotas: it takes the count of the sandbox.
        status = eventually(
            lambda: servers.ours.get(path).json()["status"].get("used") and servers.ours.get(path).json()["status"]
        )
        their = servers.theirs.get(path).json()
        servers.theirs.put(f"{path}/status", {**their, "status": status}).expect(200)
        assert servers.compare("POST", servers.path(resource), body)[0] == code
    finally:
        servers.both("DELETE", path)
        for obj in present:
            name = obj["metadata"]["name"]
            servers.both("DELETE", servers.path(resource, name), gracePeriodSeconds=0)


@pytest.mark.behaviour("findings/FS30")
@pytest.mark.parametrize("case", LIMITS)
def test_a_limit_range_makes_and_refuses_the_same_objects(servers: Servers, case: str) -> None:
    limit, resource, body, code = LIMITS[case]
    path, objects = servers.path("limitranges", "limits"), servers.path(resource)
    answer = servers.both(
        "POST", servers.path("limitranges"), {"metadata": {"name": "limits"}, "spec": {"limits": [limit]}}
    )
    try:
        assert answer.json()["spec"] == servers.theirs.get(path).json()["spec"]
        if code == 201:
            servers.compare_objects(objects, body)
        else:
            assert servers.compare("POST", objects, body)[0] == code
    finally:
        servers.both("DELETE", path)


def test_objects_without_limits_are_equal(servers: Servers) -> None:
    for resource, body in (("pods", pod(resources=CPU)), ("persistentvolumeclaims", claim())):
        ours, theirs = (
            server.post(servers.path(resource), body, dryRun="All").expect(201)
            for server in (servers.ours, servers.theirs)
        )
        assert without_server_fields(ours) == without_server_fields(theirs)


@pytest.mark.behaviour("findings/FS30")
@pytest.mark.parametrize("amount", ["1e30", "1e99", None, "NaN", "-1e30"])
def test_extreme_amounts_get_the_same_answers(servers: Servers, amount: str | None) -> None:
    resources = {"requests": {"memory": amount}, "limits": {"memory": amount}}
    quota = {"metadata": {"name": "extreme"}, "spec": {"hard": {"pods": amount, "requests.cpu": amount}}}
    for resource, body in (("pods", pod(resources=resources)), ("resourcequotas", quota)):
        ours, theirs = (
            server.post(servers.path(resource), body, dryRun="All") for server in (servers.ours, servers.theirs)
        )
        assert ours.status == theirs.status
        if ours.status == 201:
            assert ours.json()["spec"] == theirs.json()["spec"]
