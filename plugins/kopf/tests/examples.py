"""The kind of kopf's examples, and objects of it."""

from __future__ import annotations

from typing import Any

KIND = ("kopf.dev/v1", "KopfExample")
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def crd(*, status: bool = True) -> dict[str, Any]:
    """Return the CustomResourceDefinition, with or without the status subresource."""
    version: dict[str, Any] = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": ANYTHING, "status": ANYTHING}}},
    }
    if status:
        version["subresources"] = {"status": {}}
    names = {"kind": "KopfExample", "plural": "kopfexamples", "singular": "kopfexample", "shortNames": ["kex"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "kopfexamples.kopf.dev"},
        "spec": {"group": "kopf.dev", "scope": "Namespaced", "names": names, "versions": [version]},
    }


CRD = crd()


def example(
    name: str = "ex", *, namespace: str = "default", labels: Any = None, annotations: Any = None, **spec: Any
) -> dict[str, Any]:
    """Return an object with a spec."""
    metadata = {"name": name, "namespace": namespace, "labels": labels or {}, "annotations": annotations or {}}
    return {"apiVersion": KIND[0], "kind": KIND[1], "metadata": metadata, "spec": spec}
