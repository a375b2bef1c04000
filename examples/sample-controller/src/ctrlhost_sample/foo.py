"""The Foo kind, and the Deployment that a Foo asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

GROUP = "samplecontroller.example.com"
API_VERSION = f"{GROUP}/v1alpha1"
KIND = "Foo"
IMAGE = "nginx:1.29"


def crd() -> dict[str, Any]:
    """Return the CustomResourceDefinition of Foo."""
    spec = {
        "type": "object",
        "required": ["deploymentName", "replicas"],
        "properties": {
            "deploymentName": {"type": "string", "minLength": 1, "maxLength": 63},
            "replicas": {"type": "integer", "minimum": 0, "maximum": 10},
        },
    }
    status = {"type": "object", "properties": {"availableReplicas": {"type": "integer"}}}
    version = {
        "name": "v1alpha1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {
            "openAPIV3Schema": {"type": "object", "required": ["spec"], "properties": {"spec": spec, "status": status}}
        },
        "additionalPrinterColumns": [
            {"name": "Deployment", "type": "string", "jsonPath": ".spec.deploymentName"},
            {"name": "Available", "type": "integer", "jsonPath": ".status.availableReplicas"},
        ],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"foos.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "foos", "singular": "foo", "kind": KIND, "listKind": "FooList"},
            "versions": [version],
        },
    }


def deployment_for(foo: Mapping[str, Any]) -> dict[str, Any]:
    """Return the Deployment that a Foo wants, with only the fields that the Foo decides."""
    labels = {"app": "nginx", "controller": foo["metadata"]["name"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": foo["spec"]["deploymentName"], "namespace": foo["metadata"]["namespace"]},
        "spec": {
            "replicas": foo["spec"]["replicas"],
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "nginx", "image": IMAGE}]},
            },
        },
    }


def agrees(actual: Any, wanted: Any) -> bool:
    """Return whether `actual` has every wanted field; other fields, such as the server's defaults, are ignored."""
    if hasattr(wanted, "items"):
        return hasattr(actual, "get") and all(agrees(actual.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return actual is not None and len(actual) == len(wanted) and all(map(agrees, actual, wanted))
    return bool(actual == wanted)
