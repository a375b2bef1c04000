"""Objects that the tests create."""

from __future__ import annotations

import copy
from typing import Any


def config_map(name: str = "a", data: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": {"k": "v"} if data is None else data,
    }


def container(name: str = "a", image: str = "nginx:1", **more: Any) -> dict[str, Any]:
    return {"name": name, "image": image, **more}


def template(*containers: dict[str, Any], **labels: str) -> dict[str, Any]:
    return {"metadata": {"labels": labels or {"app": "x"}}, "spec": {"containers": list(containers) or [container()]}}


def deployment(name: str = "d", *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": template(*containers), **spec},
    }


def stateful_set(name: str = "x", **spec: Any) -> dict[str, Any]:
    body = deployment(name, **spec)
    body["kind"] = "StatefulSet"
    body["spec"].setdefault("serviceName", "svc")
    return body


def job(name: str = "j", annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a Job; the annotations are those of its pods, without their prefix."""
    pods = template()
    pods["metadata"]["annotations"] = {f"sandbox.ctrlhost.dev/{key}": text for key, text in (annotations or {}).items()}
    pods["spec"]["restartPolicy"] = spec.pop("restartPolicy", "Never")
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": pods, **spec}}


def cron_job(name: str = "c", schedule: str = "*/5 * * * *", **spec: Any) -> dict[str, Any]:
    inner = spec.pop("job", None) or job()
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name},
        "spec": {"schedule": schedule, "jobTemplate": {"spec": inner["spec"]}, **spec},
    }


def persistent_volume_claim(name: str = "c", size: str = "1Gi", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec},
    }


def service(name: str = "s", *ports: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"ports": list(ports) or [{"port": 80}], **spec},
    }


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    """Return a pod that matches no node, so it stays pending."""
    impossible = {"nodeSelector": {"no": "such-node"}, **spec}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container()], **impossible},
    }


def ingress(name: str = "i") -> dict[str, Any]:
    backend = {"service": {"name": "s", "port": {"number": 80}}}
    rule = {"host": "a.example.org", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": name},
        "spec": {"rules": [rule]},
    }


def lease(name: str = "l") -> dict[str, Any]:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name},
        "spec": {"holderIdentity": "me"},
    }


def crd(group: str, kind: str, scope: str = "Namespaced", schema: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the CRD of a kind with one version, `v1`; without a schema it accepts all fields."""
    singular = kind.lower()
    schema = schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{singular}s.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": kind, "plural": f"{singular}s", "singular": singular, "listKind": f"{kind}List"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def changed(obj: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """Return a copy with other metadata."""
    copied = copy.deepcopy(obj)
    copied["metadata"].update(metadata)
    return copied


def core(ns: str, plural: str, name: str = "") -> str:
    base = f"/api/v1/namespaces/{ns}/{plural}"
    return f"{base}/{name}" if name else base


def batch(ns: str, plural: str, name: str = "") -> str:
    base = f"/apis/batch/v1/namespaces/{ns}/{plural}"
    return f"{base}/{name}" if name else base


def apps(ns: str, plural: str, name: str = "") -> str:
    base = f"/apis/apps/v1/namespaces/{ns}/{plural}"
    return f"{base}/{name}" if name else base
