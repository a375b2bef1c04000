"""Invalid pods, to the sandbox and to a real kube-apiserver: the causes are equal."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.compared import Compare
from tests.support.objects import container

PODS = "/api/v1/namespaces/default/pods"
VOLUME = {"name": "v", "emptyDir": {}}
EXEC = {"exec": {"command": ["a"]}}


def one_container(**fields: Any) -> dict[str, Any]:
    """Return the spec of a pod with one container."""
    return {"containers": [container(**fields)], "volumes": [VOLUME]}


def mounts(*entries: dict[str, Any]) -> dict[str, Any]:
    return one_container(volumeMounts=list(entries))


def env(**fields: Any) -> dict[str, Any]:
    return one_container(env=[{"name": "A", **fields}])


def source(**sources: Any) -> dict[str, Any]:
    return env(valueFrom=sources)


def field(path: str, **more: Any) -> dict[str, Any]:
    return source(fieldRef={"fieldPath": path, **more})


def volume(**sources: Any) -> dict[str, Any]:
    return {**one_container(), "volumes": [{"name": "v", **sources}]}


def ports(*entries: dict[str, Any]) -> dict[str, Any]:
    return one_container(ports=[{"containerPort": 80, **port} for port in entries])


def resources(requests: dict[str, str] | None = None, **limits: str) -> dict[str, Any]:
    named = {key.replace("_", "/"): value for key, value in limits.items()}
    return one_container(resources={"requests": requests or {}, "limits": named})


def toleration(**fields: Any) -> dict[str, Any]:
    return {**one_container(), "tolerations": [fields]}


def pod(**fields: Any) -> dict[str, Any]:
    return {**one_container(), **fields}


CASES: dict[str, tuple[dict[str, Any], str]] = {
    "mount without path": (mounts({"name": "v"}), "containers[0].volumeMounts[0].mountPath"),
    "mount without name": (mounts({"mountPath": "/a"}), "containers[0].volumeMounts[0].name"),
    "one path twice": (mounts(*[{"name": "v", "mountPath": "/a"}] * 2), "containers[0].volumeMounts[1].mountPath"),
    "value and source": (
        env(value="x", valueFrom={"fieldRef": {"fieldPath": "metadata.name"}}),
        "containers[0].env[0].valueFrom",
    ),
    "no source": (source(), "containers[0].env[0].valueFrom"),
    "two sources": (
        source(fieldRef={"fieldPath": "metadata.name"}, configMapKeyRef={"name": "a", "key": "k"}),
        "containers[0].env[0].valueFrom",
    ),
    "unknown field": (field("spec.nope"), "containers[0].env[0].valueFrom.fieldRef.fieldPath"),
    "unsupported field": (field("metadata.labels"), "containers[0].env[0].valueFrom.fieldRef.fieldPath"),
    "no field": (field(""), "containers[0].env[0].valueFrom.fieldRef.fieldPath"),
    "subscript": (field("metadata.name['x']"), "containers[0].env[0].valueFrom.fieldRef.fieldPath"),
    "bad subscript": (field("metadata.labels['a b']"), "containers[0].env[0].valueFrom.fieldRef"),
    "field's version": (
        field("metadata.name", apiVersion="v9"),
        "containers[0].env[0].valueFrom.fieldRef.fieldPath",
    ),
    "unknown resource": (
        source(resourceFieldRef={"resource": "limits.nope"}),
        "containers[0].env[0].valueFrom.resourceFieldRef.resource",
    ),
    "key": (source(configMapKeyRef={"name": "a", "key": "a b"}), "containers[0].env[0].valueFrom.configMapKeyRef.key"),
    "no key": (source(secretKeyRef={}), "containers[0].env[0].valueFrom.secretKeyRef.key"),
    "variable": (one_container(env=[{"name": "A=B"}]), "containers[0].env[0].name"),
    "variables from nothing": (one_container(envFrom=[{}]), "containers[0].envFrom"),
    "two volume sources": (volume(emptyDir={}, hostPath={"path": "/a"}), "volumes[0].hostPath"),
    "three volume sources": (
        volume(secret={"secretName": "a"}, configMap={"name": "c"}, hostPath={"path": "/a"}),
        "volumes[0].configMap",
    ),
    "volume of no Secret": (volume(secret={}), "volumes[0].secret.secretName"),
    "volume of no ConfigMap": (volume(configMap={}), "volumes[0].configMap.name"),
    "volume of no claim": (volume(persistentVolumeClaim={}), "volumes[0].persistentVolumeClaim.claimName"),
    "host path": (volume(hostPath={"path": "/a/../b", "type": "X"}), "volumes[0].hostPath.type"),
    "volume's field": (
        volume(downwardAPI={"items": [{"path": "a", "fieldRef": {"fieldPath": "spec.nodeName"}}]}),
        "volumes[0].downwardAPI.fieldRef.fieldPath",
    ),
    "volume of nothing": (volume(downwardAPI={"items": [{"path": "a"}]}), "volumes[0].downwardAPI"),
    "projection": (
        volume(projected={"sources": [{"secret": {"name": "a"}, "configMap": {"name": "a"}}]}),
        "volumes[0].projected.sources[0]",
    ),
    **{
        f"{kind} without handler": (one_container(**{kind: {}}), f"containers[0].{kind}")
        for kind in ("livenessProbe", "readinessProbe", "startupProbe")
    },
    "two handlers": (
        one_container(livenessProbe={**EXEC, "tcpSocket": {"port": 1}}),
        "containers[0].livenessProbe.tcpSocket",
    ),
    "no command": (one_container(livenessProbe={"exec": {}}), "containers[0].livenessProbe.exec.command"),
    "probe's port": (
        one_container(readinessProbe={"httpGet": {"port": "A_"}}),
        "containers[0].readinessProbe.httpGet.port",
    ),
    "probe's scheme": (
        one_container(readinessProbe={"httpGet": {"port": 1, "scheme": "FTP"}}),
        "containers[0].readinessProbe.httpGet.scheme",
    ),
    "successes": (
        one_container(livenessProbe={**EXEC, "successThreshold": 2}),
        "containers[0].livenessProbe.successThreshold",
    ),
    "period": (
        one_container(readinessProbe={**EXEC, "periodSeconds": -1}),
        "containers[0].readinessProbe.periodSeconds",
    ),
    "hook": (one_container(lifecycle={"preStop": {}}), "containers[0].lifecycle.preStop"),
    "long port name": (ports({"name": "a" * 16}), "containers[0].ports[0].name"),
    "upper port name": (ports({"name": "HTTP"}), "containers[0].ports[0].name"),
    "port name of digits": (ports({"name": "80"}), "containers[0].ports[0].name"),
    "port name with hyphens": (ports({"name": "-a--b"}), "containers[0].ports[0].name"),
    "port name twice": (ports({"name": "a"}, {"name": "a"}), "containers[0].ports[1].name"),
    "host port": (ports({"hostPort": 70000}), "containers[0].ports[0].hostPort"),
    "other host port": ({**ports({"hostPort": 81}), "hostNetwork": True}, "containers[0].ports[0].hostPort"),
    "cpu above limit": (resources({"cpu": "2"}, cpu="1"), "containers[0].resources.requests"),
    "memory above limit": (resources({"memory": "2Gi"}, memory="1500M"), "containers[0].resources.requests"),
    "equal in another unit": (resources({"cpu": "1000m"}, cpu="1"), ""),
    "extended resource": (resources({"a.b/c": "1"}, **{"a.b_c": "2"}), "containers[0].resources.requests"),
    "extended without limit": (resources({"a.b/c": "1"}), "containers[0].resources.limits"),
    "fraction of a device": (resources(**{"a.b_c": "1500m"}), "containers[0].resources.limits[a.b/c]"),
    "resource's name": (resources({"foo": "1"}), "containers[0].resources.requests[foo]"),
    "negative": (resources({"cpu": "-1"}), "containers[0].resources.requests[cpu]"),
    "huge pages alone": (resources(**{"hugepages-2Mi": "2Mi"}), "containers[0].resources"),
    "dnsPolicy": (pod(dnsPolicy="Nope"), "dnsPolicy"),
    "no dnsConfig": (pod(dnsPolicy="None"), "dnsConfig"),
    "effect": (toleration(key="a", operator="Exists", effect="Nope"), "tolerations[0].effect"),
    "every key": (toleration(operator="Equal", effect="NoSchedule"), "tolerations[0].operator"),
    "value of a key that exists": (toleration(key="a", operator="Exists", value="b"), "tolerations[0].operator"),
    "operator": (toleration(key="a", operator="Foo"), "tolerations[0].operator"),
    "seconds": (toleration(key="a", effect="NoSchedule", tolerationSeconds=3), "tolerations[0].effect"),
    "toleration's key": (toleration(key="a b", operator="Exists"), "tolerations[0].key"),
    "toleration's value": (toleration(key="a", value="a b"), "tolerations[0].operator"),
    **{
        f"nodeSelector {key!r}": (pod(nodeSelector={key: "c"}), "nodeSelector")
        for key in ("a b", "a/b/c", "", "_/a", "/a", "a/", "x" * 64)
    },
    "nodeSelector's value": (pod(nodeSelector={"a": "c d"}), "nodeSelector"),
    "deadline": (pod(activeDeadlineSeconds=0), "activeDeadlineSeconds"),
    "node": (pod(nodeName="A b"), "nodeName"),
    "account": (pod(serviceAccountName="A b"), "serviceAccountName"),
    "all at once": (
        {
            "containers": [{"name": "c", "imagePullPolicy": "X", "ports": [{}], "env": [{}], "volumeMounts": [{}]}],
            "volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/a"}}],
            **dict.fromkeys(("dnsPolicy", "restartPolicy"), "X"),
            "tolerations": [{"effect": "X"}],
        },
        "dnsPolicy",
    ),
}


@pytest.mark.behaviour("findings/FS8")
@pytest.mark.parametrize("case", CASES)
def test_invalid_pods_have_the_real_causes(compare_answers: Compare, case: str) -> None:
    spec, where = CASES[case]
    code, causes, _ = compare_answers(PODS, {"metadata": {"name": "p"}, "spec": spec})
    if where:
        assert (code, f"spec.{where}" in {field for _, field, _ in causes}) == (422, True)
    else:
        assert code == 201
