"""The simplest object of each built-in kind that a real server accepts and its controllers do not change."""

from __future__ import annotations

from typing import Any

from tests.support.minimal_objects import minimal_objects, name_for
from tests.support.objects import container, template

Object = dict[str, Any]
RBAC = "rbac.authorization.k8s.io"


def body_of(group: str, kind: str, name: str, namespace: str, number: int = 0) -> Object:
    """Return the object without apiVersion and kind, which the typed client takes from the URL."""
    subject = {"kind": "ServiceAccount", "name": "robot", "namespace": namespace}
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "namespace": namespace}
    selector = {"matchLabels": {"app": "x"}}
    pods = {"selector": selector, "template": template()}
    backend = {"service": {"name": "s", "port": {"number": 80}}}
    binding = {"subjects": [subject], "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "none"}}
    time = "2026-01-01T00:00:00.123456Z"
    rest: dict[tuple[str, str], Object] = {
        ("", "Namespace"): {},
        ("", "Node"): {"spec": {"unschedulable": True}},
        ("", "Pod"): {"spec": {"containers": [container()], "schedulerName": "nobody"}},
        ("", "Service"): {"spec": {"ports": [{"port": 80}], "clusterIP": "None", "selector": {"app": "none"}}},
        ("", "Secret"): {"stringData": {"k": "v"}},
        ("", "ConfigMap"): {"data": {"k": "v"}},
        ("", "Endpoints"): {"subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}]},
        ("", "Event"): {"involvedObject": reference, "reason": "Tested", "message": "m", "type": "Normal"},
        ("", "ServiceAccount"): {},
        ("apps", "ControllerRevision"): {"revision": 1, "data": {"spec": {"a": 1}}},
        ("apps", "DaemonSet"): {"spec": {"selector": selector, "template": _nowhere()}},
        ("apps", "Deployment"): {"spec": {**pods, "replicas": 0, "paused": True}},
        ("apps", "ReplicaSet"): {"spec": {**pods, "replicas": 0}},
        ("apps", "StatefulSet"): {"spec": {**pods, "replicas": 0, "serviceName": "s"}},
        ("networking.k8s.io", "Ingress"): {"spec": {"defaultBackend": backend}},
        ("networking.k8s.io", "IngressClass"): {"spec": {"controller": "example.org/none"}},
        ("coordination.k8s.io", "Lease"): {"spec": {"holderIdentity": "me", "renewTime": time}},
        ("discovery.k8s.io", "EndpointSlice"): {"addressType": "IPv4", "endpoints": [{"addresses": ["192.0.2.1"]}]},
        ("events.k8s.io", "Event"): {
            "eventTime": time,
            "regarding": reference,
            "reason": "Tested",
            "action": "Test",
            "type": "Normal",
            "reportingController": "example.org/test",
            "reportingInstance": "one",
        },
        (RBAC, "ClusterRole"): {"rules": [rule]},
        (RBAC, "ClusterRoleBinding"): binding,
        (RBAC, "Role"): {"rules": [rule]},
        (RBAC, "RoleBinding"): binding,
        ("apiextensions.k8s.io", "CustomResourceDefinition"): {"spec": _definition(f"{namespace}.example.com")},
    }
    if kind == "CustomResourceDefinition":
        name = f"things.{namespace}.example.com"
    return {"metadata": {"name": name_for(kind, name, number)}, **(rest | minimal_objects())[group, kind]}


def _nowhere() -> Object:
    body = template()
    body["spec"]["nodeSelector"] = {"no": "such-node"}
    return body


def _definition(group: str) -> Object:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {"group": group, "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"}, "versions": [version]}
