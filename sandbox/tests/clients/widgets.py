"""The objects of the commands, and a custom kind in the test's own group."""

from __future__ import annotations

import shutil
from typing import Any

from sandbox.tests.clients.shell import Shell
from tests.support.waiting import eventually

Object = dict[str, Any]


def widget(shell: Shell, name: str = "w", **spec: Any) -> Object:
    return {"apiVersion": f"{group(shell)}/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


def group(shell: Shell) -> str:
    return f"{shell.server.namespace}.example.org"


def widget_crd(shell: Shell) -> Object:
    properties = {
        "size": {"type": "integer", "minimum": 0, "description": "How large it is."},
        "color": {"type": "string"},
    }
    schema = {
        "type": "object",
        "description": "A thing.",
        "properties": {
            "spec": {"type": "object", "properties": properties, "required": ["size"]},
            "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.replicas"},
        },
        "additionalPrinterColumns": [
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
        ],
    }
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group(shell)}"},
        "spec": {"group": group(shell), "scope": "Namespaced", "names": names, "versions": [version]},
    }


def define(shell: Shell) -> str:
    """Create the kind Widget and return the full name of its resource."""
    name = f"widgets.{group(shell)}"
    shell("create", "-f", "-", objects=[widget_crd(shell)])
    shell("wait", "crd", name, "--for=condition=Established", "--timeout=20s")
    # A real server publishes the schema after it starts to serve the kind, and lists it later. kubectl needs both.
    path = f"apis/{group(shell)}/v1"
    eventually(lambda: f'"{path}"' in shell.run("get", "--raw", "/openapi/v3")[1], what=f"{path} in /openapi/v3")
    eventually(lambda: '"Widget"' in shell.run("get", "--raw", f"/openapi/v3/{path}")[1], what=f"the schema of {path}")
    # kubectl revalidates its cached /openapi/v3 by Last-Modified, which hides a change within the same second.
    shutil.rmtree(shell.home / ".kube" / "cache" / "http", ignore_errors=True)
    return name


def service(name: str = "svc", **spec: Any) -> Object:
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": ports, **spec}}


def ingress() -> Object:
    backend = {"service": {"name": "svc", "port": {"number": 80}}}
    rule = {"host": "a.example.org", "http": {"paths": [{"path": "/x", "pathType": "Prefix", "backend": backend}]}}
    spec = {"rules": [rule], "tls": [{"hosts": ["a.example.org"], "secretName": "s"}]}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "web"}, "spec": spec}
