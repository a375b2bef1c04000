"""The schemas of the built-in kinds, and what `kubectl explain` makes of them, on both servers."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from ctrlhost_sandbox.registry.builtin import builtin_kinds

from tests.support.control_plane import BINARY, KubeApiserver, SandboxControlPlane
from tests.support.http_client import Api

GROUP_VERSIONS = sorted({f"apis/{kind.api_version}" if kind.group else "api/v1" for kind in builtin_kinds()})
#: What clients use; descriptions and defaults are not compared.
KEYS = {"$ref", "additionalProperties", "enum", "format", "items", "oneOf", "required", "type"}
KEYS |= {"x-kubernetes-list-map-keys", "x-kubernetes-patch-merge-key"}
EXPLAINED = [
    *("jobs", "cronjobs", "persistentvolumes", "networkpolicies", "poddisruptionbudgets", "storageclasses"),
    *("certificatesigningrequests", "validatingadmissionpolicies", "flowschemas", "resourceslices", "apiservices"),
    *("statefulsets", "replicationcontrollers", "limitranges", "priorityclasses", "runtimeclasses"),
    "horizontalpodautoscalers --api-version=autoscaling/v1",
    "horizontalpodautoscalers --api-version=autoscaling/v2",
]


def plain(schema: Any) -> Any:
    """Return the part of a schema that is compared."""
    if isinstance(schema, list):
        return [plain(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    whole = {**schema, **(schema["allOf"][0] if len(schema.get("allOf", ())) == 1 else {})}
    facts = {key: plain(value) for key, value in whole.items() if key in KEYS}
    if "required" in facts:
        facts["required"] = sorted(facts["required"])
    if "properties" in whole:
        facts["properties"] = {name: plain(value) for name, value in whole["properties"].items()}
    return facts


def schemas(api: Api, key: str) -> dict[str, Any]:
    url = api.get("/openapi/v3").expect(200)["paths"][key]["serverRelativeURL"]
    served = api.get(url).expect(200)["components"]["schemas"]
    return {name: plain(schema) for name, schema in served.items()}


@pytest.mark.behaviour("findings/FS1")
@pytest.mark.behaviour("findings/FS1e")
@pytest.mark.parametrize("key", GROUP_VERSIONS)
def test_schemas_are_those_of_a_real_server(both: tuple[Api, Api], key: str) -> None:
    ours, theirs = (schemas(api, key) for api in both)
    # Lists and options of requests are only in the real documents.
    assert ours.keys() <= theirs.keys()
    assert ours == {name: theirs[name] for name in ours}


@pytest.mark.behaviour("findings/FS1")
@pytest.mark.behaviour("findings/FS1e")
@pytest.mark.parametrize("resource", EXPLAINED)
def test_explain_shows_the_real_fields(
    sandbox_control_plane: SandboxControlPlane, kube_apiserver: KubeApiserver, resource: str
) -> None:
    ours, theirs = (explained(server.kubeconfig, resource) for server in (sandbox_control_plane, kube_apiserver))
    assert ours == theirs
    assert len(ours) > 30


def explained(kubeconfig: Path, resource: str) -> list[str]:
    """Return the lines behind the description."""
    command = [str(BINARY), "kubectl", "--kubeconfig", str(kubeconfig), "explain", "--recursive", *resource.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.partition("FIELDS:")[2].splitlines()
